"""What every workspace promises the core: the body sees its input and nothing else, and what it changed is staged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import BinaryIO

import pytest
from attrs import Factory, define, evolve

from perago_conformance.bodies import BIG, BODIES, listing
from perago_conformance.harness import WorkspaceHarness
from perago_conformance.support import FIRST, MAIN, attempt_at, contents, done, head_of, refused
from perago_core.answers import Answer, Done, NotDone
from perago_core.attempt.messages import BodyDone, BodyEvent, BodyFailed
from perago_core.ports import Sink, Stored
from perago_core.values import Attempt, CommitRef, StagedRef

ODD = {
    "räksmörgås/日本語 🙂.txt": "naïve".encode(),
    "with space/and 'quotes'.csv": b"1,2",
    "a/b/c/d/e/f/g/h.bin": bytes(range(256)),
    "-leading-dash": b"-",
    "percent%20and#hash": b"%",
    "empty": b"",
    ".hidden/file": b"hidden",
}

#: Each body that changes something, and what is staged after it.
CHANGES: Mapping[str, Mapping[str, bytes]] = {
    "add": {**FIRST, "new/räksmörgås und mehr.txt": b"added"},
    "edit": {**FIRST, "data/a.txt": b"alpha and more"},
    "same_size": {**FIRST, "data/a.txt": b"ahpla"},
    "delete": {path: data for path, data in FIRST.items() if path != "data/a.txt"},
    "delete_everything": {},
    "empty_file": {**FIRST, "empty": b""},
    "big_file": {**FIRST, "big.bin": BIG},
    "index": {**FIRST, "index.txt": listing(FIRST)},
}
UNCHANGED = ["nothing", "rewrite_the_same"]


def accepted(workspace: WorkspaceHarness, body: str, files: Mapping[str, bytes] = FIRST, run: str = "run-1") -> Attempt:
    """Take an attempt on a fresh branch."""
    attempt = attempt_at(workspace.store.create(MAIN, files), execution=run)
    workspace.accept(attempt, body)
    return attempt


def ran(workspace: WorkspaceHarness, attempt: Attempt) -> BodyEvent:
    done(workspace.port.prepare(attempt))
    return done(workspace.port.run(attempt))


def opened(workspace: WorkspaceHarness, attempt: Attempt) -> Sink:
    done(workspace.store.port.open_staging(MAIN, attempt.staging_name, attempt.input))
    return workspace.store.port.sink(MAIN, attempt.staging_name)


def staged(workspace: WorkspaceHarness, attempt: Attempt) -> StagedRef | None:
    done(workspace.port.upload(attempt, opened(workspace, attempt)))
    return done(workspace.store.port.commit(MAIN, attempt.staging_name, "staged"))


def test_the_suite_knows_what_each_body_does() -> None:
    assert {*CHANGES, *UNCHANGED, "fail", "fail_terminally"} == set(BODIES)


# ---------------------------------------------------------------------------------------------------------------------
# Body and diff


@pytest.mark.parametrize("body", CHANGES)
def test_what_a_body_changed_is_what_is_staged(workspace: WorkspaceHarness, body: str) -> None:
    attempt = accepted(workspace, body)
    event = ran(workspace, attempt)
    assert isinstance(event, BodyDone), event
    assert (event.execution, event.changed) == (attempt.execution, True)
    commit = staged(workspace, attempt)
    assert commit is not None
    assert contents(workspace.store.port.read("lake", commit.commit)) == CHANGES[body]


@pytest.mark.parametrize("body", UNCHANGED)
def test_a_body_that_leaves_the_content_as_it_was_has_changed_nothing(workspace: WorkspaceHarness, body: str) -> None:
    """P-43, S-12: the diff is by content, not by time."""
    attempt = accepted(workspace, body)
    event = ran(workspace, attempt)
    assert isinstance(event, BodyDone), event
    assert not event.changed
    assert staged(workspace, attempt) is None


def test_a_body_says_its_output_as_json(workspace: WorkspaceHarness) -> None:
    event = ran(workspace, accepted(workspace, "nothing"))
    assert isinstance(event, BodyDone), event
    json.loads(event.output)


def test_the_body_sees_every_object_of_its_input_and_nothing_else(workspace: WorkspaceHarness) -> None:
    """Odd keys come and go unharmed; whatever the workspace needs for itself lies elsewhere."""
    attempt = accepted(workspace, "index", ODD)
    assert isinstance(ran(workspace, attempt), BodyDone)
    commit = staged(workspace, attempt)
    assert commit is not None
    assert contents(workspace.store.port.read("lake", commit.commit)) == {**ODD, "index.txt": listing(ODD)}


def test_the_input_is_the_pinned_commit_and_not_the_branch(workspace: WorkspaceHarness) -> None:
    """N-08: a stranger's commit after the poll is not seen."""
    attempt = accepted(workspace, "index")
    workspace.store.stranger_commits(MAIN, {"late.txt": b"late", "keep.txt": None})
    assert isinstance(ran(workspace, attempt), BodyDone)
    commit = staged(workspace, attempt)
    assert commit is not None
    assert workspace.store.read_file("lake", commit.commit, "index.txt") == listing(FIRST)


