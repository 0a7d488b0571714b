"""A worker that stops itself does so between two calls, of whichever thread: else it would sleep with a lock held."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from attrs import evolve

from perago_core.answers import Answer
from perago_core.failpoints import Failpoint
from perago_core.ports import Assignment
from perago_local.coordination import SqliteCoordination
from perago_local.orchestrator import SqliteOrchestrator
from perago_worker.runtime.failpoints import FailpointSignal, WatchedOrchestrator, quiet
from tests.worker.embedded import embedded


class SlowToPoll(SqliteOrchestrator):
    """Takes as long for a poll as the test wants, as a busy machine does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def poll(self, worker_id: str, task_names: tuple[str, ...], limit: int) -> Answer[tuple[Assignment, ...]]:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().poll(worker_id, task_names, limit)


class SlowToKeepAlive(SqliteCoordination):
    """Takes as long for a sign of life."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def keep_alive(self, lease: str) -> Answer[bool]:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().keep_alive(lease)


def a_failpoint() -> FailpointSignal:
    """Continuing who is not stopped does nothing: what counts is when the signal is sent."""
    return FailpointSignal(signal.SIGCONT, Failpoint.parse("store.publish.before"))


def test_nobody_is_stopped_in_the_middle_of_another_s_poll(tmp_path: Path) -> None:
    """Counterexample, seen: the zombie slept in a transaction, and its successor found the database locked."""
    slow, failpoint = SlowToPoll(tmp_path / "orchestrator.db"), a_failpoint()
    watched = WatchedOrchestrator(slow, failpoint)
    is_stopped_only_after(slow, failpoint, lambda: watched.poll("w", ("t",), 1))


def test_nobody_is_stopped_in_the_middle_of_another_s_sign_of_life(tmp_path: Path) -> None:
    """Counterexample, seen: of 400 who were killed or stopped one kept the coordination store locked for good."""
    slow, failpoint = SlowToKeepAlive(tmp_path / "coordination.db"), a_failpoint()
    with embedded(tmp_path / "project") as worker:
        stack = quiet(evolve(worker.stack, coordination=slow), failpoint)
        assert stack.coordination is not None
        assert stack.leasing is stack.coordination
        is_stopped_only_after(slow, failpoint, partial(stack.coordination.keep_alive, "nobody's"))
        assert quiet(worker.stack, None) is worker.stack


def is_stopped_only_after(
    slow: SlowToPoll | SlowToKeepAlive, failpoint: FailpointSignal, call: Callable[[], object]
) -> None:
    calling = threading.Thread(target=call)
    stopping = threading.Thread(target=failpoint.of("t"), args=(failpoint.point,))
    calling.start()
    assert slow.begun.wait(60)
    stopping.start()
    stopping.join(0.5)
    assert stopping.is_alive()
    slow.go_on.set()
    for each in (calling, stopping):
        each.join(60)
        assert not each.is_alive()
