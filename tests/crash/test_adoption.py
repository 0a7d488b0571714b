"""A crash between publishing and reporting costs no second computation: the next attempt reports what is there."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from perago_core.answers import Done
from perago_core.pipelines import PipelineView
from perago_worker.config.load import load
from perago_worker.stack import pipelines_of
from tests.worker.projects import MAIN, Project, create, new_project

TASKS = '''
"""A task that counts how often its body runs, outside its workspace."""

from pathlib import Path

from perago_worker import Workspace, task

RUNS = Path(__file__).parent / "runs"


@task(name="write", workspace=Workspace(), retries=3, retry_delay=0.1, response_timeout=3{more})
def write(workspace: Path) -> dict[str, int]:
    with RUNS.open("a") as runs:
        runs.write("run\\n")
    number = len(RUNS.read_text().splitlines())
    (workspace / "number.txt").write_text(str(number))
    return {{"number": number}}
'''
PIPELINE = """
[pipelines.once]
repository = "lake"
steps = [{ task = "write" }]
"""


def _played(project: Project, failpoint: str) -> PipelineView:
    """Run the pipeline with a first worker that dies at a point, and others after it until all is done."""
    stack = project.stack()
    first = create(stack)
    words = pipelines_of(stack)
    assert project.process("register").returncode == 0
    pipeline = load(project.folder, {}, {}).pipelines["once"]
    workflow = words.start("once", pipeline, first, {})
    killed = project.process("worker", PERAGO_FAILPOINT=failpoint)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    until = time.monotonic() + 120
    while (view := words.view(workflow)) is not None and view.running:
        assert time.monotonic() < until, view
        assert project.process("worker", "--until-idle").returncode == 0
        time.sleep(0.1)
    assert view is not None
    return view


def _runs(project: Project) -> int:
    return len((project.folder / "runs").read_text().splitlines())


@pytest.mark.clause("S-06")
@pytest.mark.parametrize("point", ["store.publish.after 1 write", "orchestrator.report.before 1 write"])
@pytest.mark.parametrize("policy", ["auto", "disable"])
def test_a_publication_that_nobody_reported_is_reported_by_the_next_attempt_and_the_body_runs_once(
    tmp_path: Path, point: str, policy: str
) -> None:
    with new_project(tmp_path, TASKS.format(more=""), PIPELINE + f'\n[fence]\npolicy = "{policy}"\n') as project:
        view = _played(project, f"kill {point}")
        assert view.succeeded
        assert view.output["write"]["result"] == {"number": 1}
        assert _runs(project) == 1
        head = project.stack().store.head(MAIN)
        assert isinstance(head, Done)
        assert head.value is not None
        assert view.output["write"]["workspace"]["ref"] == head.value.commit.ref
        assert project.perago("verify").code == 0


def test_a_task_that_wants_it_so_computes_again_and_replaces(tmp_path: Path) -> None:
    with new_project(tmp_path, TASKS.format(more=', on_abandoned="replace"'), PIPELINE) as project:
        view = _played(project, "kill store.publish.after 1 write")
        assert view.succeeded
        assert view.output["write"]["result"] == {"number": 2}
        assert _runs(project) == 2
        assert project.perago("verify").code == 0


def test_soft_computes_again_as_the_seeds_have_it(tmp_path: Path) -> None:
    with new_project(tmp_path, TASKS.format(more=""), PIPELINE + '\n[fence]\npolicy = "soft"\n') as project:
        view = _played(project, "kill store.publish.after 1 write")
        assert view.succeeded
        assert _runs(project) == 2
