"""The embedded orchestrator keeps what conductor.md 1 says a runtime relies on, and ADR 5 and 12."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Done, NotDone
from perago_core.names import run_branch
from perago_core.pipelines import OrchestratorError, Place
from perago_core.values import TaskStatus
from perago_local.orchestrator import SqliteOrchestrator
from perago_local.orchestrator.deliveries import OUTPUT_MAX
from perago_local.orchestrator.workflow import Backoff, TaskDefinition, WorkflowStatus, WorkflowStep
from tests.local.coordinating import PROCESSES
from tests.local.crashing import Countdown, integrity, run_in_child
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


def test_a_step_works_where_its_place_says_and_the_next_one_follows_it_there(orchestrator: SqliteOrchestrator) -> None:
    places = (("apart", Place.RUN), ("follow", Place.BEFORE), ("home", Place.START))
    for name, _ in places:
        orchestrator.register(TaskDefinition(name))
    steps = tuple(
        WorkflowStep(name, name, {"left": "${follow.workspace}"} if name == "home" else {}, place)
        for name, place in places
    )
    workflow_id = orchestrator.start_workflow("w", steps, target=TARGET, ref=REF)
    seen: list[tuple[str, str]] = []
    given: dict[str, Any] = {}
    for ref in "ABC":
        task = take(orchestrator, *(name for name, _ in places))
        given = json.loads(task.input)
        seen.append((given["workspace"]["branch"], given["workspace"]["ref"]))
        orchestrator.report(attempt_of(task), completed(ref))
    own = run_branch(workflow_id)
    assert seen == [(own, "A"), (own, "A"), ("main", "A")]
    assert given["params"]["left"]["branch"] == own
    assert given["params"]["left"]["ref"] == "B"
    found = orchestrator.workflow(workflow_id)
    assert found is not None
    assert [each["workspace"]["branch"] for each in json.loads(found.output).values()] == [own, own, "main"]


def test_a_file_of_the_release_before_is_upgraded_and_its_workflows_go_on(tmp_path: Path, clock: HandClock) -> None:
    path = tmp_path / "old.db"
    with closing(SqliteOrchestrator(path, clock=clock)) as before:
        workflow_id = started(before, "a", "b")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE step DROP COLUMN place")
        connection.execute("UPDATE part SET version = 1")
        connection.commit()
    with closing(SqliteOrchestrator(path, clock=clock)) as after:
        for ref in "BC":
            after.report(attempt_of(take(after, "a", "b")), completed(ref))
        assert status(after, workflow_id) is WorkflowStatus.COMPLETED


def test_a_step_quotes_parameters_and_earlier_results(orchestrator: SqliteOrchestrator) -> None:
    for name in ("a", "b"):
        orchestrator.register(TaskDefinition(name))
    steps = (
        WorkflowStep("a", "a"),
        WorkflowStep(
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
    steps = (WorkflowStep("a", "a"), WorkflowStep("b", "a", {"n": "${a.result.lines}"}))
    workflow_id = orchestrator.start_workflow("w", steps, target=TARGET, ref=REF)
    orchestrator.report(attempt_of(take(orchestrator, "a")), completed("B", '{"rows": 3}'))
    found = orchestrator.workflow(workflow_id)
    assert found is not None
    assert found.status is WorkflowStatus.FAILED
    assert "${a.result.lines}" in found.reason
    assert "rows" in found.reason


def test_a_quotation_that_goes_into_a_value_does_not_tell_the_value(orchestrator: SqliteOrchestrator) -> None:
    """Counterexample, seen: ``${params.password.x}`` put the password into the workflow's reason."""
    orchestrator.register(TaskDefinition("a"))
    steps = (WorkflowStep("a", "a"), WorkflowStep("b", "a", {"n": "${params.password.x}"}))
    workflow_id = orchestrator.start_workflow("w", steps, {"password": "hunter2"}, target=TARGET, ref=REF)
    orchestrator.report(attempt_of(take(orchestrator, "a")), completed("B", '{"rows": 3}'))
    found = orchestrator.workflow(workflow_id)
    assert found is not None
    assert "found: a value of type str" in found.reason
    assert "hunter2" not in found.reason


def test_a_workflow_without_a_target_gives_its_tasks_no_workspace(orchestrator: SqliteOrchestrator) -> None:
    orchestrator.register(TaskDefinition("a"))
    orchestrator.start_workflow("w", (WorkflowStep("a", "a"),))
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


# ---- What operators and pipelines do to the embedded orchestrator, what it refuses, and what people see.


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
        orchestrator.start_workflow("w", (WorkflowStep("s", "unregistered"),), target=TARGET, ref=REF)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: WorkflowStep("params", "t"), id="a step called params"),
        pytest.param(lambda: WorkflowStep("a b", "t"), id="a step that cannot be quoted"),
        pytest.param(lambda: WorkflowStep("a", "t", "[1]"), id="parameters that are a list"),
        pytest.param(lambda: WorkflowStep("a", "t", "{"), id="parameters that are no JSON"),
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
        orchestrator.start_workflow("w", (WorkflowStep("a", "t"), WorkflowStep("a", "t")))
    with pytest.raises(ValueError, match="both a target and a ref"):
        orchestrator.start_workflow("w", (WorkflowStep("a", "t"),), target=TARGET)


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


# ---- Processes die inside transactions of the orchestrator: all of a change is there or none, and work goes on.


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