def test_an_empty_input_is_an_input(workspace: WorkspaceHarness) -> None:
    attempt = accepted(workspace, "add", {})
    event = ran(workspace, attempt)
    assert isinstance(event, BodyDone), event
    commit = staged(workspace, attempt)
    assert commit is not None
    assert contents(workspace.store.port.read("lake", commit.commit)) == {"new/räksmörgås und mehr.txt": b"added"}


def test_running_a_body_moves_nothing_in_the_store(workspace: WorkspaceHarness) -> None:
    """P-23: a body has no verb that publishes."""
    attempt = accepted(workspace, "edit")
    ran(workspace, attempt)
    assert head_of(workspace.store) == attempt.input
    assert workspace.store.branches("lake") == {"main"}


# ---------------------------------------------------------------------------------------------------------------------
# Failure


def test_a_body_that_raises_has_failed_and_may_be_tried_again(workspace: WorkspaceHarness) -> None:
    """P-30."""
    attempt = accepted(workspace, "fail")
    event = ran(workspace, attempt)
    assert isinstance(event, BodyFailed), event
    assert (event.execution, event.terminal) == (attempt.execution, False)
    assert "the body says no" in event.reason


def test_a_body_that_says_so_has_failed_for_good(workspace: WorkspaceHarness) -> None:
    """S-36."""
    event = ran(workspace, accepted(workspace, "fail_terminally"))
    assert isinstance(event, BodyFailed), event
    assert event.terminal
    assert "trying again cannot help" in event.reason


def test_an_input_that_does_not_exist_is_not_prepared(workspace: WorkspaceHarness) -> None:
    attempt = evolve(accepted(workspace, "add"), input=CommitRef("0123456789abcdef0123456789abcdef01234567"))
    refused(workspace.port.prepare(attempt))
    done(workspace.port.remove(attempt))
    assert workspace.leftovers() == ()


def test_a_body_that_was_never_prepared_does_not_run(workspace: WorkspaceHarness) -> None:
    attempt = accepted(workspace, "add")
    assert not isinstance(workspace.port.run(attempt), Done)


def test_uploading_under_a_revoked_name_is_an_answer_and_no_error(workspace: WorkspaceHarness) -> None:
    attempt = accepted(workspace, "add")
    ran(workspace, attempt)
    sink = opened(workspace, attempt)
    done(workspace.store.port.drop(MAIN, attempt.staging_name))
    assert isinstance(workspace.port.upload(attempt, sink), NotDone)


def test_a_read_only_attempt_that_wrote_does_not_look_unchanged(workspace: WorkspaceHarness) -> None:
    """S-10."""
    attempt = evolve(accepted(workspace, "edit"), read_only=True)
    workspace.accept(attempt, "edit")
    event = ran(workspace, attempt)
    assert isinstance(event, BodyFailed) or (isinstance(event, BodyDone) and event.changed), event


