"""What every orchestrator promises the core: it alone decides which result counts, and it says so only when asked."""

from __future__ import annotations

import json

from attrs import evolve

from perago_conformance.harness import OrchestratorHarness
from perago_conformance.support import MAIN, attempt_of, done, place_of, race
from perago_core.answers import Done, NotDone
from perago_core.ports import Assignment, Orchestrator
from perago_core.results import Classification, Completed, Failed, FailedTerminally, Refusal
from perago_core.values import Attempt, Backing, CommitRef, TaskSnapshot, TaskStatus

FIRST_REF = CommitRef("a" * 40)
NEXT_REF = CommitRef("b" * 40)
LAST_REF = CommitRef("c" * 40)

REFUSAL = Refusal(Classification.BODY_FAILED, "a body that works", "one that does not", "Mend it.")
FAILED, TERMINAL = Failed(REFUSAL), FailedTerminally(REFUSAL)


def poll(orchestrator: OrchestratorHarness, *names: str, worker: str = "worker-1", limit: int = 10) -> list[Assignment]:
    assignments = done(orchestrator.port.poll(worker, names or ("clean",), limit))
    return list(assignments)


def polled(orchestrator: OrchestratorHarness, *names: str, worker: str = "worker-1") -> Assignment:
    (assignment,) = poll(orchestrator, *names, worker=worker)
    return assignment


def pinned(assignment: Assignment, execution: str = "run-1") -> Attempt:
    return attempt_of(assignment, execution, Backing.SOFT)


def completed(ref: CommitRef = NEXT_REF, execution: str = "run-1", output: str = '{"rows": 3}') -> Completed:
    return Completed(ref, output, execution)


def reload(orchestrator: OrchestratorHarness, assignment: Assignment) -> TaskSnapshot:
    snapshot = done(orchestrator.port.reload(assignment.snapshot.workflow_id, assignment.snapshot.task_id))
    assert snapshot is not None
    return snapshot


def silence(orchestrator: OrchestratorHarness) -> None:
    """Let so much time pass that whoever has said nothing is given up."""
    orchestrator.clock.sleep(1.5 * orchestrator.response_timeout)


# ---------------------------------------------------------------------------------------------------------------------
# Handing out


def test_nothing_to_do_is_an_empty_answer(orchestrator: OrchestratorHarness) -> None:
    assert poll(orchestrator) == []
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    assert poll(orchestrator, "another") == []


def test_a_polled_task_carries_its_input_and_its_place(orchestrator: OrchestratorHarness) -> None:
    workflow = orchestrator.start(("clean",), MAIN, FIRST_REF)
    assignment = polled(orchestrator, worker="worker-7")
    seen = assignment.snapshot
    assert (seen.workflow_id, seen.retry_count, seen.status) == (workflow, 0, TaskStatus.IN_PROGRESS)
    assert (seen.worker_id, seen.workflow_running) == ("worker-7", True)
    assert seen.started_at > 0
    assert seen.poll_count > 0
    assert (seen.result_execution, seen.result_ref) == (None, None)
    assert assignment.task_name == "clean"
    assert assignment.response_timeout == orchestrator.response_timeout
    place = place_of(assignment)
    assert (place["repository"], place["branch"], place["ref"]) == (MAIN.repository, MAIN.branch, FIRST_REF)


def test_a_reload_shows_what_the_poll_showed(orchestrator: OrchestratorHarness) -> None:
    """P-02: the attempt fence compares these fields one by one."""
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    assignment = polled(orchestrator)
    assert reload(orchestrator, assignment) == assignment.snapshot


def test_a_task_or_workflow_that_is_not_there_is_gone_and_no_error(orchestrator: OrchestratorHarness) -> None:
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    seen = polled(orchestrator).snapshot
    assert done(orchestrator.port.reload(seen.workflow_id, "no-such-task")) is None
    assert done(orchestrator.port.reload("no-such-workflow", seen.task_id)) is None
    assert done(orchestrator.port.reload(None, "no-such-task")) is None


def test_a_task_can_be_read_by_its_id_alone(orchestrator: OrchestratorHarness) -> None:
    """S-01: a staging name tells the id of its task, and whoever revokes names asks whether that one has ended."""
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    seen = polled(orchestrator).snapshot
    assert done(orchestrator.port.reload(None, seen.task_id)) == seen


def test_a_task_that_was_handed_out_is_not_handed_out_again_while_it_is_heard_of(
    orchestrator: OrchestratorHarness,
) -> None:
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    polled(orchestrator)
    assert poll(orchestrator, worker="worker-2") == []


