"""A machine that fails under a worker: the worker says what it is, loses nothing, and goes on when it is mended."""

from __future__ import annotations

import itertools
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from attrs import frozen

from perago_core.values import CommitRef
from perago_worker.config.load import load
from perago_worker.stack import open_stack
from tests.support.crash.judging import Line, judge_line, judge_rest
from tests.support.crash.project import CrashProject, WorkerProcess, wait_for

WORKERS = 3


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """Give a folder for a project whose ``.perago`` is a disk of its own, with little room on it."""
    disk = tmp_path / "p" / ".perago"
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=2000", "perago", str(disk)]
    if (made := subprocess.run(mount, check=False, capture_output=True, text=True)).returncode:  # noqa: S603  our own
        pytest.skip(f"a disk cannot be mounted here: {made.stderr.strip()}")
    yield disk.parent
    subprocess.run(["umount", "--lazy", str(disk)], check=True)  # noqa: S603, S607  our own


@frozen
class Fault:
    """What becomes of the machine, what the worker says then, and how it is mended."""

    harm: Callable[[Path, WorkerProcess], object]
    says: str
    mend: Callable[[Path, WorkerProcess], object]


def fill(disk: Path, _worker: WorkerProcess) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(b"x" * 4096):
                pass
        except OSError:
            return


def use_up_inodes(disk: Path, _worker: WorkerProcess) -> None:
    (disk / "filler").mkdir()
    try:
        for number in itertools.count():
            (disk / "filler" / str(number)).touch()
    except OSError:
        return


def empty(disk: Path, _worker: WorkerProcess) -> None:
    filler = disk / "filler"
    shutil.rmtree(filler) if filler.is_dir() else filler.unlink()


def open_files(count: int) -> Callable[[Path, WorkerProcess], None]:
    """Let a process that runs have so many files open; what is open stays open."""

    def limit(_disk: Path, worker: WorkerProcess) -> None:
        _, most = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (count, most))

    return limit


FAULTS = {
    "full disk": Fault(fill, "disk is full", empty),
    "no inodes": Fault(use_up_inodes, "No space left on device", empty),
    "few open files": Fault(open_files(3), "Too many open files", open_files(1024)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_worker_says_what_fails_loses_nothing_and_goes_on_when_it_is_mended(folder: Path, fault: Fault) -> None:
    """The body ends while it lasts, so that nothing of its attempt can be written down."""
    with CrashProject(folder, "auto") as project:
        project.add_task("task", {"RETRIES": 1000})
        place = project.branch("main")
        project.plan("task", "change")
        worker = project.worker()
        before = Line(*place, project.start("before", ("task",), *place))
        wait_for(lambda: project.view(before.workflow).succeeded, "first workflow", worker)
        assert judge_line(project, before) == []
        (attempt,) = project.view(before.workflow).attempts
        place = (place[0], CommitRef(attempt.ref or ""))
        project.plan("task", "wait")
        during = Line(*place, project.start("during", ("task",), *place))
        wait_for(lambda: worker.said().count("-> BODY") == 2, "body", worker)
        said = len(worker.said())

        fault.harm(folder / ".perago", worker)
        project.plan("task", "change")
        wait_for(lambda: fault.says in worker.said()[said:], "word about it", worker)
        fault.mend(folder / ".perago", worker)

        wait_for(lambda: project.view(during.workflow).succeeded, "second workflow", worker)
        assert worker.drain() == 0
        assert "Traceback" not in worker.said()
        assert judge_line(project, during) == []
        sweep = project.spawn(
            [sys.executable, "-m", "perago_worker", "--project", str(folder), "gc", str(during.target)]
        )
        assert sweep.wait() == 0, sweep.said()
        assert judge_rest(project, [before, during]) == []


def test_a_worker_whose_folder_was_removed_says_so_and_works_in_the_one_that_is_made_again(tmp_path: Path) -> None:
    """Counterexample, seen: it went on with the files that nobody else could see any more, and found nothing to do."""
    with CrashProject(tmp_path / "p", "auto") as project:
        project.add_task("task", {"RETRIES": 0})
        project.plan("task", "wait")
        place = project.branch("main")
        project.start("lost", ("task",), *place)
        worker = project.worker()
        wait_for(lambda: "-> BODY" in worker.said(), "body", worker)

        (project.folder / ".perago").rename(tmp_path / "removed")  # at once: the worker writes to it
        shutil.rmtree(tmp_path / "removed", ignore_errors=True)
        project.plan("task", "change")
        wait_for(lambda: "which was there; found: No such file or directory" in worker.said(), "word about it", worker)
        assert not (project.folder / ".perago" / "store").exists()

        project.stack = open_stack(load(project.folder, {}, {}))
        project.add_task("task", {"RETRIES": 0})
        first = project.worker(until_idle=True)  # decides on the policy, as every start does where nothing is decided
        assert first.wait() == 0, first.said()
        place = project.branch("main")
        line = Line(*place, project.start("anew", ("task",), *place))
        wait_for(lambda: project.view(line.workflow).succeeded, "workflow", worker)
        assert worker.drain() == 0
        assert judge_line(project, line) == []
        assert judge_rest(project, [line]) == []


def test_when_all_workers_are_killed_at_once_the_next_one_finds_everything(tmp_path: Path) -> None:
    with CrashProject(tmp_path / "p", "auto") as project:
        lines: list[Line] = []
        for number in range(WORKERS):
            project.add_task(f"task{number}")
            project.plan(f"task{number}", "wait")
            place = project.branch(f"branch{number}")
            lines.append(Line(*place, project.start(f"work{number}", (f"task{number}",), *place)))
        workers = [project.worker(f"task{number}") for number in range(WORKERS)]
        for worker in workers:
            wait_for(lambda said=worker.said: "-> BODY" in said(), "body", worker)  # type: ignore[misc]
        for worker in workers:
            worker.signal(signal.SIGKILL)
        for number in range(WORKERS):
            project.plan(f"task{number}", "change")
        heir = project.worker(capacity=WORKERS)
        for line in lines:
            wait_for(lambda at=line.workflow: project.view(at).succeeded, "workflow", heir)  # type: ignore[misc]
        assert heir.drain() == 0
        assert [judge_line(project, line) for line in lines] == [[]] * WORKERS
        assert judge_rest(project, lines) == []
