"""Processes die inside transactions of the orchestrator: all of a change is there or none, and work goes on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

import pytest

from perago_core.values import TaskStatus
from perago_local.orchestrator import SqliteOrchestrator
from perago_local.orchestrator.workflow import WorkflowStatus
from tests.local.coordinating import PROCESSES
from tests.local.crashing import Countdown, integrity, run_in_child
from tests.local.orchestrating import attempt_of, completed, done, failed, started, take

#: More than any call runs; a call that needs more ends by itself, and the test then knows that it saw them all.
STATEMENTS_MAX = 60


def report_completed(orchestrator: SqliteOrchestrator, set_countdown: Callable[[], None]) -> None:
    """Publish nothing, report: ends the task and schedules the next step in one change."""
    attempt = attempt_of(take(orchestrator, "a", "b"))
    set_countdown()
    orchestrator.report(attempt, completed("B"))


def report_failed(orchestrator: SqliteOrchestrator, set_countdown: Callable[[], None]) -> None:
    """Ends the task and schedules another attempt."""
    attempt = attempt_of(take(orchestrator, "a", "b"))
    set_countdown()
    orchestrator.report(attempt, failed())


def poll(orchestrator: SqliteOrchestrator, set_countdown: Callable[[], None]) -> None:
    """Hands a task out."""
    set_countdown()
    orchestrator.poll("w", ("a", "b"), 1)


def start(orchestrator: SqliteOrchestrator, set_countdown: Callable[[], None]) -> None:
    """Writes a workflow with its steps and its first task."""
    set_countdown()
    started(orchestrator, "a", "b", retry_count=1000, response_timeout=0.2)


@pytest.mark.parametrize("call", [report_completed, report_failed, poll, start])
def test_a_process_that_dies_before_any_statement_of_a_call_leaves_all_of_it_or_nothing(
    tmp_path: Path,
    call: Callable[[SqliteOrchestrator, Callable[[], None]], None],
) -> None:
    """L-01: whatever was left, the workflows then run to their end."""
    deaths = 0
    for statements in range(1, STATEMENTS_MAX):
        path = tmp_path / f"{statements}.db"
        with closing(SqliteOrchestrator(path)) as orchestrator:
            started(orchestrator, "a", "b", retry_count=1000, response_timeout=0.2)
        ended = run_in_child(partial(_die_at, path, call, statements))
        assert integrity(path) == "ok"
        with closing(SqliteOrchestrator(path)) as orchestrator:
            assert_whole(orchestrator)
            finish(orchestrator)
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        deaths += 1
    else:
        pytest.fail(f"the call needs more than {STATEMENTS_MAX} statements: raise the bound")
    assert deaths >= 5


def _die_at(path: Path, call: Callable[[SqliteOrchestrator, Callable[[], None]], None], statements: int) -> None:
    countdown = Countdown(signal.SIGKILL)
    with closing(SqliteOrchestrator(path)) as orchestrator:
        call(orchestrator, partial(countdown.set, statements))
        countdown.set(0)


def test_workers_killed_at_random_lose_no_workflow_and_no_accepted_result(tmp_path: Path) -> None:
    """S-01 as far as an orchestrator goes: what was shown as accepted stays accepted, whoever dies."""
    path, chance = tmp_path / "o.db", Random(7)
    with closing(SqliteOrchestrator(path)) as orchestrator:
        workflows = [started(orchestrator, "a", "b", retry_count=1000, response_timeout=0.3) for _ in range(30)]
        accepted: dict[str, str | None] = {}
        for _ in range(12):
            process = PROCESSES.Process(target=_work, args=(path,))
            process.start()
            time.sleep(chance.uniform(0.02, 0.25))
            process.kill()
            process.join()
            assert integrity(path) == "ok"
            assert_whole(orchestrator)
            for workflow_id in workflows:
                for task in orchestrator.tasks(workflow_id):
                    if task.status is TaskStatus.COMPLETED:
                        assert accepted.setdefault(task.task_id, task.result_execution) == task.result_execution
        finish(orchestrator)
        shown = {task.task_id for each in workflows for task in orchestrator.tasks(each) if task.result_execution}
        assert accepted.keys() <= shown
        assert len(shown) == 60


def _work(path: Path) -> None:
    with closing(SqliteOrchestrator(path)) as orchestrator:
        while True:
            for assignment in done(orchestrator.poll("w", ("a", "b"), 3)):
                attempt = attempt_of(assignment, f"{assignment.snapshot.task_id}-run")
                orchestrator.log(attempt.task_id, "working")
                orchestrator.report(attempt, completed("B", execution=attempt.execution))


def assert_whole(orchestrator: SqliteOrchestrator) -> None:
    """A running workflow has exactly one open task, and one that has ended has none."""
    for workflow in orchestrator.workflows(None):
        tasks = orchestrator.tasks(workflow.workflow_id)
        still_open = [task for task in tasks if task.status.is_open]
        assert len(still_open) == (1 if workflow.status is WorkflowStatus.RUNNING else 0), tasks
        if workflow.status is WorkflowStatus.COMPLETED:
            assert [task.step for task in tasks if task.status is TaskStatus.COMPLETED] == ["a", "b"]


def finish(orchestrator: SqliteOrchestrator) -> None:
    """Work until nothing is left to do; what a dead worker held comes back by its time-out."""
    while orchestrator.workflows():
        for assignment in done(orchestrator.poll("finisher", ("a", "b"), 100)):
            attempt = attempt_of(assignment, f"{assignment.snapshot.task_id}-run")
            orchestrator.report(attempt, completed("B", execution=attempt.execution))
        time.sleep(0.01)
    assert all(each.status is WorkflowStatus.COMPLETED for each in orchestrator.workflows(None))