def test_a_read_only_attempt_that_reads_is_fine(workspace: WorkspaceHarness) -> None:
    attempt = evolve(accepted(workspace, "nothing"), read_only=True)
    workspace.accept(attempt, "nothing")
    event = ran(workspace, attempt)
    assert isinstance(event, BodyDone), event
    assert not event.changed


# ---------------------------------------------------------------------------------------------------------------------
# Uploading


@define
class Watched:
    """A sink that is used as it is, and remembers what went through it."""

    sink: Sink
    put_paths: list[str] = Factory(list[str])
    deleted: list[str] = Factory(list[str])
    links: int = 0

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        self.put_paths.append(path)
        return self.sink.put(path, data)

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        self.links += 1
        self.deleted.extend(deleted)
        return self.sink.link(stored, deleted)

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        return self.sink.list(prefix)

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        return self.sink.seal(path, manifest)


@pytest.mark.parametrize(
    ("body", "put", "deleted"),
    [
        ("edit", ["data/a.txt"], []),
        ("add", ["new/räksmörgås und mehr.txt"], []),
        ("delete", [], ["data/a.txt"]),
        ("delete_everything", [], sorted(FIRST)),
    ],
)
def test_only_what_changed_is_uploaded_and_linked_at_once(
    workspace: WorkspaceHarness, body: str, put: list[str], deleted: list[str]
) -> None:
    attempt = accepted(workspace, body)
    ran(workspace, attempt)
    watched = Watched(opened(workspace, attempt))
    done(workspace.port.upload(attempt, watched))
    assert (sorted(watched.put_paths), sorted(watched.deleted), watched.links) == (put, deleted, 1)


# ---------------------------------------------------------------------------------------------------------------------
# What stays


def test_removing_leaves_nothing_and_is_idempotent(workspace: WorkspaceHarness) -> None:
    attempt = accepted(workspace, "edit")
    done(workspace.port.remove(evolve(attempt, execution="never-here")))
    ran(workspace, attempt)
    done(workspace.port.remove(attempt))
    done(workspace.port.remove(attempt))
    assert workspace.leftovers() == ()


@pytest.mark.parametrize("body", ["fail", "fail_terminally"])
def test_a_failed_body_leaves_nothing_either(workspace: WorkspaceHarness, body: str) -> None:
    attempt = accepted(workspace, body)
    ran(workspace, attempt)
    done(workspace.port.remove(attempt))
    assert workspace.leftovers() == ()


def test_two_executions_do_not_see_each_other(workspace: WorkspaceHarness) -> None:
    """P-40: the same attempt delivered twice, on one machine."""
    first = accepted(workspace, "edit", run="run-1")
    second = attempt_at(first.input, execution="run-2")
    workspace.accept(second, "index")
    done(workspace.port.prepare(second))
    ran(workspace, first)
    event = done(workspace.port.run(second))
    assert isinstance(event, BodyDone), event
    assert event.execution == "run-2"
    done(workspace.port.remove(first))
    commit = staged(workspace, second)
    assert commit is not None
    assert contents(workspace.store.port.read("lake", commit.commit)) == CHANGES["index"]


def test_a_retry_starts_from_the_input_and_not_from_what_failed(workspace: WorkspaceHarness) -> None:
    """A body that edits in place must poison neither the cache nor its successor."""
    first = accepted(workspace, "fail", run="run-1")
    ran(workspace, first)
    second = attempt_at(first.input, number=2, execution="run-2")
    workspace.accept(second, "edit")
    assert isinstance(ran(workspace, second), BodyDone)
    commit = staged(workspace, second)
    assert commit is not None
    assert contents(workspace.store.port.read("lake", commit.commit)) == CHANGES["edit"]


def test_preparing_twice_is_preparing(workspace: WorkspaceHarness) -> None:
    """The driver may ask again when the answer was lost."""
    attempt = accepted(workspace, "edit")
    done(workspace.port.prepare(attempt))
    done(workspace.port.prepare(attempt))
    assert isinstance(done(workspace.port.run(attempt)), BodyDone)
    commit = staged(workspace, attempt)
    assert commit is not None
    assert contents(workspace.store.port.read("lake", commit.commit)) == CHANGES["edit"]
