"""The poll loop: never more in hand than can be started at once, nothing polled that is not run or cannot be published.

An attempt frees its place when only the report is left, so that the next task is asked for while the last one's result
is on its way. (Conductor can do both in one request; if its answer is lost, nobody runs the task that was in it.)

SIGTERM drains: no more polls, what runs goes on to its end with its heart beating. A second SIGTERM, or the drain
limit, stops the bodies and whatever has not begun to publish; these attempts then report that they failed, so that
somebody else can start at once. A policy that changes drains too, and the worker is then started again under it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TypeAlias

from perago_core.answers import Done
from perago_core.ports import Assignment, Clock, Orchestrator
from perago_core.results import Outcome
from perago_worker.logger import log
from perago_worker.runtime.membership import Membership

#: Runs an assignment that a poll sent at that second brought; calls the last when its body's place is free.
Run: TypeAlias = Callable[[Assignment, float, Callable[[], object]], Outcome | None]

#: An attempt that goes wrong outside the protocol is a fault of ours; so many in a row and the worker gives up.
PATIENCE_WITH_OURSELVES = 10
_BACKOFF_LIMIT = 10.0
#: Seconds after which a worker that drains looks whether its bodies have ended.
_LOOK_AGAIN = 0.2
_TOLD = "the worker was told to stop at once"


class Worker:
    """Polls and runs until it is told to stop."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        run: Run,
        stop_bodies: Callable[[str], object],
        *,
        clock: Clock,
        worker_id: str,
        task_names: tuple[str, ...],
        capacity: int,
        poll_interval: float,
        drain_limit: float,
        trouble: Callable[[], str | None] = lambda: None,
        membership: Membership | None = None,
        sweep: Callable[[], object] = lambda: None,
    ) -> None:
        self._orchestrator = orchestrator
        self._run = run
        self._stop_bodies = stop_bodies
        self._clock = clock
        self._worker_id = worker_id
        self._task_names = task_names
        self._capacity = capacity
        # As many again may be reporting while the next bodies run in their places.
        self._most = 2 * capacity
        self._poll_interval = poll_interval
        self._drain_limit = drain_limit
        self._trouble = trouble
        self._membership = membership
        self._sweep = sweep
        self._draining = threading.Event()
        self._stopping = threading.Event()
        self._telling = threading.Lock()
        self._running: set[Future[Outcome | None]] = set()
        self._places: set[object] = set()
        self._changed = threading.Event()
        self._broken = 0

    def drain(self) -> None:
        """Take no more work. Called again: stop the bodies that still run."""
        with self._telling:  # two signals at once are two orders
            again = self._draining.is_set()
            self._draining.set()
            self._changed.set()
        if again:
            self._stopping.set()
            self._stop_bodies(_TOLD)

    @property
    def draining(self) -> bool:
        """Whether it was told to take no more work."""
        return self._draining.is_set()

    def run(self, *, until_idle: bool = False) -> int:
        """Work until told to stop; with ``until_idle`` also until there is nothing to do. Give the exit code."""
        waited = self._poll_interval
        with ThreadPoolExecutor(self._most, thread_name_prefix="attempt") as pool:
            while not self._draining.is_set() and self._broken < PATIENCE_WITH_OURSELVES and not self.moved:
                self._sweep()
                started = self._take(pool)
                if started is None:
                    log.warning("polling again in %.1f s", waited)
                    self._draining.wait(waited)
                    waited = min(waited * 2, _BACKOFF_LIMIT)
                    continue
                waited = self._poll_interval
                if until_idle and not started and not self._running and not self._rests:
                    break
                if not started:
                    self._pause()
            self._finish()
        return 1 if self._broken else 0

    def _take(self, pool: ThreadPoolExecutor) -> int | None:
        """Poll for what can be started now. ``None``: it did not answer, or what an attempt needs does not."""
        self._changed.clear()
        self._reap()
        free = min(self._capacity - len(self._places), self._most - len(self._running))
        if free < 1:
            return 0
        trouble = self._trouble()
        if trouble is not None:
            log.warning("taking no task: %s", trouble)
            return None
        if self._membership is not None and not self._membership.may_take(idle=not self._running):
            return 0
        sent = self._clock.now()
        answer = self._orchestrator.poll(self._worker_id, self._task_names, free)
        if not isinstance(answer, Done):
            log.warning("the orchestrator gave no tasks: %s", answer.reason)
            return None
        for assignment in answer.value:
            place = object()
            self._places.add(place)
            running = pool.submit(self._run, assignment, sent, partial(self._free, place))
            self._running.add(running)
            running.add_done_callback(partial(self._free, place))
        return len(answer.value)

    @property
    def moved(self) -> bool:
        """Whether the cluster's policy has changed: what runs is ended, and whoever started it starts it again."""
        return self._membership is not None and self._membership.moved

    @property
    def _rests(self) -> bool:
        return self._membership is not None and self._membership.rests

    def _free(self, place: object, _ended: object = None) -> None:
        self._places.discard(place)
        self._changed.set()

    def _pause(self) -> None:
        """Wait for a place to become free, for the end or for the next poll, whichever comes first."""
        self._changed.wait(self._poll_interval)

    def _reap(self) -> None:
        for done in [future for future in self._running if future.done()]:
            self._running.discard(done)
            error = done.exception()
            self._broken = 0 if error is None else self._broken + 1
            if error is not None:
                log.error("an attempt broke outside the protocol; it will be given up and retried", exc_info=error)

    def _finish(self) -> None:
        if self._running:
            log.info("draining: %d attempt(s) run to their end, at most %g s", len(self._running), self._drain_limit)
        end = self._clock.now() + self._drain_limit
        while wait(self._running, timeout=_LOOK_AGAIN).not_done:
            # Again and again: a poll on its way when the order came may bring a task that has not heard of it.
            if self._stopping.is_set():
                self._stop_bodies(_TOLD)
            elif self._clock.now() >= end:
                self._stop_bodies(f"the drain limit of {self._drain_limit:g} s is over")
        self._reap()


def _to_log(name: str) -> None:
    log.info("%s: draining; again to stop at once", name)


@contextmanager
def draining_on_signals(worker: Worker, say: Callable[[str], object] = _to_log) -> Generator[None]:
    """Let SIGTERM and SIGINT drain the worker, and the second one stop it; ``say`` is given the name of each.

    Only the main thread can be told of signals; in any other, whoever started it ends it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def obey(name: str) -> None:
        say(name)
        worker.drain()

    def stop(number: int, _frame: FrameType | None) -> None:
        # Not here: a handler interrupts the main thread, which may hold the lock that stopping, or saying so, needs.
        threading.Thread(target=obey, args=(signal.Signals(number).name,), name="drain").start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
