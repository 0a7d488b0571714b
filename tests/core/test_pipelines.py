"""What people declare of a pipeline, and what they are shown of a run."""

from __future__ import annotations

import pytest

from perago_core.pipelines import AttemptView, PipelineView, RunLine, quoted, recovery_task_name
from perago_core.values import CommitRef, TaskStatus


def test_quotations_are_found_however_deep() -> None:
    params = {"a": ["${x.result}", {"b": "from ${y.result.n} to ${params.end}"}], "c": 1}
    assert list(quoted(params)) == ["x.result", "y.result.n", "params.end"]


@pytest.mark.parametrize(
    ("status", "running", "succeeded"),
    [("RUNNING", True, False), ("PAUSED", True, False), ("COMPLETED", False, True), ("TIMED_OUT", False, False)],
)
def test_a_paused_workflow_runs_and_only_a_completed_one_succeeded(status: str, running: bool, succeeded: bool) -> None:
    view = PipelineView("w", "orders", status)
    assert (view.running, view.succeeded) == (running, succeeded)
    assert RunLine("w", "orders", status, 1, 0, 0).running == running


def test_a_run_goes_on_from_what_was_accepted_last_or_from_where_it_was_started() -> None:
    """What a failed attempt published is nothing to go on from."""
    failed = AttemptView("t-3", "clean", 1, TaskStatus.FAILED, ref="F")
    done = tuple(AttemptView(f"t-{each}", f"s{each}", 1, TaskStatus.COMPLETED, ref=each) for each in "AB")
    assert PipelineView("w", "orders", "FAILED", "", (*done, failed), ref=CommitRef("I")).reached == "B"
    assert PipelineView("w", "orders", "FAILED", "", (failed,), ref=CommitRef("I")).reached == "I"
    assert PipelineView("w", "orders", "FAILED").reached is None


def test_each_pipeline_has_a_recovery_task_of_its_own() -> None:
    assert recovery_task_name("orders") != recovery_task_name("returns")
