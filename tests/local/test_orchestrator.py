"""The embedded orchestrator keeps what conductor.md 1 says a runtime relies on, and ADR 5 and 12."""

from __future__ import annotations

import json
from pathlib import Path

from perago_core.answers import Done
from perago_core.values import TaskStatus
from perago_local.orchestrator import SqliteOrchestrator
from perago_local.orchestrator.workflow import Backoff, Step, TaskDefinition, WorkflowStatus
from tests.local.orchestrating import (
    REF,
    TARGET,
    HandClock,
    attempt_of,
    completed,
    done,
    failed,
    failed_terminally,
    reloaded,
    started,
    status,
    take,
)

# ---- steps


def test_the_ref_of_a_step_is_the_input_of_the_next_and_the_last_one_ends_the_workflow(
    orchestrator: SqliteOrchestrator,
) -> None:
    workflow_id = started(orchestrator, "clean", "join")
    first = take(orchestrator, "clean", "join")
    assert json.loads(first.input)["workspace"] == {
        "repository": "lake",
        "branch": "main",
        "refType": "commit",
        "ref": "A",
    }
    assert done(orchestrator.poll("w2", ("clean", "join"), 10)) == ()
    orchestrator.report(attempt_of(first), completed("B", '{"rows": 3}'))
    second = take(orchestrator, "clean", "join")
    assert (second.task_name, second.logical_task) == ("join", f"{workflow_id}/join")
    assert json.loads(second.input)["workspace"]["ref"] == "B"
    orchestrator.report(attempt_of(second), completed("C"))
    found = orchestrator.workflow(workflow_id)
    assert found is not None
    assert found.status is WorkflowStatus.COMPLETED
    output = json.loads(found.output)
    assert output["clean"]["result"] == {"rows": 3}
    assert output["join"]["workspace"]["ref"] == "C"
    assert orchestrator.open_tasks() == ()


def test_a_step_quotes_parameters_and_earlier_results(orchestrator: SqliteOrchestrator) -> None:
    for name in ("a", "b"):
        orchestrator.register(TaskDefinition(name))
    steps = (
        Step("a", "a"),
        Step(
            "b",
            "b",
            {"rows": "${a.result.rows}", "title": "${params.day}: ${a.result.rows} rows", "deep": ["${a.result}"]},
        ),
    )
    orchestrator.start_workflow("w", steps, {"day": "monday"}, target=TARGET, ref=REF)
    first = take(orchestrator, "a")
    assert json.loads(first.input)["params"] == {"day": "monday"}
    orchestrator.report(attempt_of(first), completed("B", '{"rows": 3}'))
    params = json.loads(take(orchestrator, "b").input)["params"]
    assert params == {"rows": 3, "title": "monday: 3 rows", "deep": [{"rows": 3}]}


def test_a_quotation_of_what_is_not_there_fails_the_workflow_and_says_what_is(orchestrator: SqliteOrchestrator) -> None:
    orchestrator.register(TaskDefinition("a"))
    steps = (Step("a", "a"), Step("b", "a", {"n": "${a.result.lines}"}))
    workflow_id = orchestrator.start_workflow("w", steps, target=TARGET, ref=REF)
    orchestrator.report(attempt_of(take(orchestrator, "a")), completed("B", '{"rows": 3}'))
    found = orchestrator.workflow(workflow_id)
    assert found is not None
    assert found.status is WorkflowStatus.FAILED
    assert "${a.result.lines}" in found.reason
    assert "rows" in found.reason


def test_a_workflow_without_a_target_gives_its_tasks_no_workspace(orchestrator: SqliteOrchestrator) -> None:
    orchestrator.register(TaskDefinition("a"))
    orchestrator.start_workflow("w", (Step("a", "a"),))
    assert "workspace" not in json.loads(take(orchestrator, "a").input)


# ---- silence, retries, late results


def test_a_silent_attempt_is_given_up_and_the_next_is_a_new_task_with_a_greater_number(
    orchestrator: SqliteOrchestrator,
    clock: HandClock,
) -> None:
    """OR-1, conductor.md 1.3."""
    started(orchestrator, "t", response_timeout=10.0)
    first = take(orchestrator, "t", worker="w1")
    clock.sleep(9.9)
    assert done(orchestrator.poll("w2", ("t",), 1)) == ()
    clock.sleep(0.2)
    second = take(orchestrator, "t", worker="w2")
    assert second.snapshot.task_id != first.snapshot.task_id
    assert second.snapshot.retry_count == 1
    assert second.number > first.number
    assert second.logical_task == first.logical_task
    old = reloaded(orchestrator, attempt_of(first))
    assert old is not None
    assert old.status is TaskStatus.TIMED_OUT


