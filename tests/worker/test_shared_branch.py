"""Several workflows on one branch: disjoint ones never wait in vain, overlapping ones never lose a change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import pygit2
import pytest

from perago_core.answers import Done, Unknown
from perago_core.ports import Assignment
from perago_core.results import Classification, Completed, Failed, FailedTerminally, Outcome
from perago_core.values import OnConflict, Scope, TaskStatus
from perago_core.verification import Kind
from perago_worker.api.errors import TaskDefinitionError
from perago_worker.api.task import Workspace
from perago_worker.config.load import SettingsError, load
from perago_worker.ops.verify import verify
from perago_worker.pipelines.checks import check_pipeline
from perago_worker.runtime.turns import ProcessTurns
from tests.worker.embedded import Died, Embedded, Faulty, embedded
from tests.worker.isolated import commits, files
from tests.worker.projects import MAIN, new_project
from tests.worker.sharing import PIPELINES, TASKS


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "project", TASKS, PIPELINES) as made:
        yield made


class Meanwhile:
    """A store in front of which something happens once, before a call of one method."""

    def __init__(self, worker: Embedded, method: str, first: Callable[[], object]) -> None:
        self.store = Faulty(worker.stack.store, **{method: self._call})
        self._waiting: list[Callable[[], object]] = [first]

    def _call(self, real: Callable[..., Any], *words: object) -> object:
        if self._waiting:
            self._waiting.pop()()
        return real(*words)


def _completed(outcome: Outcome) -> Completed:
    assert isinstance(outcome.result, Completed), outcome
    return outcome.result


def _text(worker: Embedded, path: str) -> bytes | None:
    return files(worker.stack, worker.head()).get(path)


def _ran(file: Path) -> int:
    return len(file.read_text()) if file.exists() else 0


def test_two_workflows_with_disjoint_scopes_are_both_accepted_and_each_body_runs_once(
    worker: Embedded, tmp_path: Path
) -> None:
    """The second one is published onto the first one's commit; declared nothing, it would be refused for ever."""
    ran = tmp_path / "ran"
    for task in ("left", "right"):
        worker.start(task, text=task, ran=str(ran))
    mine, others = worker.poll(("left",)), worker.poll(("right",))
    between = Meanwhile(worker, "publish", lambda: _completed(worker.run(others)))
    result = _completed(worker.run(mine, store=between.store))
    joined, other, first = commits(worker.stack)
    assert result.ref == joined.ref == worker.head()
    assert (joined.parents[0], other.parents) == (other.ref, (first.ref,))
    assert (_text(worker, "left/l.txt"), _text(worker, "right/r.txt")) == (b"left", b"right")
    assert _ran(ran) == 2
    told = f"published {joined.ref} onto {other.ref} over 1 commit(s) of others"
    assert told in worker.words.log(mine.snapshot.task_id)
    assert told in worker.project.perago("explain", mine.snapshot.task_id, width=400).out
    assert f"onto {other.ref[:12]}, published by others" in worker.project.perago("history", "lake/main", width=200).out
    assert all(view.succeeded for view in worker.words.everything())


def _refused_for_good(worker: Embedded, outcome: Outcome) -> str:
    """Return the words of a refusal that ended its workflow at once, although it had two retries."""
    assert isinstance(outcome.result, FailedTerminally), outcome
    (task,) = next(view.attempts for view in worker.words.everything() if not view.succeeded)
    assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert outcome.result.refusal.classification.value in task.reason
    return task.reason


def test_without_a_scope_the_second_of_two_is_refused_for_good_before_its_body_runs(
    worker: Embedded, tmp_path: Path
) -> None:
    """Its input is fixed: a retry would run the whole body and be refused again, as often as there are retries."""
    ran = tmp_path / "ran"
    worker.start("plain", text="p", ran=str(ran))
    worker.start("right", text="r")
    mine, others = worker.poll(("plain",)), worker.poll(("right",))
    theirs = _completed(worker.run(others))
    said = _refused_for_good(worker, worker.run(mine))
    assert said.startswith("head-elsewhere: expected head of lake/main to be")
    assert f"{theirs.ref}, accepted from" in said
    assert "Start the run anew" in said
    assert _ran(ran) == 0