def test_a_poll_takes_no_more_than_it_can_carry(orchestrator: OrchestratorHarness) -> None:
    for _ in range(3):
        orchestrator.start(("clean",), MAIN, FIRST_REF)
    first = poll(orchestrator, limit=2)
    rest = poll(orchestrator, limit=2)
    assert (len(first), len(rest)) == (2, 1)
    assert len({each.snapshot.task_id for each in (*first, *rest)}) == 3
    assert len({each.logical_task for each in (*first, *rest)}) == 3, "tasks of different workflows are different tasks"


def poll_once(port: Orchestrator, _number: int, racer: int) -> list[str]:
    assignments = done(port.poll(f"worker-{racer}", ("clean",), 1))
    return [each.snapshot.task_id for each in assignments]


def test_pollers_that_race_share_no_task_and_leave_none(orchestrator: OrchestratorHarness) -> None:
    for _ in range(60):
        orchestrator.start(("clean",), MAIN, FIRST_REF)
    raced = race(orchestrator.port, orchestrator.recipe, poll_once)
    taken = [task for results in raced for tasks in results for task in tasks]
    while tasks := poll_once(orchestrator.port, 0, 0):
        taken += tasks
    assert (len(taken), len(set(taken))) == (60, 60)


# ---------------------------------------------------------------------------------------------------------------------
# Results


def test_an_accepted_result_is_read_back_by_its_nonce_and_ref(orchestrator: OrchestratorHarness) -> None:
    """F-13, P-40: only reading the task back tells whose result was taken."""
    workflow = orchestrator.start(("clean",), MAIN, FIRST_REF)
    assignment = polled(orchestrator)
    done(orchestrator.port.report(pinned(assignment), completed()))
    after = reload(orchestrator, assignment)
    assert (after.status, after.result_execution, after.result_ref) == (TaskStatus.COMPLETED, "run-1", NEXT_REF)
    (accepted,) = orchestrator.accepted(workflow)
    assert (accepted.step, accepted.task_id, accepted.ref) == ("clean", assignment.snapshot.task_id, NEXT_REF)
    assert json.loads(accepted.output) == {"rows": 3}


def test_the_output_ref_of_a_step_is_the_input_ref_of_the_next(orchestrator: OrchestratorHarness) -> None:
    workflow = orchestrator.start(("clean", "join", "sum"), MAIN, FIRST_REF)
    refs = (NEXT_REF, NEXT_REF, LAST_REF)
    inputs: list[str] = []
    for step, ref in zip(("clean", "join", "sum"), refs, strict=True):
        others = tuple({"clean", "join", "sum"} - {step})
        assert poll(orchestrator, *others) == [], "a step waits for the one before it"
        assignment = polled(orchestrator, step)
        inputs.append(place_of(assignment)["ref"])
        done(orchestrator.port.report(pinned(assignment), completed(ref)))
    assert inputs == [FIRST_REF, NEXT_REF, NEXT_REF]
    assert [(each.step, each.ref) for each in orchestrator.accepted(workflow)] == [
        ("clean", NEXT_REF),
        ("join", NEXT_REF),
        ("sum", LAST_REF),
    ]
    assert poll(orchestrator, "clean", "join", "sum") == []


def test_the_attempts_of_two_steps_are_of_different_logical_tasks(orchestrator: OrchestratorHarness) -> None:
    """Revocation goes by logical task and number; both steps begin with low numbers."""
    orchestrator.start(("clean", "join"), MAIN, FIRST_REF)
    first = polled(orchestrator)
    done(orchestrator.port.report(pinned(first), completed()))
    second = polled(orchestrator, "join")
    assert first.logical_task != second.logical_task
    assert first.snapshot.task_id != second.snapshot.task_id


def test_a_second_result_is_answered_done_and_ignored(orchestrator: OrchestratorHarness) -> None:
    """F-13, N-02: the answer does not tell, and the first result stands."""
    workflow = orchestrator.start(("clean",), MAIN, FIRST_REF)
    assignment = polled(orchestrator)
    done(orchestrator.port.report(pinned(assignment), completed()))
    for late in (completed(LAST_REF, "run-2"), FAILED, TERMINAL, completed()):
        done(orchestrator.port.report(pinned(assignment, "run-2"), late))
    after = reload(orchestrator, assignment)
    assert (after.status, after.result_execution, after.result_ref) == (TaskStatus.COMPLETED, "run-1", NEXT_REF)
    assert [each.ref for each in orchestrator.accepted(workflow)] == [NEXT_REF]