def test_a_heartbeat_counts_the_response_time_out_afresh(orchestrator: SqliteOrchestrator, clock: HandClock) -> None:
    started(orchestrator, "t", response_timeout=10.0)
    attempt = attempt_of(take(orchestrator, "t"))
    for _ in range(5):
        clock.sleep(9.0)
        assert orchestrator.extend(attempt) == Done(None)
    found = reloaded(orchestrator, attempt)
    assert found is not None
    assert found.status is TaskStatus.IN_PROGRESS


def test_a_late_result_and_a_late_heartbeat_are_answered_and_change_nothing(
    orchestrator: SqliteOrchestrator,
    clock: HandClock,
) -> None:
    """conductor.md 1.4: 200, ignored. Only the reload tells (F-13)."""
    workflow_id = started(orchestrator, "t")
    late = attempt_of(take(orchestrator, "t"), "late")
    clock.sleep(11)
    heir = attempt_of(take(orchestrator, "t", worker="w2"), "heir")
    assert orchestrator.extend(late) == Done(None)
    assert orchestrator.report(late, completed("L", execution="late")) == Done(None)
    old = reloaded(orchestrator, late)
    assert old is not None
    assert (old.status, old.result_ref) == (TaskStatus.TIMED_OUT, None)
    shown = reloaded(orchestrator, heir)
    assert shown is not None
    assert (shown.status, shown.result_execution) == (TaskStatus.IN_PROGRESS, None)
    orchestrator.report(heir, completed("H", execution="heir"))
    orchestrator.report(heir, completed("H2", execution="again"))
    shown = reloaded(orchestrator, heir)
    assert shown is not None
    assert (shown.status, shown.result_execution, shown.result_ref) == (TaskStatus.COMPLETED, "heir", "H")
    assert status(orchestrator, workflow_id) is WorkflowStatus.COMPLETED


def test_retries_wait_their_delay_and_end_the_workflow_when_they_are_used_up(
    orchestrator: SqliteOrchestrator,
    clock: HandClock,
) -> None:
    workflow_id = started(orchestrator, "t", retry_count=1, retry_delay=5.0)
    orchestrator.report(attempt_of(take(orchestrator, "t")), failed())
    clock.sleep(4.9)
    assert done(orchestrator.poll("w", ("t",), 1)) == ()
    clock.sleep(0.1)
    orchestrator.report(attempt_of(take(orchestrator, "t")), failed())
    assert status(orchestrator, workflow_id) is WorkflowStatus.FAILED
    assert [each.status for each in orchestrator.tasks(workflow_id)] == [TaskStatus.FAILED] * 2
    assert "body-failed" in orchestrator.tasks(workflow_id)[0].reason


def test_an_exponential_delay_doubles_up_to_its_maximum() -> None:
    definition = TaskDefinition("t", retry_delay=2.0, retry_backoff=Backoff.EXPONENTIAL, retry_delay_max=9.0)
    assert [definition.delay_before(retry) for retry in (1, 2, 3, 4, 5000)] == [2.0, 4.0, 8.0, 9.0, 9.0]


def test_a_terminal_failure_is_not_retried_until_an_operator_says_so(orchestrator: SqliteOrchestrator) -> None:
    """S-36; conductor.md 1.3: terminal means no automatic retry, not never again."""
    workflow_id = started(orchestrator, "t")
    first = take(orchestrator, "t")
    orchestrator.report(attempt_of(first), failed_terminally())
    assert status(orchestrator, workflow_id) is WorkflowStatus.FAILED
    orchestrator.retry(workflow_id)
    second = take(orchestrator, "t")
    assert second.snapshot.retry_count == 1
    assert second.number > first.number
    orchestrator.report(attempt_of(second), completed("B"))
    assert status(orchestrator, workflow_id) is WorkflowStatus.COMPLETED


def test_the_total_time_out_counts_all_attempts_and_allows_no_further_one(
    orchestrator: SqliteOrchestrator,
    clock: HandClock,
) -> None:
    workflow_id = started(orchestrator, "t", retry_count=9, response_timeout=10.0, total_timeout=25.0)
    for _ in range(2):
        take(orchestrator, "t")
        clock.sleep(11)
    last = attempt_of(take(orchestrator, "t"))
    clock.sleep(4)
    orchestrator.extend(last)
    found = reloaded(orchestrator, last)
    assert found is not None
    assert (found.status, found.workflow_running) == (TaskStatus.TIMED_OUT, False)
    assert status(orchestrator, workflow_id) is WorkflowStatus.TIMED_OUT


