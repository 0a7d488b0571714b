"""A worker that stops itself does so between two calls, of whichever thread: else it would sleep with a lock held."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from perago_core.answers import Answer
from perago_core.failpoints import Failpoint
from perago_core.ports import Assignment
from perago_local.orchestrator import SqliteOrchestrator
from perago_worker.runtime.failpoints import FailpointSignal, WatchedOrchestrator


class SlowToPoll(SqliteOrchestrator):
    """Takes as long for a poll as the test wants, as a busy machine does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def poll(self, worker_id: str, task_names: tuple[str, ...], limit: int) -> Answer[tuple[Assignment, ...]]:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().poll(worker_id, task_names, limit)


def test_nobody_is_stopped_in_the_middle_of_another_s_poll(tmp_path: Path) -> None:
    """Counterexample, seen: the zombie slept in a transaction, and its successor found the database locked."""
    slow = SlowToPoll(tmp_path / "orchestrator.db")
    # Continuing who is not stopped does nothing: what counts is when the signal is sent.
    failpoint = FailpointSignal(signal.SIGCONT, Failpoint.parse("store.publish.before"))
    watched = WatchedOrchestrator(slow, failpoint)
    polling = threading.Thread(target=watched.poll, args=("w", ("t",), 1))
    stopping = threading.Thread(target=failpoint.of("t"), args=(failpoint.point,))
    polling.start()
    assert slow.begun.wait(60)
    stopping.start()
    stopping.join(0.5)
    assert stopping.is_alive()
    slow.go_on.set()
    for each in (polling, stopping):
        each.join(60)
        assert not each.is_alive()
