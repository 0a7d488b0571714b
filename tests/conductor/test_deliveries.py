"""Every way in which Conductor gives a task to somebody else (conductor.md 1.6), and who notices.

For each: the number grows, the logical task stays, the new owner is current, the old one is not. Where the seed's four
fields are equal for both, the test demands that they are: a fence that is not needed would be superstition.
"""

from __future__ import annotations

import pytest

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conformance.support import done
from perago_core.attempt.state import is_current
from perago_core.ports import Assignment
from perago_core.values import TaskStatus
from tests.conductor.attempts import FAILED, FIRST_REF, MAIN, catches, completed, four, polled, reload, wide
from tests.support.conductor.operating import Operator, eventually

CAUGHT_BY_BOTH = (True, True)
MISSED_BY_FOUR = (False, True)


def superseded(port: ConductorOrchestrator, old: Assignment, new: Assignment) -> tuple[bool, bool]:
    """Check what holds in every row, and give who notices that the old delivery is over."""
    assert new.number > old.number, "ADR 5: a later delivery has a higher number"
    assert new.logical_task == old.logical_task
    assert reload(port, new) == new.snapshot
    assert is_current(wide(new), reload(port, new))
    return catches(port, old)


def times_out(operator: Operator, port: ConductorOrchestrator, attempt: Assignment) -> None:
    def look() -> bool:
        operator.decide()
        seen = reload(port, attempt)
        return seen is not None and seen.status is TaskStatus.TIMED_OUT

    eventually(look, "the task to time out")


def test_retry_after_a_failure(operator: Operator, port: ConductorOrchestrator) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(port)
    done(port.report(wide(old), FAILED))
    new = polled(port, worker="worker-2")
    assert new.snapshot.task_id != old.snapshot.task_id
    assert new.snapshot.retry_count == old.snapshot.retry_count + 1
    assert superseded(port, old, new) == CAUGHT_BY_BOTH


def test_retry_after_a_response_timeout(operator: Operator, port: ConductorOrchestrator) -> None:
    operator.response_timeout = 1
    operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(port)
    times_out(operator, port, old)
    new = polled(port, worker="worker-2")
    assert new.snapshot.retry_count == old.snapshot.retry_count + 1
    assert catches(port, old) == CAUGHT_BY_BOTH
    assert (new.number > old.number, new.logical_task) == (True, old.logical_task)


