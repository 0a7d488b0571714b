"""What people declare of a pipeline, and what they are shown of a run."""

from __future__ import annotations

import pytest
from attrs import frozen

from perago_core.answers import NotDoneError
from perago_core.names import branch_of_a_run, is_staging_name, run_branch, run_of
from perago_core.pipelines import (
    AttemptView,
    DeclaredStep,
    PipelineView,
    Place,
    RunLine,
    Step,
    quoted,
    recovery_task_name,
    stages_of,
    steps_of,
)
from perago_core.values import CommitRef, Target, TaskStatus


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


@frozen
class _Pipeline:
    isolated: bool
    stages: tuple[tuple[DeclaredStep, ...], ...] = ((Step("a", "t", {}),), (Step("b", "t", {}), Step("c", "t", {})))
    repository: str = "lake"
    branch: str = "main"
    recovery: bool = True


def test_an_isolated_run_begins_by_making_its_branch_and_ends_by_promoting_what_was_left_there() -> None:
    plain, isolated = (steps_of("orders", _Pipeline(isolated=each)) for each in (False, True))
    assert [each.label for each in plain] == ["a", "b", "c"]
    first, *between, last = isolated
    assert tuple(between) == plain
    assert (first.place, last.place) == (Place.RUN, Place.START)
    assert dict(last.params) == {"run": "${c.workspace}"}
    assert [len(each) for each in stages_of("orders", _Pipeline(isolated=True))] == [1, 1, 2, 1]
    assert not {each.task for each in steps_of("returns", _Pipeline(isolated=True))} & {first.task, last.task}


def test_the_branch_of_a_run_says_whose_it_is_and_is_nobody_elses() -> None:
    branch = run_branch("orders-0a1b")
    assert run_of(branch) == "orders-0a1b"
    assert not is_staging_name(branch)
    assert branch_of_a_run(Target("lake", branch)) == branch
    for other in ("main", "perago_run-", "perago_run-a/b", "perago-run-a"):
        assert run_of(other) is None
        with pytest.raises(NotDoneError, match="not ours to change"):
            branch_of_a_run(Target("lake", other))
    with pytest.raises(ValueError, match="expected a workflow id"):
        run_branch("a/b")


def test_a_run_shows_the_branch_of_its_own_once_it_has_one() -> None:
    own = {"workspace": {"repository": "lake", "branch": run_branch("w"), "ref": "A"}}
    assert PipelineView("w", "orders", "RUNNING").branch_of_its_own is None
    assert PipelineView("w", "orders", "RUNNING", output={"add": {"result": 1}}).branch_of_its_own is None
    seen = PipelineView("w", "orders", "RUNNING", output={"add": {"result": 1}, "open-run": own})
    assert seen.branch_of_its_own == Target("lake", run_branch("w"))
    assert PipelineView("other", "orders", "RUNNING", output={"open-run": own}).branch_of_its_own is None
