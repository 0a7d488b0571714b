"""SIGTERM drains, a second one stops, and a template that is killed is replaced (issue 5, item 5; N-13)."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from perago_core.pipelines import AttemptView
from perago_core.values import TaskStatus
from perago_local.git.objects import HALF
from tests.support.crash.judging import Line, judge_line, judge_rest
from tests.support.crash.project import REPOSITORY, CrashProject, WorkerProcess, wait_for

FAULTY = Path(__file__).with_name("faulty.py")
#: Longer than a busy machine stalls.
PATIENCE = 5.0


def test_sigterm_under_load_finishes_what_was_polled_and_takes_nothing_more(tmp_path: Path) -> None:
    """Bodies last longer than the orchestrator's patience: that they are accepted shows that their hearts beat on."""
    with CrashProject(tmp_path / "p", "auto") as project:
        lines = _start(project, workflows=5, seconds=PATIENCE * 1.5)
        worker = project.worker(capacity=2)
        wait_for(lambda: len(_in(project, lines, TaskStatus.IN_PROGRESS)) == 2, "two tasks that run", worker)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.said()
        assert len(_in(project, lines, TaskStatus.COMPLETED)) == 2
        assert len(_in(project, lines, TaskStatus.SCHEDULED)) == 3
        assert len(_attempts(project, lines)) == 5, "an attempt was given up and retried"
        _finish(project, lines)


def test_a_second_sigterm_stops_the_bodies_and_they_report_failed(tmp_path: Path) -> None:
    """Somebody else can start at once, instead of after the response time-out."""
    with CrashProject(tmp_path / "p", "auto") as project:
        lines = _start(project, workflows=2, seconds=600)
        worker = project.worker(capacity=2)
        wait_for(lambda: len(_in(project, lines, TaskStatus.IN_PROGRESS)) == 2, "two tasks that run", worker)
        worker.signal(signal.SIGTERM)
        wait_for(lambda: "draining" in worker.said(), "drain", worker)
        assert len(_in(project, lines, TaskStatus.IN_PROGRESS)) == 2
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.said()
        failed = _in(project, lines, TaskStatus.FAILED)
        assert len(failed) == 2
        assert all("told to stop at once" in each.reason for each in failed), failed


def test_a_second_sigterm_ends_the_upload_of_a_file_without_end(tmp_path: Path) -> None:
    """Counterexample, seen: a body left a tebibyte of nothing, and only a kill ended the worker that compressed it."""
    with CrashProject(tmp_path / "p", "auto") as project:
        project.add_task("faulty", source=FAULTY)
        project.plan("faulty", "sparse")
        target, first = project.branch("main")
        line = Line(target, first, project.start("faulty", ("faulty",), target, first))
        worker = project.worker()
        wait_for(lambda: _half_written(project), "an upload that has begun", worker)
        worker.signal(signal.SIGTERM)
        wait_for(lambda: "draining" in worker.said(), "drain", worker)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.said()
        (failed,) = _in(project, [line], TaskStatus.FAILED)
        assert "was stopped: " in failed.reason, failed
        assert _half_written(project) == []
        assert judge_rest(project, [line]) == []


def _half_written(project: CrashProject) -> list[Path]:
    objects = project.folder / ".perago" / "store" / f"{REPOSITORY}.git" / "objects"
    return [each for each in objects.glob(f"{HALF}*") if each.stat().st_size]


def test_a_worker_whose_template_is_killed_goes_on(tmp_path: Path) -> None:
    """The body that runs is not harmed, and the next one gets a new template."""
    with CrashProject(tmp_path / "p", "auto") as project:
        lines = _start(project, workflows=2, seconds=1.0)
        worker = project.worker(capacity=1)
        wait_for(lambda: _in(project, lines, TaskStatus.IN_PROGRESS), "a task that runs", worker)
        (template,) = wait_for(lambda: _children(worker), "template", worker)
        os.kill(template, signal.SIGKILL)
        wait_for(
            lambda: not any(project.view(line.workflow).running for line in lines), "end of both workflows", worker
        )
        assert worker.drain() == 0, worker.said()
        assert len(_in(project, lines, TaskStatus.COMPLETED)) == 2
        _finish(project, lines)


def _start(project: CrashProject, *, workflows: int, seconds: float) -> list[Line]:
    project.add_task("slow", {"PATIENCE": PATIENCE})
    project.plan("slow", "change")
    lines: list[Line] = []
    for number in range(workflows):
        target, first = project.branch(f"b{number}")
        lines.append(Line(target, first, project.start("slow", ("slow",), target, first, seconds=seconds)))
    return lines


def _attempts(project: CrashProject, lines: list[Line]) -> list[AttemptView]:
    return [each for line in lines for each in project.view(line.workflow).attempts]


def _in(project: CrashProject, lines: list[Line], status: TaskStatus) -> list[AttemptView]:
    return [each for each in _attempts(project, lines) if each.status is status]


def _children(worker: WorkerProcess) -> list[int]:
    found: list[int] = []
    for thread in Path("/proc", str(worker.pid), "task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            found += map(int, thread.read_text(encoding="ascii").split())
    return found


def _finish(project: CrashProject, lines: list[Line]) -> None:
    """Have a healthy worker do the rest; then everything must be as it should."""
    worker = project.worker(capacity=3, until_idle=True)
    assert worker.wait() == 0, worker.said()
    assert [sentence for line in lines for sentence in judge_line(project, line)] == []
    assert judge_rest(project, lines) == []
