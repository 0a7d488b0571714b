"""A body that crashes, hangs, swallows memory or leaves children harms nobody, end to end (issue 5, item 5; R1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from perago_core.values import CommitRef, TaskStatus
from perago_worker.bodies.isolation import trouble
from tests.support.crash.judging import Line, judge_rest
from tests.support.crash.project import FIRST, REPOSITORY, CrashProject, done, wait_for

FAULTY, NASTY = (Path(__file__).with_name(name) for name in ("faulty.py", "nasty.py"))
#: Seconds for a body that hangs; the others are given time to do their harm, however busy the machine.
DEADLINE, PATIENT = 2.0, 60.0
MEMORY = 600 << 20


@pytest.mark.parametrize(
    ("harm", "says"),
    [("segfault", "SIGSEGV"), ("hang", "2 s"), ("leak", "MemoryError")],
)
def test_a_harmful_body_fails_with_its_reason_publishes_nothing_and_leaves_nothing(
    tmp_path: Path, harm: str, says: str
) -> None:
    """FAILED, with a reason that names the harm; the branch, the names and the folders are as before (S-33, P-23)."""
    with CrashProject(tmp_path / "p", "auto") as project:
        line = _start(project, harm)
        worker = project.worker(until_idle=True)
        assert worker.wait() == 0, worker.said()
        (attempt,) = project.view(line.workflow).attempts
        assert attempt.status is TaskStatus.FAILED, attempt
        assert says in attempt.reason, attempt.reason
        assert [commit.ref for commit in done(project.store.history(line.target))] == [line.first]
        assert judge_rest(project, [line]) == []


def test_grandchildren_that_cut_every_tie_end_with_their_body(tmp_path: Path) -> None:
    """The body itself is fine, so it is published; nothing it started outlives it."""
    with CrashProject(tmp_path / "p", "auto") as project:
        line = _start(project, "fork")
        worker = project.worker(until_idle=True)
        assert worker.wait() == 0, worker.said()
        (attempt,) = project.view(line.workflow).attempts
        assert attempt.status is TaskStatus.COMPLETED, attempt
        births = project.folder / "plans" / "faulty.born"
        born = births.read_text(encoding="utf-8").split() if births.exists() else []
        wait_for(lambda: not [pid for pid in born if _is_ours(pid)], f"the end of {born}")
        assert judge_rest(project, [line]) == []


@pytest.mark.parametrize(("plan", "isolation"), [("all", "never"), ("all, swap and trace", "required")])
def test_a_body_that_tries_everything_at_once_takes_nothing_with_it(tmp_path: Path, plan: str, isolation: str) -> None:
    """What is published is what it has written, or nothing; its worker goes on, and keeps nothing of it."""
    if isolation == "required" and (obstacle := trouble()):
        pytest.skip(f"this system cannot isolate bodies: {obstacle}")
    precious = tmp_path / "precious"
    precious.write_text("precious", encoding="utf-8")
    with CrashProject(tmp_path / "p", "auto") as project:
        project.add_task("nasty", {"PRECIOUS": str(precious)}, source=NASTY)
        project.plan("nasty", plan)
        project.add_task("breakable")
        project.plan("breakable", "change")
        lines = [_line(project, name, name) for name in ("nasty", "breakable")]
        worker = project.worker(settings=(f"worker.isolation={isolation}",))
        wait_for(lambda: not any(project.view(each.workflow).running for each in lines), "end of both", worker)
        assert worker.drain() == 0, worker.said()
        nasty, good = (project.view(each.workflow).attempts[-1] for each in lines)
        assert good.status is TaskStatus.COMPLETED, good
        if nasty.status is TaskStatus.COMPLETED:
            published = project.store.read(REPOSITORY, CommitRef(nasty.ref or ""))
            assert {each.path for each in done(published.list())} <= {*FIRST, "result", "scratched"}
        else:
            assert "\n" not in nasty.reason
            assert "Traceback" not in nasty.reason
        assert precious.read_text(encoding="utf-8") == "precious"
        assert precious.stat().st_nlink == 1
        assert b"\x1b" not in worker.log.read_bytes()
        assert judge_rest(project, lines) == []


def _line(project: CrashProject, branch: str, task: str) -> Line:
    target, first = project.branch(branch)
    return Line(target, first, project.start(task, (task,), target, first))


def _start(project: CrashProject, harm: str) -> Line:
    project.add_task("faulty", {"DEADLINE": DEADLINE if harm == "hang" else PATIENT, "MEMORY": MEMORY}, source=FAULTY)
    project.plan("faulty", harm)
    target, first = project.branch("main")
    return Line(target, first, project.start("harm", ("faulty",), target, first))


def _is_ours(pid: str) -> bool:
    """Return whether the process lives and is a Python of ours, not somebody who got its number since."""
    try:
        return b"perago" in Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return False
