"""Sandboxes: one owner, removed by name from any process, swept when the owner is dead (S-33, P-25, P-45, peer R5)."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from perago_core.answers import Done, NotDone
from perago_worker.folders.errors import WorkspaceError
from perago_worker.folders.owned import MARKER
from perago_worker.folders.sandboxes import Sandboxes, erase
from tests.worker.support import Bench

#: A user who is not root, and owns nothing.
NOBODY = 65534
OWNER = """
import sys, time
from pathlib import Path
from perago_worker.folders.owned import MARKER
from perago_worker.folders.sandboxes import Sandboxes
sandboxes = Sandboxes(Path(sys.argv[1]))
for name in sys.argv[2:]:
    (sandboxes.enter(name).work / "file").write_text("mine")
print("in", flush=True)
time.sleep(600)
"""


def owner(root: Path, *names: str) -> subprocess.Popen[bytes]:
    """Start a process that owns sandboxes until it is killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", OWNER, str(root), *names]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)  # noqa: S603  ourselves
    assert started.stdout is not None
    assert started.stdout.readline() == b"in\n"
    return started


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_the_room_of_a_living_owner_is_left_alone_and_of_a_dead_one_swept(tmp_path: Path) -> None:
    living, dead = owner(tmp_path, "living"), owner(tmp_path, "dead-1", "dead-2")
    sandboxes = Sandboxes(tmp_path)
    mine = sandboxes.enter("mine")
    end(dead)
    assert sandboxes.sweep() == ("dead-1", "dead-2")
    assert sandboxes.names() == ("living", "mine")
    assert mine.work.is_dir()
    os.kill(living.pid, signal.SIGSTOP)
    assert sandboxes.sweep() == (), "a paused owner is alive"
    with pytest.raises(WorkspaceError, match="in use by another process"):
        sandboxes.leave("living")
    with pytest.raises(WorkspaceError, match="in use by another process"):
        sandboxes.enter("living")
    end(living)
    assert sandboxes.sweep() == ("living",)


def test_a_room_left_by_a_dead_owner_is_entered_empty(tmp_path: Path) -> None:
    end(owner(tmp_path, "again"))
    room = Sandboxes(tmp_path).enter("again")
    assert list(room.work.iterdir()) == []


def test_leaving_twice_or_a_room_that_never_was_is_done(tmp_path: Path) -> None:
    sandboxes = Sandboxes(tmp_path)
    sandboxes.enter("one")
    for _ in range(2):
        sandboxes.leave("one")
    sandboxes.leave("never")
    assert [each.name for each in tmp_path.iterdir()] == [MARKER]


def test_a_lock_file_without_a_room_is_swept(tmp_path: Path) -> None:
    """A crash between making the one and the other blocks nobody (peer R5)."""
    sandboxes = Sandboxes(tmp_path)
    (tmp_path / "half.lock").touch()
    (tmp_path / "not ours.lock").touch()
    assert sandboxes.sweep() == ("half",)
    assert {path.name for path in tmp_path.iterdir()} == {MARKER, "not ours.lock"}


def test_a_folder_without_a_lock_is_no_room(tmp_path: Path) -> None:
    """Counterexample, seen: the scratch of another worker's live Spark, below the same root, was swept as a room."""
    sandboxes = Sandboxes(tmp_path)
    (tmp_path / "spark" / "body-1").mkdir(parents=True)
    sandboxes.enter("mine")
    assert sandboxes.names() == ("mine",)
    assert Sandboxes(tmp_path).sweep() == ()
    assert (tmp_path / "spark" / "body-1").is_dir()