def test_whoever_is_overtaken_while_the_body_runs_is_refused_for_good_too(worker: Embedded, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    worker.start("plain", text="p", ran=str(ran))
    worker.start("right", text="r")
    mine, others = worker.poll(("plain",)), worker.poll(("right",))
    between = Meanwhile(worker, "claim", lambda: _completed(worker.run(others)))
    said = _refused_for_good(worker, worker.run(mine, store=between.store))
    assert "head-" in said
    assert _ran(ran) == 1


def test_a_strangers_commit_is_as_final_and_a_store_that_does_not_answer_is_not(worker: Embedded) -> None:
    """*Unknown* is no dead end: the attempt runs, and what it finds in the end is tried again."""
    worker.start("plain", text="p")
    mine = worker.poll(("plain",))
    repository = pygit2.Repository(str(worker.project.folder / ".perago" / "store" / "lake.git"))
    person = pygit2.Signature("a person", "person@example.org")
    tree = repository.revparse_single("refs/heads/main^{tree}").id
    repository.create_commit("refs/heads/main", person, person, "by hand", tree, [worker.first])

    def silent(_real: object, *_words: object) -> Unknown:
        return Unknown("no answer")

    quiet = worker.run(mine, store=Faulty(worker.stack.store, since=silent)).result
    assert isinstance(quiet, Failed)
    assert isinstance(worker.run(worker.poll(("plain",))).result, FailedTerminally)


def test_a_body_sees_what_it_declares_and_nothing_else(worker: Embedded) -> None:
    worker.start("left", text="a")
    first = _completed(worker.run())
    worker.start("right", first.ref, text="b")
    second = _completed(worker.run())
    assert json.loads(second.output) == {"files": []}
    worker.start("join", second.ref)
    assert json.loads(_completed(worker.run()).output) == {"files": ["both/b.txt", "left/l.txt", "right/r.txt"]}
    assert _text(worker, "both/b.txt") == b"a b"


def test_what_is_written_outside_the_declared_folders_is_refused_and_named(worker: Embedded) -> None:
    worker.start("stray", text="s")
    failed = worker.run().result
    assert isinstance(failed, Failed)
    assert "elsewhere/e.txt" in failed.refusal.actual
    assert "`writes`" in failed.refusal.actual
    assert worker.head() == worker.first


def test_a_conflict_found_before_the_body_begins_at_the_newest_accepted_commit(
    worker: Embedded, tmp_path: Path
) -> None:
    """It was started at the first commit; what it reads was changed since, and it reads what is there now."""
    ran = tmp_path / "ran"
    worker.start("join", worker.first, ran=str(ran))
    mine = worker.poll(("join",))
    worker.start("left", text="new")
    _completed(worker.run(worker.poll(("left",))))
    _completed(worker.run(mine))
    assert _text(worker, "both/b.txt") == b"new"
    assert _ran(ran) == 1
    assert any("pinned again" in line for line in worker.words.log(mine.snapshot.task_id))


def _overlapped(worker: Embedded, task: str, ran: Path) -> tuple[Assignment, Outcome]:
    """Let somebody change what a task reads while its body has run already."""
    worker.start(task, ran=str(ran))
    worker.start("left", text="theirs")
    mine, others = worker.poll((task,)), worker.poll(("left",))
    between = Meanwhile(worker, "open_staging", lambda: _completed(worker.run(others)))
    return mine, worker.run(mine, store=between.store)


def test_a_conflict_found_after_the_body_runs_it_again_on_the_newest_accepted_commit(
    worker: Embedded, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    _, outcome = _overlapped(worker, "join", ran)
    assert isinstance(outcome.result, Failed)
    assert outcome.result.refusal.classification is Classification.CONFLICT
    assert "left/l.txt by" in outcome.result.refusal.actual
    _completed(worker.run(worker.poll(("join",))))
    assert (_text(worker, "both/b.txt"), _ran(ran)) == (b"theirs", 2)


def test_a_task_may_fail_for_good_on_a_conflict_and_names_the_paths_and_who_wrote_them(
    worker: Embedded, tmp_path: Path
) -> None:
    _, outcome = _overlapped(worker, "adamant", tmp_path / "ran")
    assert isinstance(outcome.result, FailedTerminally)
    assert "left/l.txt by left" in outcome.result.refusal.actual
    assert _text(worker, "firm/f.txt") is None


def test_an_attempt_waits_for_an_unaccepted_publication_and_loses_no_retry(worker: Embedded) -> None:
    """The other one has published and not reported yet; once it is accepted, this one goes on, and says so."""
    worker.start("left", text="l")
    worker.start("right", text="r")
    mine, others = worker.poll(("left",)), worker.poll(("right",))
    looked, outcomes = Semaphore(0), list[Outcome]()

    def counted(real: Callable[..., Any], *words: object) -> object:
        looked.release()
        return real(*words)

    # In a worker of its own: the writers of one take turns.
    parts = {"store": Faulty(worker.stack.store, since=counted), "turns": ProcessTurns()}
    waiting = Thread(target=lambda: outcomes.append(worker.run(mine, **parts)))

    def late(real: Callable[..., Any], *words: object) -> object:
        waiting.start()
        for _ in range(4):  # before its work once, and then again and again
            assert looked.acquire(timeout=60)
        return real(*words)

    _completed(worker.run(others, orchestrator=Faulty(worker.orchestrator, report=late)))
    waiting.join(60)
    assert _completed(outcomes[0]).ref == worker.head()
    assert mine.snapshot.retry_count == 0
    assert f" s for {others.logical_task}" in "".join(worker.words.log(mine.snapshot.task_id))
    assert (_text(worker, "left/l.txt"), _text(worker, "right/r.txt")) == (b"l", b"r")


def _killed_after(worker: Embedded, task: str, ran: Path) -> Assignment:
    """Let a worker publish and die before it has reported."""
    worker.start(task, text="killed", ran=str(ran))
    mine = worker.poll((task,))

    def die(*_words: object) -> object:
        raise Died

    with pytest.raises(Died):
        worker.run(mine, orchestrator=Faulty(worker.orchestrator, report=die))
    return mine


def test_a_retry_adopts_its_publication_also_below_those_of_others(worker: Embedded, tmp_path: Path) -> None:
    """A stranger commits on top of what a killed attempt has published; the next one reports it and runs nothing."""
    ran = tmp_path / "ran"
    _killed_after(worker, "left", ran)
    published = worker.head()
    repository = pygit2.Repository(str(worker.project.folder / ".perago" / "store" / "lake.git"))
    by = pygit2.Signature("somebody", "somebody@example.org")
    tree = repository[published].peel(pygit2.Commit).tree_id
    repository.create_commit("refs/heads/main", by, by, "a person's", tree, [pygit2.Oid(hex=published)])
    outcome = worker.run(worker.poll(("left",)))
    assert (_completed(outcome).ref, outcome.adopted) == (published, True)
    assert _ran(ran) == 1
    assert worker.head() != published


def test_nobody_takes_off_what_a_dead_writer_left_and_its_retry_unblocks_the_branch(
    worker: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perago_core.attempt.run.TURN_LONGEST", 0.2)
    _killed_after(worker, "left", tmp_path / "ran")
    published = worker.head()
    worker.start("right", text="r")
    blocked = worker.run(worker.poll(("right",))).result
    assert isinstance(blocked, Failed)
    assert blocked.refusal.classification is Classification.UNACCEPTED_IN_THE_WAY
    assert "perago retry" in blocked.refusal.next_action
    assert worker.head() == published
    _completed(worker.run(worker.poll(("left",))))
    _completed(worker.run(worker.poll(("right",))))
    assert (_text(worker, "left/l.txt"), _text(worker, "right/r.txt")) == (b"killed", b"r")


def test_a_publication_that_got_no_answer_is_found_below_those_of_others(worker: Embedded) -> None:
    worker.start("left", text="l")
    worker.start("right", text="r")
    mine, others = worker.poll(("left",)), worker.poll(("right",))

    def lost(real: Callable[..., Any], *words: object) -> object:
        assert isinstance(real(*words), Done)
        return Unknown("no answer in time")

    result = _completed(worker.run(mine, store=Faulty(worker.stack.store, publish=lost)))
    assert result.ref == worker.head()
    _completed(worker.run(others))


def test_verify_proves_joined_work_and_who_adopted_it_and_names_what_nobody_accepted(
    worker: Embedded,
) -> None:
    """One attempt dies after publishing onto another's commit, and the next one adopts what it left."""
    worker.start("left", worker.first, text="killed")
    worker.start("right", worker.first, text="r")
    _completed(worker.run(worker.poll(("right",))))
    mine = worker.poll(("left",))

    def die(*_words: object) -> object:
        raise Died

    with pytest.raises(Died):
        worker.run(mine, orchestrator=Faulty(worker.orchestrator, report=die))
    joined = worker.head()
    found = worker.project.perago("verify", "lake/main", "--json").data
    assert [each["kind"] for each in found["commits"][:2]] == [Kind.UNDER_WAY.value, Kind.ACCEPTED.value]
    _completed(worker.run(worker.poll(("left",))))
    proved = worker.project.perago("verify", "lake/main", width=200)
    assert (proved.code, "2 accepted results are there, in order, once" in proved.out) == (0, True)
    verdict = verify(worker.stack, worker.words, MAIN)
    assert [each.commit.ref for each in verdict.findings[:1]] == [joined]
    assert [each.whose for each in verdict.findings[:1]] == [mine.logical_task]


def test_two_pipelines_side_by_side_from_the_command_line_are_both_accepted(tmp_path: Path) -> None:
    """Two processes at once, on a branch that neither of them has for itself."""
    with new_project(tmp_path / "project", TASKS, PIPELINES) as project:
        assert project.perago("run", "lefts", "--param", "text=a").code == 0
        with ThreadPoolExecutor(2) as pool:
            begun = [pool.submit(project.process, "run", each, "--param", "text=b") for each in ("lefts", "rights")]
            ran = [each.result() for each in begun]
        assert [each.returncode for each in ran] == [0, 0], [each.stderr for each in ran]
        assert "already runs on" not in "".join(each.stderr for each in ran)
        stack = project.stack()
        found = files(stack, commits(stack)[0].ref)
        assert (found["left/l.txt"], found["right/r.txt"]) == (b"b", b"b")


def test_steps_side_by_side_may_all_write_if_they_are_disjoint(tmp_path: Path) -> None:
    """The step after them declares to read what both have written, and begins where both are."""
    with new_project(tmp_path / "project", TASKS, PIPELINES) as project:
        ran = project.perago("run", "fan")
        assert ran.code == 0, ran.err
        stack = project.stack()
        assert files(stack, commits(stack)[0].ref)["both/b.txt"] == b"hello hello"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("[{ parallel = [{ task = 'left' }, { task = 'plain' }] }]", "declare in their Workspace"),
        ("[{ parallel = [{ task = 'left' }, { task = 'stray' }] }]", "one writes 'left/'"),
        ("[{ parallel = [{ task = 'left' }, { task = 'join' }] }]", "one writes 'left/'"),
        ("[{ parallel = [{ task = 'left' }, { task = 'right' }] }, { task = 'plain' }]", "would see what one of them"),
    ],
)
def test_writers_side_by_side_that_would_meet_are_refused_before_anything_starts(
    tmp_path: Path, steps: str, said: str
) -> None:
    more = f'[pipelines.wrong]\nrepository = "lake"\nsteps = {steps}\n'
    with embedded(tmp_path / "project", TASKS, more) as worker:
        pipeline = load(worker.project.folder, {}, {}).pipelines["wrong"]
        with pytest.raises(SettingsError, match=said):
            check_pipeline("wrong", pipeline, worker.tasks)


def test_a_pipeline_declares_reads_and_writes_for_its_tasks(tmp_path: Path) -> None:
    more = """
[pipelines.shared]
repository = "lake"
steps = [{ task = "plain" }]
reads = ["left"]
writes = ["plain"]
on_conflict = "fail"
"""
    tasks = TASKS.replace('Workspace(prefix="plain")', "Workspace()").replace('"p.txt"', '"plain/p.txt"')
    with embedded(tmp_path / "project", tasks, more) as worker:
        definition = worker.tasks["plain"]
        assert definition.scope == Scope(("left/",), ("plain/",))
        assert definition.on_conflict is OnConflict.FAIL
    with new_project(tmp_path / "two", tasks, more + more.replace("shared", "other").replace('"left"', '"x"')) as two:
        told = two.perago("check")
        assert told.code != 0
        assert "Declare them in its Workspace" in told.out + told.err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"prefix": "sales", "reads": ["other"]}, "inside the workspace's prefix"),
        ({"read_only": True, "writes": ["x"]}, "a read-only workspace writes nothing"),
        ({"reads": "sales"}, "a list of folders"),
    ],
)
def test_a_scope_that_cannot_be_meant_is_refused_where_it_is_declared(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskDefinitionError, match=said):
        Workspace(**wrong)