def test_a_wall_clock_that_is_set_ends_nothing(orchestrator: SqliteOrchestrator, clock: HandClock) -> None:
    started(orchestrator, "t")
    attempt = attempt_of(take(orchestrator, "t"))
    for jump in (-(10**11), 10**11):
        clock.milliseconds += jump
        found = reloaded(orchestrator, attempt)
        assert found is not None
        assert found.status is TaskStatus.IN_PROGRESS


def test_after_a_restart_of_the_machine_whatever_was_handed_out_is_given_up_at_once(tmp_path: Path) -> None:
    clock = HandClock()
    before = SqliteOrchestrator(tmp_path / "o.db", clock=clock, boot="one")
    started(before, "t", response_timeout=10_000.0, total_timeout=50_000.0)
    lost = attempt_of(take(before, "t"))
    before.close()
    clock.seconds = 60_000.0  # it was opened long after the start, and the total time-out is counted from then
    after = SqliteOrchestrator(tmp_path / "o.db", clock=clock, boot="two")
    assert take(after, "t").snapshot.retry_count == 1
    found = reloaded(after, lost)
    assert found is not None
    assert found.status is TaskStatus.TIMED_OUT
    clock.seconds += 49_000.0
    assert [each.status.value for each in after.workflows(None)] == ["RUNNING"]
    after.close()


# ---- one task, two workers


def test_a_requeued_task_has_two_workers_and_only_the_later_ones_result_counts(
    orchestrator: SqliteOrchestrator,
) -> None:
    """conductor.md 1.6: same id, same retry count, poll count + 1. ADR 12: the superseded delivery is ignored."""
    started(orchestrator, "t")
    first = take(orchestrator, "t", worker="w1")
    orchestrator.requeue(first.snapshot.task_id)
    second = take(orchestrator, "t", worker="w2")
    assert second.snapshot.task_id == first.snapshot.task_id
    assert second.snapshot.retry_count == first.snapshot.retry_count
    assert (first.snapshot.poll_count, second.snapshot.poll_count) == (1, 2)
    assert second.number > first.number
    assert second.snapshot.worker_id == "w2"
    zombie, owner = attempt_of(first, "zombie"), attempt_of(second, "owner")
    assert orchestrator.report(zombie, completed("Z", execution="zombie")) == Done(None)
    orchestrator.report(owner, completed("O", execution="owner"))
    found = reloaded(orchestrator, owner)
    assert found is not None
    assert (found.result_execution, found.result_ref) == ("owner", "O")


def test_a_superseded_delivery_cannot_keep_the_task_alive(orchestrator: SqliteOrchestrator, clock: HandClock) -> None:
    """Counterexample: the second worker is dead, and the heartbeats of the first would hide that for ever."""
    started(orchestrator, "t", response_timeout=10.0)
    first = take(orchestrator, "t", worker="w1")
    orchestrator.requeue(first.snapshot.task_id)
    second = take(orchestrator, "t", worker="w2")
    for _ in range(3):
        clock.sleep(4)
        orchestrator.extend(attempt_of(first))
    found = reloaded(orchestrator, attempt_of(second))
    assert found is not None
    assert found.status is TaskStatus.TIMED_OUT


def test_a_requeued_task_that_nobody_took_yet_still_takes_the_first_workers_result(
    orchestrator: SqliteOrchestrator,
) -> None:
    workflow_id = started(orchestrator, "t")
    first = take(orchestrator, "t")
    orchestrator.requeue(first.snapshot.task_id)
    orchestrator.report(attempt_of(first), completed("B"))
    assert status(orchestrator, workflow_id) is WorkflowStatus.COMPLETED
    assert done(orchestrator.poll("w2", ("t",), 1)) == ()


def test_a_rerun_keeps_the_task_id_and_tells_its_two_lives_apart(orchestrator: SqliteOrchestrator) -> None:
    """conductor.md 1.6: rerun from a task, the hole in the seed's four fields."""
    workflow_id = started(orchestrator, "a", "b")
    first = take(orchestrator, "a", worker="w1")
    orchestrator.report(attempt_of(first), completed("B"))
    later = take(orchestrator, "b")
    orchestrator.report(attempt_of(later), failed_terminally())
    orchestrator.rerun(workflow_id, "a")
    again = take(orchestrator, "a", worker="w2")
    assert again.snapshot.task_id == first.snapshot.task_id
    assert again.snapshot.retry_count == first.snapshot.retry_count
    assert again.snapshot.poll_count != first.snapshot.poll_count
    assert again.number > first.number
    assert again.snapshot.result_execution is None
    assert reloaded(orchestrator, attempt_of(later)) is None
    orchestrator.report(attempt_of(again), completed("C"))
    renewed = take(orchestrator, "b")
    assert renewed.number > later.number
    assert json.loads(renewed.input)["workspace"]["ref"] == "C"