def test_a_lock_on_a_file_that_was_just_removed_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last owner may leave between our opening the file and our locking it; then another may enter."""
    path, real, left = tmp_path / "room.lock", fcntl.flock, [1]

    def flock(descriptor: int, operation: int) -> None:
        while left:
            path.unlink()
            left.pop()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    sandboxes = Sandboxes(tmp_path)
    sandboxes.enter("room")
    monkeypatch.undo()
    with pytest.raises(WorkspaceError, match="in use"):
        Sandboxes(tmp_path).enter("room")
    sandboxes.leave("room")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "x" * 241, "a.lock"])
def test_a_name_cannot_lead_elsewhere(name: str, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="letters, digits"):
        Sandboxes(tmp_path).enter(name)


def test_erasing_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (tmp_path / "root-link").symlink_to(outside)
    erase(inside)
    erase(tmp_path / "root-link")
    erase(tmp_path / "nothing")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "precious").exists()


@pytest.mark.parametrize(("depth", "name"), [(2, "d"), (30, "d" * 200), (1100, "d")], ids=["flat", "long", "deep"])
def test_a_closed_folder_is_removed_however_deep_it_lies_and_by_whoever_is_not_root(depth: int, name: str) -> None:
    """Counterexample, seen: only root could; other workers kept the sandbox for ever."""
    with tempfile.TemporaryDirectory() as at:  # not below a folder of root's
        if os.getuid() == 0:
            os.chown(at, NOBODY, NOBODY)
        process = multiprocessing.get_context("fork").Process(target=_close_and_erase, args=(Path(at), depth, name))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert list(Path(at).iterdir()) == []


def _close_and_erase(at: Path, depth: int, name: str) -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    box = at / "box"
    box.mkdir()
    os.chdir(box)
    for _ in range(depth):
        Path(name).mkdir()
        os.chdir(name)
    Path("file").touch()
    Path().chmod(0)
    os.chdir("/")
    erase(box)


def test_another_process_removes_by_the_attempt_alone(bench: Bench) -> None:
    """P-25: nothing but the attempt is needed."""
    attempt = bench.attempt("write")
    bench.workspace.accept(attempt, "write", "{}")
    assert isinstance(bench.workspace.prepare(attempt), Done)
    stranger = bench.open()
    assert isinstance(stranger.remove(attempt), NotDone), "its owner lives"
    assert stranger.sweep() == ()
    assert bench.workspace.remove(attempt) == Done(None)
    assert stranger.remove(attempt) == Done(None)


def test_an_execution_nobody_accepted_is_refused_call_by_call(bench: Bench) -> None:
    attempt = bench.attempt("write")
    sink = bench.world.store().sink(attempt.target, attempt.staging_name)
    assert "never accepted" in str(bench.workspace.prepare(attempt))
    assert "never prepared" in str(bench.workspace.run(attempt))
    assert "nothing of execution" in str(bench.workspace.upload(attempt, sink))
    assert "did not ask" in str(bench.workspace.resume(attempt, sink))
    bench.workspace.cancel(attempt, "no body")
    with pytest.raises(KeyError, match="no task 'wrote'"):
        bench.workspace.accept(attempt, "wrote", "{}")


WORKER = """
import sys
import time
from pathlib import Path
from perago_worker.bodies.pool import Bodies
from tests.worker.support import Bench, TASKS
bench = Bench(Path(sys.argv[1]), Bodies([TASKS]))
attempt = bench.attempt(sys.argv[2])
bench.workspace.accept(attempt, sys.argv[2], "{}")
bench.workspace._listener = lambda _attempt, note: print(note, flush=True)
bench.workspace.prepare(attempt)
bench.workspace.run(attempt)
"""


def test_what_a_killed_worker_leaves_is_swept_and_its_downloads_are_not_repeated(bench: Bench) -> None:
    """S-33, CW-05: SIGKILL while the body runs; another worker starts."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WORKER, str(bench.folder), "hang-long"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as worker:  # noqa: S603  ourselves
        assert worker.stdout is not None
        assert any(b"hanging" in line for line in worker.stdout)
        assert len(bench.sandboxes()) == 1
        assert bench.workspace.sweep() == ()
        worker.kill()
    for _ in range(1000):  # its body dies a moment after it, and may still be writing
        if bench.sandboxes() == ():
            break
        bench.workspace.sweep()
        time.sleep(0.01)
    assert [each.name for each in (bench.folder / "work").iterdir()] == [MARKER]

    attempt = bench.attempt("write")
    bench.workspace.accept(attempt, "write", "{}")
    assert bench.workspace.prepare(attempt) == Done(None, operations=1), "one listing, no download"
    assert bench.workspace.remove(attempt) == Done(None)
