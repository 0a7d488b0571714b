"""A clock the test moves, and short ways to run a workflow by hand on the embedded orchestrator."""

from __future__ import annotations

from typing import TypeVar

from attrs import define

from perago_conformance.attempts import pinned
from perago_core.answers import Answer, Done
from perago_core.ports import Assignment
from perago_core.results import Classification, Completed, Failed, FailedTerminally, Refusal
from perago_core.values import Attempt, Backing, CommitRef, Target, TaskSnapshot
from perago_local.orchestrator import SqliteOrchestrator
from perago_local.orchestrator.workflow import TaskDefinition, WorkflowStatus, WorkflowStep

T = TypeVar("T")

TARGET = Target("lake", "main")
REF = CommitRef("A")
WHY = Refusal(Classification.BODY_FAILED, "a body that ends well", "an exception", "Look at the log.")


@define
class HandClock:
    """Time stands still until the test moves it. The wall clock may be moved apart from it."""

    seconds: float = 1000.0
    milliseconds: int = 1_700_000_000_000

    def now(self) -> float:
        return self.seconds

    def wall(self) -> int:
        return self.milliseconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def started(
    orchestrator: SqliteOrchestrator,
    *steps: str,
    retry_count: int = 2,
    retry_delay: float = 0.0,
    response_timeout: float = 10.0,
    total_timeout: float = float("inf"),
) -> str:
    """Start a workflow of these steps, each a task of the same name."""
    for step in steps:
        definition = TaskDefinition(
            step,
            retry_count=retry_count,
            retry_delay=retry_delay,
            response_timeout=response_timeout,
            total_timeout=total_timeout,
        )
        orchestrator.register(definition)
    return orchestrator.start_workflow("w", tuple(WorkflowStep(step, step) for step in steps), target=TARGET, ref=REF)


def take(orchestrator: SqliteOrchestrator, *names: str, worker: str = "w1") -> Assignment:
    """Poll exactly one task."""
    (assignment,) = done(orchestrator.poll(worker, names, 10))
    return assignment


def attempt_of(assignment: Assignment, execution: str = "x1") -> Attempt:
    """Pin what was polled, as a worker does."""
    return pinned(assignment, execution, TARGET, REF, Backing.ATOMIC)


def reloaded(orchestrator: SqliteOrchestrator, attempt: Attempt) -> TaskSnapshot | None:
    """Reload the task of an attempt."""
    return done(orchestrator.reload(attempt.workflow_id, attempt.task_id))


def completed(ref: str, output: str = "{}", execution: str = "x1") -> Completed:
    return Completed(CommitRef(ref), output, execution)


def failed() -> Failed:
    return Failed(WHY)


def failed_terminally() -> FailedTerminally:
    return FailedTerminally(WHY)


def done(answer: Answer[T]) -> T:
    """Give the value of an answer that must be there."""
    assert isinstance(answer, Done), answer
    return answer.value


def status(orchestrator: SqliteOrchestrator, workflow_id: str) -> WorkflowStatus:
    found = orchestrator.workflow(workflow_id)
    assert found is not None
    return found.status
