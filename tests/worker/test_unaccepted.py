"""A run that failed for good after it had published: nobody takes that for accepted, and it can be taken back."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_core.answers import Done
from perago_core.values import CommitRef
from perago_worker.config.load import load
from perago_worker.pipelines.protocol import pipelines_of
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


def test_an_unaccepted_head_stays_recoverable_whoever_starts(left: tuple[Project, CommitRef]) -> None:
    """A3: any starting worker settled it as abandoned, and then nothing could take it back."""
    project, start = left
    published = head(project)
    for _ in range(2):
        assert project.process("worker", "--until-idle").returncode == 0
    assert head(project) == published
    looked = project.perago("recover", width=400)
    assert looked.code == 0
    assert "never accepted" in looked.out
    (operation,) = [each["operation"] for each in project.perago("recover", "--json").data]
    assert project.perago("recover", "--roll-back").code == 0
    assert head(project) == start
    (record,) = project.perago("audit", "--json").data
    assert (record["operation"], record["kind"]) == (operation, "rolled back")
    assert "nothing to recover" in project.perago("recover").out


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