def test_a_failure_is_tried_again_as_a_new_task_with_a_higher_number(orchestrator: OrchestratorHarness) -> None:
    """ADR 5."""
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    first = polled(orchestrator)
    done(orchestrator.port.report(pinned(first), FAILED))
    second = polled(orchestrator)
    assert second.snapshot.task_id != first.snapshot.task_id
    assert second.snapshot.retry_count == first.snapshot.retry_count + 1
    assert second.number > first.number
    assert second.logical_task == first.logical_task
    assert place_of(second) == place_of(first), "a retry starts from the same input"
    assert reload(orchestrator, first).status is TaskStatus.FAILED


def test_retries_end(orchestrator: OrchestratorHarness) -> None:
    workflow = orchestrator.start(("clean", "join"), MAIN, FIRST_REF, retries=1)
    for _ in range(2):
        done(orchestrator.port.report(pinned(polled(orchestrator)), FAILED))
    assert poll(orchestrator, "clean", "join") == []
    assert orchestrator.accepted(workflow) == ()


def test_a_terminal_failure_is_not_tried_again(orchestrator: OrchestratorHarness) -> None:
    """S-36."""
    orchestrator.start(("clean", "join"), MAIN, FIRST_REF)
    assignment = polled(orchestrator)
    done(orchestrator.port.report(pinned(assignment), TERMINAL))
    assert reload(orchestrator, assignment).status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert poll(orchestrator, "clean", "join") == []


def test_a_failed_attempt_has_no_result_ref(orchestrator: OrchestratorHarness) -> None:
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    assignment = polled(orchestrator)
    done(orchestrator.port.report(pinned(assignment), FAILED))
    assert reload(orchestrator, assignment).result_ref is None


def test_a_report_about_a_task_that_does_not_exist_is_not_done(orchestrator: OrchestratorHarness) -> None:
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    attempt = evolve(pinned(polled(orchestrator)), task_id="no-such-task")
    assert isinstance(orchestrator.port.report(attempt, completed()), NotDone)


class ReportMine:
    """A racer that reports its own result for the task of its round."""

    def __init__(self, assignments: list[Assignment]) -> None:
        self.assignments = assignments

    def __call__(self, port: Orchestrator, number: int, racer: int) -> bool:
        execution = f"run-{racer}"
        result = completed(CommitRef(f"{racer:040x}"), execution, json.dumps({"racer": racer}))
        return isinstance(port.report(pinned(self.assignments[number], execution), result), Done)


def test_of_results_that_race_one_is_taken_whole(orchestrator: OrchestratorHarness) -> None:
    """Ref, nonce and output that the workflow shows are of one and the same report."""
    rounds = 5
    workflows = [orchestrator.start(("clean",), MAIN, FIRST_REF) for _ in range(2 * rounds)]
    by_workflow = {each.snapshot.workflow_id: each for each in poll(orchestrator, limit=100)}
    assignments = [by_workflow[workflow] for workflow in workflows]
    raced = race(orchestrator.port, orchestrator.recipe, ReportMine(assignments), rounds=rounds)
    for number, answers in enumerate(raced):
        assert all(answers)
        task = reload(orchestrator, assignments[number])
        (accepted,) = orchestrator.accepted(workflows[number])
        winner = json.loads(accepted.output)["racer"]
        assert (task.result_execution, task.result_ref) == (f"run-{winner}", accepted.ref)
        assert accepted.ref == f"{winner:040x}"


# ---------------------------------------------------------------------------------------------------------------------
# Time


def test_silence_gives_the_attempt_up_and_a_higher_one_is_handed_out(orchestrator: OrchestratorHarness) -> None:
    """L-01, N-07, ADR 5."""
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    first = polled(orchestrator)
    silence(orchestrator)
    second = polled(orchestrator, worker="worker-2")
    assert reload(orchestrator, first).status is TaskStatus.TIMED_OUT
    assert second.snapshot.task_id != first.snapshot.task_id
    assert (second.number > first.number, second.snapshot.retry_count) == (True, 1)


