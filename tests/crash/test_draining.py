"""SIGTERM drains, a second one stops, and a template that is killed is replaced (issue 5, item 5; N-13)."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from perago_core.values import TaskStatus
from perago_worker.pipelines.protocol import AttemptView
from tests.support.crash.judging import Line, judge_line, judge_rest
from tests.support.crash.project import WorkerProcess, Yard, wait_for

#: Longer than a busy machine stalls.
PATIENCE = 5.0


def test_sigterm_under_load_finishes_what_was_polled_and_takes_nothing_more(tmp_path: Path) -> None:
    """Bodies last longer than the orchestrator's patience: that they are accepted shows that their hearts beat on."""
    with Yard(tmp_path / "p", "auto") as yard:
        lines = _start(yard, workflows=5, seconds=PATIENCE * 1.5)
        worker = yard.worker(capacity=2)
        wait_for(lambda: len(_in(yard, lines, TaskStatus.IN_PROGRESS)) == 2, "two tasks that run", worker)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.said()
        assert len(_in(yard, lines, TaskStatus.COMPLETED)) == 2
        assert len(_in(yard, lines, TaskStatus.SCHEDULED)) == 3
        assert len(_attempts(yard, lines)) == 5, "an attempt was given up and retried"
        _finish(yard, lines)


def test_a_second_sigterm_stops_the_bodies_and_they_report_failed(tmp_path: Path) -> None:
    """Somebody else can start at once, instead of after the response time-out."""
    with Yard(tmp_path / "p", "auto") as yard:
        lines = _start(yard, workflows=2, seconds=600)
        worker = yard.worker(capacity=2)
        wait_for(lambda: len(_in(yard, lines, TaskStatus.IN_PROGRESS)) == 2, "two tasks that run", worker)
        worker.signal(signal.SIGTERM)
        wait_for(lambda: "draining" in worker.said(), "drain", worker)
        assert len(_in(yard, lines, TaskStatus.IN_PROGRESS)) == 2
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.said()
        failed = _in(yard, lines, TaskStatus.FAILED)
        assert len(failed) == 2
        assert all("told to stop at once" in each.reason for each in failed), failed


def test_a_worker_whose_template_is_killed_goes_on(tmp_path: Path) -> None:
    """The body that runs is not harmed, and the next one gets a new template."""
    with Yard(tmp_path / "p", "auto") as yard:
        lines = _start(yard, workflows=2, seconds=1.0)
        worker = yard.worker(capacity=1)
        wait_for(lambda: _in(yard, lines, TaskStatus.IN_PROGRESS), "a task that runs", worker)
        (template,) = wait_for(lambda: _children(worker), "template", worker)
        os.kill(template, signal.SIGKILL)
        wait_for(lambda: not any(yard.view(line.workflow).running for line in lines), "end of both workflows", worker)
        assert worker.drain() == 0, worker.said()
        assert len(_in(yard, lines, TaskStatus.COMPLETED)) == 2
        _finish(yard, lines)


def _start(yard: Yard, *, workflows: int, seconds: float) -> list[Line]:
    yard.add_task("slow", {"PATIENCE": PATIENCE})
    yard.plan("slow", "change")
    lines: list[Line] = []
    for number in range(workflows):
        target, first = yard.branch(f"b{number}")
        lines.append(Line(target, first, yard.start("slow", ("slow",), target, first, seconds=seconds)))
    return lines


def _attempts(yard: Yard, lines: list[Line]) -> list[AttemptView]:
    return [each for line in lines for each in yard.view(line.workflow).attempts]


def _in(yard: Yard, lines: list[Line], status: TaskStatus) -> list[AttemptView]:
    return [each for each in _attempts(yard, lines) if each.status is status]


def _children(worker: WorkerProcess) -> list[int]:
    found: list[int] = []
    for thread in Path("/proc", str(worker.pid), "task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            found += map(int, thread.read_text(encoding="ascii").split())
    return found


def _finish(yard: Yard, lines: list[Line]) -> None:
    """Have a healthy worker do the rest; then everything must be as it should."""
    worker = yard.worker(capacity=3, until_idle=True)
    assert worker.wait() == 0, worker.said()
    assert [sentence for line in lines for sentence in judge_line(yard, line)] == []
    assert judge_rest(yard, lines) == []
