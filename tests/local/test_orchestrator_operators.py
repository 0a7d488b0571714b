"""What operators and pipelines do to the embedded orchestrator, what it refuses, and what people see."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from perago_core.answers import Done, NotDone
from perago_core.values import TaskStatus
from perago_local.orchestrator import OrchestratorError, SqliteOrchestrator
from perago_local.orchestrator.deliveries import OUTPUT_MAX
from perago_local.orchestrator.workflow import Step, TaskDefinition, WorkflowStatus
from tests.local.orchestrating import (
    REF,
    TARGET,
    attempt_of,
    completed,
    done,
    failed,
    reloaded,
    started,
    status,
    take,
)

# ---- operators


def test_termination_cancels_what_is_open_and_ignores_what_comes_later(orchestrator: SqliteOrchestrator) -> None:
    """N-07, conductor.md 1.4."""
    workflow_id = started(orchestrator, "a", "b")
    attempt = attempt_of(take(orchestrator, "a"))
    orchestrator.terminate(workflow_id, "wrong day")
    found = reloaded(orchestrator, attempt)
    assert found is not None
    assert (found.status, found.workflow_running) == (TaskStatus.CANCELED, False)
    assert orchestrator.report(attempt, completed("B")) == Done(None)
    assert orchestrator.tasks(workflow_id)[0].result_ref is None
    assert done(orchestrator.poll("w", ("a", "b"), 10)) == ()
    orchestrator.terminate(workflow_id, "again")
    shown = orchestrator.workflow(workflow_id)
    assert shown is not None
    assert (shown.status, shown.reason) == (WorkflowStatus.TERMINATED, "wrong day")


def test_a_task_nobody_knows_is_refused_and_shown_as_gone(orchestrator: SqliteOrchestrator) -> None:
    started(orchestrator, "t")
    attempt = attempt_of(take(orchestrator, "t"))
    assert done(orchestrator.reload(attempt.workflow_id, "no-such")) is None
    assert done(orchestrator.reload("another", attempt.task_id)) is None
    gone = evolve(attempt, task_id="no-such")
    assert isinstance(orchestrator.report(gone, completed("B")), NotDone)
    assert isinstance(orchestrator.extend(gone), NotDone)


@pytest.mark.parametrize(("verb", "arguments"), [("retry", ()), ("rerun", ("t",))])
def test_a_running_workflow_is_not_started_again(
    orchestrator: SqliteOrchestrator,
    verb: str,
    arguments: tuple[str, ...],
) -> None:
    workflow_id = started(orchestrator, "t")
    with pytest.raises(OrchestratorError, match="terminate it first"):
        getattr(orchestrator, verb)(workflow_id, *arguments)


def test_what_cannot_be_done_is_said(orchestrator: SqliteOrchestrator) -> None:
    workflow_id = started(orchestrator, "t")
    attempt = attempt_of(take(orchestrator, "t"))
    orchestrator.report(attempt, completed("B"))
    with pytest.raises(OrchestratorError, match="nothing to hand out"):
        orchestrator.requeue(attempt.task_id)
    with pytest.raises(OrchestratorError, match="nothing to retry"):
        orchestrator.retry(workflow_id)
    with pytest.raises(OrchestratorError, match="steps: t"):
        orchestrator.rerun(workflow_id, "typo")
    with pytest.raises(OrchestratorError, match="no-such"):
        orchestrator.terminate("no-such")
    with pytest.raises(OrchestratorError, match="known: t"):
        orchestrator.start_workflow("w", (Step("s", "unregistered"),), target=TARGET, ref=REF)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: Step("params", "t"), id="a step called params"),
        pytest.param(lambda: Step("a b", "t"), id="a step that cannot be quoted"),
        pytest.param(lambda: Step("a", "t", "[1]"), id="parameters that are a list"),
        pytest.param(lambda: Step("a", "t", "{"), id="parameters that are no JSON"),
        pytest.param(lambda: TaskDefinition("t", response_timeout=0.0), id="no time to respond"),
        pytest.param(lambda: TaskDefinition("t", response_timeout=float("inf")), id="endless time to respond"),
        pytest.param(lambda: TaskDefinition("t", retry_count=-1), id="fewer than no retries"),
        pytest.param(lambda: TaskDefinition(""), id="a task without a name"),
    ],
)
def test_a_malformed_definition_cannot_be_made(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"must|expected"):
        wrong()


def test_a_workflow_needs_steps_with_different_names_and_both_target_and_ref(orchestrator: SqliteOrchestrator) -> None:
    orchestrator.register(TaskDefinition("t"))
    with pytest.raises(ValueError, match="at least one step"):
        orchestrator.start_workflow("w", ())
    with pytest.raises(ValueError, match="name of its own"):
        orchestrator.start_workflow("w", (Step("a", "t"), Step("a", "t")))
    with pytest.raises(ValueError, match="both a target and a ref"):
        orchestrator.start_workflow("w", (Step("a", "t"),), target=TARGET)


# ---- what people see


def test_an_output_over_the_limit_fails_the_task_for_good(orchestrator: SqliteOrchestrator) -> None:
    """conductor.md 4: answered like any result, and the task fails."""
    workflow_id = started(orchestrator, "t")
    attempt = attempt_of(take(orchestrator, "t"))
    too_much = json.dumps("x" * OUTPUT_MAX)
    assert orchestrator.report(attempt, completed("B", too_much)) == Done(None)
    (task,) = orchestrator.tasks(workflow_id)
    assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert (task.output, task.result_ref) == (None, None)
    assert "put large data into the workspace" in task.reason


def test_logs_come_back_in_order_and_any_text_can_be_one(orchestrator: SqliteOrchestrator) -> None:
    started(orchestrator, "t")
    attempt = attempt_of(take(orchestrator, "t"))
    orchestrator.log(attempt.task_id, "first", "half a pair: \ud800")
    orchestrator.log(attempt.task_id, "x" * 20_000)
    lines = orchestrator.logs(attempt.task_id)
    assert [line.line for line in lines[:2]] == ["first", "half a pair: \\ud800"]
    assert len(lines[2].line) == 10_000
    assert orchestrator.logs("another") == ()


def test_status_shows_what_runs_and_what_ran(orchestrator: SqliteOrchestrator) -> None:
    running = started(orchestrator, "t")
    ended = started(orchestrator, "t")
    orchestrator.terminate(ended)
    assert [each.workflow_id for each in orchestrator.workflows()] == [running]
    assert {each.workflow_id for each in orchestrator.workflows(None)} == {running, ended}
    (task,) = orchestrator.open_tasks()
    assert orchestrator.task(task.task_id) == task
    assert (task.workflow_id, task.step, task.status) == (running, "t", TaskStatus.SCHEDULED)
    assert [each.name for each in orchestrator.definitions()] == ["t"]


def test_a_running_workflow_keeps_the_definition_it_started_with(orchestrator: SqliteOrchestrator) -> None:
    """conductor.md 1.2: the definition is embedded when the workflow starts."""
    workflow_id = started(orchestrator, "t", retry_count=1)
    orchestrator.register(TaskDefinition("t", retry_count=0))
    orchestrator.report(attempt_of(take(orchestrator, "t")), failed())
    assert status(orchestrator, workflow_id) is WorkflowStatus.RUNNING


def test_the_file_is_readable_by_its_owner_only(orchestrator: SqliteOrchestrator, tmp_path: Path) -> None:
    started(orchestrator, "t")
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