def test_a_heartbeat_extends_and_silence_after_it_still_counts(orchestrator: OrchestratorHarness) -> None:
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    assignment = polled(orchestrator)
    for _ in range(4):
        orchestrator.clock.sleep(0.5 * orchestrator.response_timeout)
        done(orchestrator.port.extend(pinned(assignment)))
    assert reload(orchestrator, assignment) == assignment.snapshot, "a heartbeat changes none of the compared fields"
    assert poll(orchestrator) == []
    silence(orchestrator)
    assert polled(orchestrator).number > assignment.number


def test_a_late_result_is_answered_done_and_ignored(orchestrator: OrchestratorHarness) -> None:
    """F-13, N-07: the zombie of a paused worker."""
    workflow = orchestrator.start(("clean",), MAIN, FIRST_REF)
    first = polled(orchestrator)
    silence(orchestrator)
    second = polled(orchestrator)
    done(orchestrator.port.report(pinned(first), completed()))
    assert orchestrator.accepted(workflow) == ()
    after = reload(orchestrator, first)
    assert (after.status, after.result_ref) == (TaskStatus.TIMED_OUT, None)
    assert reload(orchestrator, second).status is TaskStatus.IN_PROGRESS
    done(orchestrator.port.report(pinned(second, "run-2"), completed(LAST_REF, "run-2")))
    assert [each.ref for each in orchestrator.accepted(workflow)] == [LAST_REF]


def test_a_heartbeat_for_an_attempt_that_was_given_up_revives_nothing(orchestrator: OrchestratorHarness) -> None:
    """A heartbeat never tells of loss; only a reload does."""
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    first = polled(orchestrator)
    silence(orchestrator)
    second = polled(orchestrator)
    done(orchestrator.port.extend(pinned(first)))
    assert reload(orchestrator, first).status is TaskStatus.TIMED_OUT
    assert reload(orchestrator, second).status is TaskStatus.IN_PROGRESS


def test_a_heartbeat_for_a_completed_task_does_not_undo_it(orchestrator: OrchestratorHarness) -> None:
    orchestrator.start(("clean",), MAIN, FIRST_REF)
    assignment = polled(orchestrator)
    done(orchestrator.port.report(pinned(assignment), completed()))
    done(orchestrator.port.extend(pinned(assignment)))
    silence(orchestrator)
    assert reload(orchestrator, assignment).status is TaskStatus.COMPLETED


# ---------------------------------------------------------------------------------------------------------------------
# Operators


def test_a_terminated_workflow_hands_out_nothing_and_takes_nothing(orchestrator: OrchestratorHarness) -> None:
    """N-07."""
    workflow = orchestrator.start(("clean", "join"), MAIN, FIRST_REF)
    assignment = polled(orchestrator)
    orchestrator.terminate(workflow)
    after = reload(orchestrator, assignment)
    assert (after.workflow_running, after.status.is_open) == (False, False)
    done(orchestrator.port.report(pinned(assignment), completed()))
    silence(orchestrator)
    assert orchestrator.accepted(workflow) == ()
    assert poll(orchestrator, "clean", "join") == []


def test_a_redelivered_task_has_the_same_id_and_can_be_told_apart(orchestrator: OrchestratorHarness) -> None:
    """The seed's four fields are equal for both; poll count or start time must not be (conductor facts 1)."""
    workflow = orchestrator.start(("clean",), MAIN, FIRST_REF)
    first = polled(orchestrator)
    orchestrator.redeliver(workflow, first.snapshot.task_id)
    again = polled(orchestrator, worker="worker-2")
    assert again.snapshot.task_id == first.snapshot.task_id
    assert again.snapshot.retry_count == first.snapshot.retry_count
    assert again.logical_task == first.logical_task
    assert again.number > first.number, "ADR 5: greater than that of every delivery before"
    now = reload(orchestrator, first)
    assert (now.started_at, now.poll_count) != (first.snapshot.started_at, first.snapshot.poll_count)
    assert now == again.snapshot


def test_of_two_deliveries_the_first_result_counts_whoever_sends_it(orchestrator: OrchestratorHarness) -> None:
    """N-01, at least once: the orchestrator does not know which of the two is alive."""
    workflow = orchestrator.start(("clean",), MAIN, FIRST_REF)
    first = polled(orchestrator)
    orchestrator.redeliver(workflow, first.snapshot.task_id)
    again = polled(orchestrator, worker="worker-2")
    done(orchestrator.port.report(pinned(again, "run-2"), completed(LAST_REF, "run-2")))
    done(orchestrator.port.report(pinned(first), completed()))
    assert [each.ref for each in orchestrator.accepted(workflow)] == [LAST_REF]
    assert reload(orchestrator, first).result_execution == "run-2"
