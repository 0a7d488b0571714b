"""A run that failed for good after it had published: nobody takes that for accepted, and it can be taken back."""

from __future__ import annotations

import shlex
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_core.answers import Done
from perago_core.values import CommitRef
from perago_worker.config.load import load
from perago_worker.stack import pipelines_of
from tests.worker.projects import MAIN, TASKS, Project, create, new_project

#: No second attempt, and given up soon.
ONCE = TASKS.replace("retries=2, retry_delay=0.1, response_timeout=20", "retries=0, response_timeout=2")
LEAVES = """
[pipelines.leaves]
repository = "lake"
roll_back_failed = {rolls_back}
steps = [{{ task = "write", params = {{ count = 3, text = "${{params.text}}" }} }}]
"""


def failed(folder: Path, *, rolls_back: bool) -> Iterator[tuple[Project, CommitRef]]:
    """A worker published and was killed; there is no second attempt, and the workflow has failed."""
    with new_project(folder, ONCE, LEAVES.format(rolls_back=str(rolls_back).lower())) as project:
        stack = project.stack()
        start = create(stack)
        words = pipelines_of(stack)
        assert project.process("register").returncode == 0
        pipeline = load(project.folder, {}, {}).pipelines["leaves"]
        workflow = words.start("leaves", pipeline, start, {"text": "a"})
        killed = project.process("worker", PERAGO_FAILPOINT="kill store.publish.after 1 write")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert head(project) != start
        until = time.monotonic() + 30
        while (view := words.view(workflow)) is not None and view.running:
            assert time.monotonic() < until
            stack.orchestrator.poll("nobody", ("write",), 1)
            time.sleep(0.1)
        yield project, start


@pytest.fixture
def left(tmp_path: Path) -> Iterator[tuple[Project, CommitRef]]:
    """Who fails leaves it to people."""
    yield from failed(tmp_path, rolls_back=False)


@pytest.fixture
def tidy(tmp_path: Path) -> Iterator[tuple[Project, CommitRef]]:
    """Who fails leaves nothing behind."""
    yield from failed(tmp_path, rolls_back=True)


def head(project: Project) -> CommitRef:
    found = project.stack().store.head(MAIN)
    assert isinstance(found, Done)
    assert found.value is not None
    return found.value.commit.ref


def advised(text: str, option: str) -> tuple[str, ...]:
    """Give the words of the advised command that has this option, as a person would type them."""
    flat = " ".join(text.split())
    (found,) = [each for each in flat.split("`") if each.startswith("perago ") and option in each]
    return tuple(shlex.split(found)[1:])


def test_an_unaccepted_head_stays_recoverable_whoever_starts_and_every_command_says_so(
    left: tuple[Project, CommitRef],
) -> None:
    """A3: any starting worker settled it as abandoned, then nothing could take it back, and it looked accepted."""
    project, start = left
    published = head(project)
    for _ in range(2):
        assert project.process("worker", "--until-idle").returncode == 0
    assert head(project) == published
    looked = project.perago("recover", width=400)
    assert looked.code == 0
    assert "never accepted" in looked.out
    newest, first = project.perago("history", "--json").data
    assert (newest["ref"], newest["never_accepted"], first["never_accepted"]) == (published, True, False)
    assert "never accepted" in project.perago("history").out
    assert "never accepted" in project.perago("status").err
    (view,) = project.views()
    explained = project.perago("explain", view.attempts[0].task_id).out
    assert "which nobody accepted" in " ".join(explained.split())
    unproved = project.perago("verify", width=400)
    assert (unproved.code, f"never accepted: {published}" in unproved.out) == (1, True)

    (operation,) = [each["operation"] for each in project.perago("recover", "--json").data]
    assert project.perago("recover", "--roll-back").code == 0
    assert head(project) == start
    (record,) = project.perago("audit", "--json", "--kind", "rolled back", "--target", str(MAIN)).data
    assert record["operation"] == operation
    assert project.perago("audit", "--json", "--kind", "accepted").data == []
    assert project.perago("audit", "--json", "--target", "lake/other").data == []
    assert project.perago("audit", "--json", "--actor", record["worker"]).data == [record]
    assert project.perago("audit", "--json", "--actor", "nobody of this name").data == []
    assert "expected --kind to be one of" in project.perago("audit", "--kind", "lost").err
    assert "nothing to recover" in project.perago("recover").out
    assert project.perago("verify").code == 0


def test_what_the_orchestrator_has_forgotten_is_settled_by_the_advised_command(
    left: tuple[Project, CommitRef],
) -> None:
    """It refused the target for ever, with advice that no command carried out."""
    project, start = left
    database = sqlite3.connect(project.folder / ".perago" / "orchestrator.db")
    for table in ("task", "step", "workflow"):
        database.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own tables
    database.commit()
    database.close()
    refused = project.perago("recover", "--settle", width=400)
    assert refused.code == 1
    assert "does not know task" in refused.out
    words = [word if word != "TEXT" else "the run was given up" for word in advised(refused.out, "--settle-gone")]
    words[words.index("accepted")] = "not-accepted"
    told = project.perago(*words, width=400)
    assert "never accepted" in told.out
    words.append("--roll-back")
    assert project.perago(*words).code == 0
    assert head(project) == start
    assert project.perago("run", "leaves", "--param", "text=a").code == 0


def test_no_run_begins_on_an_unaccepted_head_and_the_advice_helps(left: tuple[Project, CommitRef]) -> None:
    """A3: the next run started from it, changed nothing, and reported it as its own result."""
    project, start = left
    published = head(project)
    refused = project.perago("run", "leaves", "--param", "text=a", width=400)
    assert refused.code == 2
    assert "nothing was started" in refused.err
    assert head(project) == published
    assert project.perago(*advised(refused.err, "--roll-back")).code == 0
    assert head(project) == start
    assert project.perago("run", "leaves", "--param", "text=a").code == 0
    assert head(project) not in {start, published}


def test_an_unaccepted_head_can_be_kept(left: tuple[Project, CommitRef]) -> None:
    project, start = left
    published = head(project)
    refused = project.perago("run", "leaves", "--param", "text=a", width=400)
    words = [word if word != "TEXT" else "the team wants it" for word in advised(refused.err, "--keep")]
    assert project.perago(*words).code == 0
    (record,) = project.perago("audit", "--json").data
    assert record["kind"] == "abandoned"
    assert "on these grounds: the team wants it" in record["settled_by"]
    assert project.perago("run", "leaves", "--param", "text=b").code == 0
    assert head(project) not in {start, published}


def test_a_starting_worker_takes_it_back(tidy: tuple[Project, CommitRef]) -> None:
    project, start = tidy
    assert project.process("worker", "--until-idle").returncode == 0
    assert head(project) == start
    (record,) = project.perago("audit", "--json").data
    assert record["kind"] == "rolled back"


def test_the_next_run_takes_it_back_first(tidy: tuple[Project, CommitRef]) -> None:
    project, start = tidy
    ran = project.perago("run", "leaves", "--param", "text=a", width=200)
    assert (ran.code, "took back what a failed run had published" in ran.err) == (0, True), ran
    stack = project.stack()
    seen = stack.store.head(MAIN)
    assert isinstance(seen, Done)
    assert seen.value is not None
    assert seen.value.commit.parents == (start,)
