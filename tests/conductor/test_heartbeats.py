"""A heartbeat that overlaps a result can undo it: Conductor writes the whole task back. Ours are drained first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from perago_clock import MachineClock
from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conformance.support import done
from perago_core.attempt.state import is_accepted
from perago_core.ports import Assignment
from perago_core.values import TaskStatus
from perago_worker.runtime.heartbeat import Heartbeat
from tests.conductor.attempts import FIRST_REF, MAIN, completed, polled, reload, wide
from tests.support.conductor.operating import Operator
from tests.support.crash.seeds import FULL

ROUNDS = 500 if FULL else 60
#: Undrained, one beat reverted 9 of 60 completions. That none does in so many rounds has a chance of one in 10^14.
PATIENCE = 200


def task_of(operator: Operator, port: ConductorOrchestrator) -> Assignment:
    operator.start(("clean",), MAIN, FIRST_REF)
    return polled(port)


def test_no_completion_is_reverted_by_a_heartbeat_of_ours(operator: Operator, port: ConductorOrchestrator) -> None:
    """A heart that beats without a pause, stopped as the runtime stops it: right before the result is sent."""
    lost: list[str] = []
    for number in range(ROUNDS):
        task = task_of(operator, port)
        attempt = wide(task)
        clock = MachineClock()
        heart = Heartbeat(attempt, port, clock, interval=1e-4, patience=600.0, since=clock.now(), on_loss=lost.append)
        heart.start()
        before = heart.until()
        while heart.until() == before:  # at least one beat has gone out and come back
            threading.Event().wait(1e-3)
        heart.stop()
        done(port.report(attempt, completed()))
        seen = reload(port, task)
        assert is_accepted(attempt, seen), f"round {number}: {seen}"
    assert lost == []
    for workflow in operator.started:
        shown = operator.until_ended(workflow)
        assert (shown["status"], shown["tasks"][0]["status"]) == ("COMPLETED", "COMPLETED")


def _beat(port: ConductorOrchestrator, task: Assignment, meet: threading.Barrier) -> None:
    meet.wait()
    for _ in range(3):
        done(port.extend(wide(task)))


def test_a_heartbeat_that_is_not_drained_reverts_a_completion(operator: Operator, port: ConductorOrchestrator) -> None:
    """The danger is real, on this very server; without it the test above would show nothing."""
    with ThreadPoolExecutor(1) as pool:
        for _ in range(PATIENCE):
            task = task_of(operator, port)
            meet = threading.Barrier(2)
            beating = pool.submit(_beat, port, task, meet)
            meet.wait()
            done(port.report(wide(task), completed()))
            beating.result()
            seen = reload(port, task)
            assert seen is not None
            if seen.status is TaskStatus.IN_PROGRESS:
                return
    message = f"no completion was reverted in {PATIENCE} rounds"
    raise AssertionError(message)