def test_a_delivery_says_after_which_silence_it_is_over_whatever_was_registered_since(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    """A worker that counted with what it declares, or what is registered now, would publish after its time."""
    operator.response_timeout = 1
    operator.start(("clean",), MAIN, FIRST_REF)
    operator.register("clean", response_timeout=600)
    old = polled(port)
    assert old.response_timeout == 1
    times_out(operator, port, old)
    assert polled(port, worker="worker-2").response_timeout == 1


def test_a_poll_whose_answer_was_lost_leaves_a_task_that_times_out(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    """Nobody runs it, and nobody is told; the next delivery is a new task with a higher number."""
    operator.response_timeout = 1
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    operator.call("GET", "/tasks/poll/batch/clean", params={"workerid": "w", "domain": operator.domain, "count": 1})
    (lost,) = operator.tasks(workflow)

    def given_up() -> bool:
        operator.decide()
        return len(operator.tasks(workflow)) == 2

    eventually(given_up, "another attempt")
    new = polled(port)
    assert new.snapshot.retry_count == lost["retryCount"] + 1


def test_retry_of_the_workflow(operator: Operator, port: ConductorOrchestrator) -> None:
    workflow = operator.start(("clean",), MAIN, FIRST_REF, retries=0)
    old = polled(port)
    done(port.report(wide(old), FAILED))
    operator.until_ended(workflow)
    operator.retry(workflow)
    new = polled(port, worker="worker-2")
    assert new.snapshot.task_id != old.snapshot.task_id
    assert superseded(port, old, new) == CAUGHT_BY_BOTH


@pytest.mark.parametrize("worker", ["worker-2", "worker-1"])
def test_rerun_from_the_task(operator: Operator, port: ConductorOrchestrator, worker: str) -> None:
    """Same id, same retry count, poll count from one again: only the start time tells, if the worker is the same."""
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(port)
    operator.terminate(workflow)
    assert catches(port, old) == CAUGHT_BY_BOTH
    operator.rerun(workflow, old.snapshot.task_id)
    new = polled(port, worker=worker)
    assert (new.snapshot.task_id, new.snapshot.retry_count) == (old.snapshot.task_id, old.snapshot.retry_count)
    assert new.snapshot.poll_count == old.snapshot.poll_count
    assert superseded(port, old, new) == MISSED_BY_FOUR


def test_a_rerun_of_another_branch_brings_a_task_back(operator: Operator, port: ConductorOrchestrator) -> None:
    """Rerun of one branch of a fork hands the other branch's cancelled task out again, under its old id."""
    operator.register("clean")
    operator.register("join")
    given = {"workspace": "${workflow.input.workspace}"}
    left, right = (
        {"name": name, "taskReferenceName": name, "type": "SIMPLE", "inputParameters": given}
        for name in ("clean", "join")
    )
    tasks: list[dict[str, object]] = [
        {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": [[left], [right]]},
        {"name": "meet", "taskReferenceName": "meet", "type": "JOIN", "joinOn": ["clean", "join"]},
    ]
    place = {"repository": MAIN.repository, "branch": MAIN.branch, "refType": "commit", "ref": FIRST_REF}
    workflow = operator.begin(tasks, {}, {"workspace": place})
    old = polled(port)
    other = polled(port, "join")
    operator.terminate(workflow)
    operator.rerun(workflow, other.snapshot.task_id)

    def handed_out() -> tuple[Assignment, ...]:
        operator.decide()  # a rerun right after the end may leave the other branch to the next look
        return done(port.poll("worker-2", ("clean",), 1))

    (new,) = eventually(handed_out, "the other branch's task")
    assert (new.snapshot.task_id, new.snapshot.retry_count) == (old.snapshot.task_id, old.snapshot.retry_count)
    assert superseded(port, old, new) == MISSED_BY_FOUR


@pytest.mark.parametrize("way", ["restart", "rerun"])
def test_a_workflow_run_from_its_beginning_forgets_its_tasks(
    operator: Operator, port: ConductorOrchestrator, way: str
) -> None:
    """The retry count begins with zero again, so it is no part of the number."""
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    done(port.report(wide(polled(port)), FAILED))
    old = polled(port)
    assert old.snapshot.retry_count == 1
    operator.terminate(workflow)
    if way == "restart":
        operator.restart(workflow)
    else:
        operator.rerun(workflow, None)
    new = polled(port, worker="worker-2")
    assert (new.snapshot.retry_count, reload(port, old)) == (0, None)
    assert superseded(port, old, new) == CAUGHT_BY_BOTH


def test_a_task_handed_back_with_a_callback(operator: Operator, port: ConductorOrchestrator) -> None:
    """IN_PROGRESS without ``extendLease`` is no progress report: it gives the task away."""
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(port)
    operator.update(workflow, old.snapshot.task_id, "IN_PROGRESS", callbackAfterSeconds=0)
    new = polled(port, worker="worker-2")
    assert new.snapshot.task_id == old.snapshot.task_id
    assert new.snapshot.started_at == old.snapshot.started_at
    assert superseded(port, old, new) == MISSED_BY_FOUR


@pytest.mark.parametrize("worker", ["worker-2", "worker-1"])
def test_a_requeued_task(operator: Operator, port: ConductorOrchestrator, worker: str) -> None:
    """Same id, same retry count, same start time: only the poll count tells, if the worker is the same."""
    operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(port)
    operator.requeue("clean")
    assert catches(port, old) == (False, False), "until somebody polls it, the old owner is the owner"
    new = polled(port, worker=worker)
    assert new.snapshot.task_id == old.snapshot.task_id
    assert new.snapshot.started_at == old.snapshot.started_at
    assert superseded(port, old, new) == MISSED_BY_FOUR


def test_a_terminated_workflow(operator: Operator, port: ConductorOrchestrator) -> None:
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(port)
    operator.terminate(workflow)
    seen = reload(port, old)
    assert seen is not None
    assert (seen.status, seen.workflow_running) == (TaskStatus.CANCELED, False)
    assert catches(port, old) == CAUGHT_BY_BOTH


def test_a_paused_workflow_leaves_the_owner_in_peace(operator: Operator, port: ConductorOrchestrator) -> None:
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(port)
    operator.call("PUT", f"/workflow/{workflow}/pause")
    assert catches(port, old) == (False, False)
    done(port.report(wide(old), completed()))
    operator.call("PUT", f"/workflow/{workflow}/resume")
    assert operator.until_ended(workflow)["status"] == "COMPLETED"


def test_the_iterations_of_a_loop_are_logical_tasks_of_their_own(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    operator.register("clean")
    given = {"workspace": "${workflow.input.workspace}"}
    loop = {
        "name": "loop",
        "taskReferenceName": "loop",
        "type": "DO_WHILE",
        "loopCondition": "if ($.loop['iteration'] < 2) { true; } else { false; }",
        "loopOver": [{"name": "clean", "taskReferenceName": "clean", "type": "SIMPLE", "inputParameters": given}],
    }
    place = {"repository": MAIN.repository, "branch": MAIN.branch, "refType": "commit", "ref": FIRST_REF}
    workflow = operator.begin([loop], {}, {"workspace": place})
    first = polled(port)
    # Answered or not: the first condition makes Conductor start a script engine, which may take longer than we wait.
    port.report(wide(first), completed())
    second = polled(port)
    assert (first.logical_task, second.logical_task) == (f"{workflow}/clean__1", f"{workflow}/clean__2")


def test_a_zombie_of_the_four_field_fence_is_taken_for_the_owner(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    """Conductor accepts its result over the new owner's: nothing but our own fence keeps it from being sent."""
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(port)
    operator.terminate(workflow)
    operator.rerun(workflow, old.snapshot.task_id)
    new = polled(port, worker="worker-2")
    assert is_current(four(old), reload(port, old))
    done(port.report(four(old, "zombie"), completed(execution="zombie")))
    seen = reload(port, new)
    assert seen is not None
    assert (seen.status, seen.result_execution) == (TaskStatus.COMPLETED, "zombie")
