"""Attempts on a real Conductor: polled through the port, pinned as a worker pins them."""

from __future__ import annotations

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conformance.support import MAIN, attempt_of, done
from perago_core.attempt.state import is_current
from perago_core.ports import Assignment
from perago_core.results import Classification, Completed, Failed, Refusal
from perago_core.values import Attempt, Backing, CommitRef, TaskSnapshot
from tests.support.conductor.operating import eventually

FIRST_REF, NEXT_REF, LAST_REF = (CommitRef(letter * 40) for letter in "abc")

#: What a worker says whose body failed.
FAILED = Failed(Refusal(Classification.BODY_FAILED, "a body that works", "one that does not", "Mend it."))

__all__ = ["FAILED", "FIRST_REF", "LAST_REF", "MAIN", "NEXT_REF", "catches", "four", "polled", "wide"]


def polled(port: ConductorOrchestrator, *names: str, worker: str = "worker-1") -> Assignment:
    """Poll until the one task that must come has come."""
    (assignment,) = eventually(lambda: done(port.poll(worker, names or ("clean",), 1)), f"a task of {names}")
    return assignment


def four(assignment: Assignment, execution: str = "run-1") -> Attempt:
    """Pin an attempt that compares the seed's four fields."""
    return attempt_of(assignment, execution, Backing.SOFT)


def wide(assignment: Assignment, execution: str = "run-1") -> Attempt:
    """Pin an attempt that compares all that tells two deliveries apart."""
    return attempt_of(assignment, execution, Backing.CONDITIONAL)


def completed(ref: CommitRef = NEXT_REF, execution: str = "run-1", output: str = '{"rows": 3}') -> Completed:
    return Completed(ref, output, execution)


def reload(port: ConductorOrchestrator, assignment: Assignment) -> TaskSnapshot | None:
    return done(port.reload(assignment.snapshot.workflow_id, assignment.snapshot.task_id))


def catches(port: ConductorOrchestrator, stale: Assignment) -> tuple[bool, bool]:
    """Say whether the seed's fence and ours notice now that this delivery is no longer the current one."""
    seen = reload(port, stale)
    return not is_current(four(stale), seen), not is_current(wide(stale), seen)
