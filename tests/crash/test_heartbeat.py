"""What a heart may believe: time counts from when a request was sent, and a hiccup is not the end (P-35, N-06)."""

from __future__ import annotations

import time
from pathlib import Path

from perago_clock import MachineClock
from perago_conformance.attempts import pinned
from perago_core.answers import Answer
from perago_core.ports import Assignment, Orchestrator
from perago_core.results import Result
from perago_core.values import Attempt, Backing, TaskSnapshot
from perago_worker.runtime.heartbeat import Heartbeat
from perago_worker.runtime.worker import Worker
from tests.support.crash.project import CrashProject, done, wait_for

PATIENCE = 4.0


class BadLine:
    """The real orchestrator behind a bad line: answers to polls come late, and the first reloads break off."""

    def __init__(self, orchestrator: Orchestrator, *, late: float = 0.0, breaks: int = 0) -> None:
        self._orchestrator = orchestrator
        self._late = late
        self._breaks = breaks
        self.asked_at = 0.0

    def poll(self, worker_id: str, task_names: tuple[str, ...], limit: int) -> Answer[tuple[Assignment, ...]]:
        self.asked_at = self.asked_at or time.monotonic()
        answer = self._orchestrator.poll(worker_id, task_names, limit)
        time.sleep(self._late)
        return answer

    def reload(self, workflow_id: str | None, task_id: str) -> Answer[TaskSnapshot | None]:
        if self._breaks:
            self._breaks -= 1
            raise ConnectionResetError("the line broke")
        return self._orchestrator.reload(workflow_id, task_id)

    def extend(self, attempt: Attempt) -> Answer[None]:
        return self._orchestrator.extend(attempt)

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        return self._orchestrator.report(attempt, result)


def test_the_deadline_of_an_attempt_counts_from_the_send_of_its_poll(tmp_path: Path) -> None:
    """Counterexample: the answer comes 0.5 s late; counted from then, we act up to 0.5 s after we were given up."""
    with CrashProject(tmp_path / "p", "auto") as project:
        line = BadLine(_with_a_task(project), late=0.5)
        polled: list[float] = []
        worker = Worker(
            line,
            lambda _assignment, sent, _free: polled.append(sent),
            lambda _reason: None,
            clock=MachineClock(),
            worker_id="w",
            task_names=("t",),
            capacity=1,
            poll_interval=0.01,
            drain_limit=1.0,
        )
        assert worker.run(until_idle=True) == 0
        assert len(polled) == 1
        assert polled[0] <= line.asked_at


def test_a_heart_begins_with_what_is_left_and_goes_on_after_a_beat_that_broke(tmp_path: Path) -> None:
    """A beat that raises is a beat without an answer: the next one extends, and no body is given up for it."""
    with CrashProject(tmp_path / "p", "auto") as project:
        orchestrator = _with_a_task(project)
        sent = time.monotonic()
        (assignment,) = done(orchestrator.poll("w", ("t",), 1))
        lost: list[str] = []
        heart = Heartbeat(
            _attempt(project, assignment),
            BadLine(orchestrator, breaks=2),
            MachineClock(),
            interval=0.05,
            patience=PATIENCE,
            since=sent,
            on_loss=lost.append,
        )
        assert heart.until() == sent + PATIENCE
        heart.start()
        wait_for(lambda: heart.until() > sent + PATIENCE, "a beat that extends")
        heart.stop()
        assert lost == []


def _with_a_task(project: CrashProject) -> Orchestrator:
    project.add_task("t", {"PATIENCE": PATIENCE})
    target, first = project.branch("main")
    project.start("w", ("t",), target, first)
    return project.orchestrator


def _attempt(project: CrashProject, assignment: Assignment) -> Attempt:
    target, first = project.branch("other")
    return pinned(assignment, "e1", target, first, Backing.ATOMIC)
