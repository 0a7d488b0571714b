"""A body that crashes, hangs, swallows memory or leaves children harms nobody, end to end (issue 5, item 5; R1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from perago_core.values import TaskStatus
from tests.support.crash.judging import Line, judge_rest
from tests.support.crash.project import CrashProject, done, wait_for

FAULTY = Path(__file__).with_name("faulty.py")
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
