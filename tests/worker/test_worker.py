"""The poll loop on the embedded orchestrator: never more in hand than fits, patient with others, drained in order."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from attrs import define, field

from perago_core.answers import Unknown
from perago_core.ports import Assignment
from perago_core.values import TaskStatus
from perago_worker.runtime.worker import PATIENCE_WITH_OURSELVES, Worker
from tests.worker.embedded import Embedded, Faulty, embedded

LIMIT = 60.0


@pytest.fixture
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded(tmp_path_factory.mktemp("polling")) as made:
        yield made


@define
class Hands:
    """Takes assignments and holds each until it is let go."""

    let_go: threading.Semaphore = field(factory=lambda: threading.Semaphore(0))
    held: list[str] = field(factory=list[str])
    done: list[str] = field(factory=list[str])
    stopped: list[str] = field(factory=list[str])

    def run(self, assignment: Assignment, polled_at: float, _free: Callable[[], object]) -> None:
        assert polled_at > 0
        self.held.append(assignment.snapshot.task_id)
        assert self.let_go.acquire(timeout=LIMIT)
        self.done.append(assignment.snapshot.task_id)

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)
        for _ in self.held:
            self.let_go.release()


def a_worker(parts: Embedded, hands: Hands, run: Callable[..., None] | None = None, **changed: Any) -> Worker:  # noqa: ANN401  settings of a worker
    settings: dict[str, Any] = {"capacity": 2, "poll_interval": 0.01, "drain_limit": LIMIT, **changed}
    orchestrator = settings.pop("orchestrator", parts.orchestrator)
    return Worker(
        orchestrator,
        run or hands.run,
        hands.stop,
        clock=parts.stack.clock,
        worker_id="tester",
        task_names=tuple(parts.tasks),
        **settings,
    )


def wait_for(ready: Callable[[], object]) -> None:
    until = time.monotonic() + LIMIT
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.01)


def is_long(things: list[str], length: int) -> bool:
    return len(things) == length


def in_hand(parts: Embedded) -> int:
    return sum(each.status is TaskStatus.IN_PROGRESS for each in parts.orchestrator.open_tasks())


def started(worker: Worker, codes: list[int]) -> threading.Thread:
    thread = threading.Thread(target=lambda: codes.append(worker.run()), daemon=True)
    thread.start()
    return thread


def test_nothing_is_polled_that_cannot_be_started_at_once(parts: Embedded) -> None:
    for _ in range(5):
        parts.start("write")
    hands, codes = Hands(), list[int]()
    worker = a_worker(parts, hands)
    thread = started(worker, codes)
    for done in range(4):
        wait_for(partial(is_long, hands.held, done + 2))
        assert in_hand(parts) == len(hands.held)
        hands.let_go.release()
        wait_for(partial(is_long, hands.done, done + 1))
    worker.drain()
    hands.let_go.release()
    thread.join(LIMIT)
    assert codes == [0]
    assert sorted(hands.done) == sorted(hands.held)


def test_the_next_task_is_asked_for_while_the_last_ones_result_is_on_its_way(parts: Embedded) -> None:
    """One place: its body has ended, the report hangs. A second may begin; a third would be one too many."""
    for _ in range(4):
        parts.start("write")
    hands, codes = Hands(), list[int]()

    def reporting(assignment: Assignment, polled_at: float, free: Callable[[], object]) -> None:
        free()
        free()
        hands.run(assignment, polled_at, free)

    worker = a_worker(parts, hands, reporting, capacity=1)
    thread = started(worker, codes)
    wait_for(partial(is_long, hands.held, 2))
    time.sleep(0.2)
    assert len(hands.held) == in_hand(parts) == 2
    hands.let_go.release()
    wait_for(partial(is_long, hands.held, 3))
    worker.drain()
    hands.let_go.release(2)
    thread.join(LIMIT)
    assert codes == [0]
    assert sorted(hands.done) == sorted(hands.held)


def test_until_idle_ends_when_there_is_nothing_left_to_do(parts: Embedded) -> None:
    for _ in range(3):
        parts.start("write")
    hands = Hands(let_go=threading.Semaphore(3))
    assert a_worker(parts, hands).run(until_idle=True) == 0
    assert len(hands.done) == 3
    assert a_worker(parts, hands).run(until_idle=True) == 0


def test_a_poll_that_fails_is_tried_again_after_ever_longer_waits(
    parts: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "perago")
    parts.start("write")
    failures = iter(range(4))

    def poll(real: Callable[..., object], *words: object) -> object:
        return real(*words) if next(failures, None) is None else Unknown("no answer")

    hands = Hands(let_go=threading.Semaphore(1))
    worker = a_worker(parts, hands, orchestrator=Faulty(parts.orchestrator, poll=poll), poll_interval=0.1)
    assert worker.run(until_idle=True) == 0
    waits = [float(found[1]) for line in caplog.messages if (found := re.search(r"in ([\d.]+) s", line))]
    assert waits == [0.1, 0.2, 0.4, 0.8]
    assert len(hands.done) == 1


def test_draining_takes_nothing_more_and_lets_what_runs_come_to_its_end(parts: Embedded) -> None:
    for _ in range(4):
        parts.start("write")
    hands, codes = Hands(), list[int]()
    worker = a_worker(parts, hands)
    thread = started(worker, codes)
    wait_for(lambda: len(hands.held) == 2)
    worker.drain()
    hands.let_go.release()
    hands.let_go.release()
    thread.join(LIMIT)
    assert codes == [0]
    assert (len(hands.held), len(hands.done), hands.stopped) == (2, 2, [])


def test_draining_again_stops_the_bodies(parts: Embedded) -> None:
    parts.start("write")
    hands, codes = Hands(), list[int]()
    worker = a_worker(parts, hands)
    thread = started(worker, codes)
    wait_for(lambda: hands.held)
    worker.drain()
    assert hands.stopped == []
    worker.drain()
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert hands.stopped[0] == "the worker was told to stop at once"


def test_bodies_that_outlive_the_drain_limit_are_stopped(parts: Embedded) -> None:
    parts.start("write")
    hands, codes = Hands(), list[int]()
    worker = a_worker(parts, hands, drain_limit=0.1)
    thread = started(worker, codes)
    wait_for(lambda: hands.held)
    worker.drain()
    thread.join(LIMIT)
    assert codes == [0]
    assert set(hands.stopped) == {"the drain limit of 0.1 s is over"}


def test_who_is_told_to_stop_at_once_stops_also_what_a_poll_on_its_way_brings(parts: Embedded) -> None:
    """The poll was sent before the order and is answered after it: the task is ours, so it is run, and stopped."""
    parts.start("write")
    hands, codes, asked, told = Hands(), list[int](), threading.Event(), threading.Event()

    def poll(real: Callable[..., object], *words: object) -> object:
        asked.set()
        assert told.wait(LIMIT)
        return real(*words)

    worker = a_worker(parts, hands, orchestrator=Faulty(parts.orchestrator, poll=poll))
    thread = started(worker, codes)
    assert asked.wait(LIMIT)
    worker.drain()
    worker.drain()
    told.set()
    thread.join(LIMIT / 2)
    assert not thread.is_alive()
    assert (len(hands.done), codes) == (1, [0])


def test_a_worker_that_only_breaks_its_attempts_gives_up_and_says_so_by_its_exit_code(parts: Embedded) -> None:
    for _ in range(PATIENCE_WITH_OURSELVES + 5):
        parts.start("write")

    def broken(_assignment: Assignment, _polled_at: float, _free: Callable[[], object]) -> None:
        raise RuntimeError("a fault of ours")

    assert a_worker(parts, Hands(), broken, capacity=1).run(until_idle=True) == 1
    assert in_hand(parts) <= PATIENCE_WITH_OURSELVES + 1
