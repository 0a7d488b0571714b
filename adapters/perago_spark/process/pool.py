"""The worker's pool of warm processes: start them, send them tasks, keep them for the next one, kill them completely.

Starting Spark takes 5 to 13 seconds; a task in a warm process pays under one. A process is kept only if its last task
ended by itself and left nothing behind.

Killing: Spark's Python workers leave the process group, so killing the group does not end them; the whole tree below
the process is killed.

Folders: each process has one, with a file in it that it holds a kernel lock on. A sweeper that gets the lock knows that
everybody who had it is dead. A process id in the name proves no such thing: in a container each worker has the same
one, and another container's processes cannot be seen.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from attrs import field, frozen

from perago_spark.process.connect import end_jobs
from perago_spark.process.java import java_environment
from perago_spark.process.messages import Channel, Order, Report, read_report, write_order
from perago_spark.process.settings import read_settings

#: What the interpreter runs: the worker's own search path first, because a task module may be anywhere.
_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from perago_spark.process.main import main; main()"
)
#: The folder, below its own, that a process runs in.
HOME: Final = "home"
#: Called with each line that a body, or Spark on its behalf, prints.
Listener = Callable[[str], object]
#: Lines of one task that are passed on; a body that prints without end fills nobody's log.
_LINES: Final = 10_000
#: Characters of one line that are passed on; each has up to four bytes.
_CHARACTERS: Final = 4096


@frozen
class Launch:
    """How a body's process is started.

    ``entry`` names the function that runs tasks, as ``module:function``. ``settings`` is Spark's, as text.
    ``environment`` is what bodies see; leave credentials out of it. ``root`` has a folder for each process.
    """

    entry: str
    settings: str = field(repr=False)
    environment: Mapping[str, str]
    root: Path


class WarmBody:
    """One process. One thread receives its messages; any thread may stop or kill it."""

    def __init__(self, launch: Launch) -> None:
        # First of all: where there is no Java, nothing must be left.
        java = {} if read_settings(launch.settings).remote else java_environment(launch.environment)
        self.scratch, self._lock = claim_scratch(launch.root)
        home = self.scratch / HOME
        home.mkdir()
        here, there = socket.socketpair()
        self._channel = Channel(here)
        self._listener: Listener | None = None
        self._left = 0
        self._killing = threading.Lock()
        self._killed = False
        search_path = [str(Path(entry).absolute()) for entry in sys.path]
        command = [sys.executable, "-c", _BOOT, json.dumps(search_path), launch.entry]
        with there:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter and code
                [*command, str(self.scratch), str(there.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={
                    **launch.environment,
                    **java,
                    "PYTHONPATH": os.pathsep.join(search_path),
                    "TMPDIR": str(self.scratch),
                },
                # Java cannot change its folder later, and a relative path must mean the same to it as to the body.
                cwd=home,
                # The lock, too: nobody removes the folder of a body that outlives its worker for a moment.
                pass_fds=[there.fileno(), self._lock],
                start_new_session=True,
            )
        # Not on the command line, which everybody on this machine can read: they may hold a secret.
        self._channel.send(launch.settings.encode("utf-8"))
        assert self._process.stdout is not None
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def listen(self, listener: Listener) -> None:
        """Pass what is printed from now on to this listener."""
        self._left = _LINES
        self._listener = listener

    def send(self, order: Order) -> bool:
        """Send a message to the process; ``False``: it is gone."""
        return self._channel.send(write_order(order))

    def receive(self, timeout: float) -> Report | None:
        """Wait for a message of the process; ``None``: it is gone. Raises ``TimeoutError``."""
        payload = self._channel.receive(timeout)
        return None if payload is None else read_report(payload)

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process and everything below it, and wait until it is gone. Does nothing the second time."""
        with self._killing:
            if self._killed:
                return  # its number may belong to somebody else by now
            self._killed = True
            kill_tree(self.pid)
            self._process.wait()
            shutil.rmtree(self.scratch, ignore_errors=True)
            os.close(self._lock)

    def close(self) -> None:
        """Close the channel to a killed process; called by the thread that would otherwise wait on it."""
        self._channel.close()

    def _listen(self, output: IO[bytes]) -> None:
        with output:
            for line in _beginnings(output):
                self._left -= 1
                if self._listener is not None and self._left >= 0:
                    with suppress(Exception):  # a listener informs; it cannot end a body
                        self._listener(line.decode("utf-8", "backslashreplace").rstrip()[:_CHARACTERS])


def _beginnings(output: IO[bytes]) -> Iterator[bytes]:
    """Yield the beginning of each line and drop the rest, so that a line without end does not fill the memory."""
    is_new = True
    while piece := output.readline(4 * _CHARACTERS):
        if is_new:
            yield piece
        is_new = piece.endswith(b"\n")


class WarmBodies:
    """Keeps up to ``keep`` idle processes. Threads may share it."""

    def __init__(self, launch: Launch, keep: int = 1) -> None:
        self._launch = launch
        self._keep = keep
        self._idle: list[WarmBody] = []
        self._all: set[WarmBody] = set()
        self._ending: list[threading.Thread] = []
        self._lock = threading.Lock()

    def take(self) -> WarmBody:
        """Take an idle process, or make one that still has to start Spark. Raises ``SparkUnavailableError``."""
        with self._lock:
            while self._idle:
                found = self._idle.pop()
                if found.is_alive():
                    return found
                self._all.discard(found)
                found.kill()
                found.close()
        made = WarmBody(self._launch)
        with self._lock:
            self._all.add(made)
        return made

    def give_back(self, body: WarmBody) -> None:
        """Keep a process for the next task, if there is room."""
        with self._lock:
            if body.is_alive() and len(self._idle) < self._keep:
                self._idle.append(body)
                return
        self.discard(body)

    def discard(self, body: WarmBody) -> None:
        """End a process that must not be used again."""
        body.kill()
        body.close()
        with self._lock:
            self._all.discard(body)

    def end_jobs(self, session: str) -> None:
        """End what a killed body has left running on a Spark Connect server. Does not wait; ``close`` does."""
        remote = read_settings(self._launch.settings).remote
        if remote:
            path = [str(Path(entry).absolute()) for entry in sys.path]
            ending = threading.Thread(target=end_jobs, args=(remote, session, self._launch.environment, path))
            ending.start()
            with self._lock:
                self._ending = [each for each in self._ending if each.is_alive()] + [ending]

    def close(self) -> None:
        """Kill all processes. A thread that waits for one is told that it is gone, and closes it."""
        with self._lock:
            idle, self._idle = self._idle, []
            busy = self._all.difference(idle)
        for each in busy:
            each.kill()
        for each in idle:
            self.discard(each)
        for ending in tuple(self._ending):
            ending.join()

    def running(self) -> tuple[int, ...]:
        """List the process ids of all bodies, busy or idle."""
        with self._lock:
            return tuple(sorted(each.pid for each in self._all))

    def sweep(self) -> tuple[str, ...]:
        """Remove the scratch folders of dead processes whose worker is dead too; list their names."""
        return sweep_scratch(self._launch.root)


_LOCK: Final = "lock"


def claim_scratch(root: Path) -> tuple[Path, int]:
    """Make a folder with a unique name and lock it; a process that inherits the descriptor keeps it locked."""
    while True:
        # The number is for people who look for whose it is.
        folder = root / f"body-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        lock = _locked(folder)
        if lock is not None:
            return folder, lock


def sweep_scratch(root: Path) -> tuple[str, ...]:
    """Remove the folders that no living process has locked; list their names."""
    swept: list[str] = []
    for folder in sorted(root.glob("body-*")):
        with suppress(OSError):  # it resists: next time
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
                swept.append(folder.name)
    return tuple(swept)


def _locked(folder: Path) -> int | None:
    """Lock a folder; ``None``: somebody else has, or has just removed it."""
    place = folder / _LOCK
    try:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, a sweeper may have removed the file. Then the lock is on nothing.
        if os.path.samestat(place.stat(), os.fstat(lock)):
            return lock
    os.close(lock)
    return None


def descendants(pid: int) -> tuple[int, ...]:
    """List the process ids below a process, nearest first; empty where there is no ``/proc``."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything, so what follows it is counted from its end.
            parent = int(place.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found: list[int] = []
    rest = list(children.get(pid, ()))
    while rest:
        found.append(rest.pop(0))
        rest += children.get(found[-1], ())
    return tuple(found)


def kill_tree(leader: int) -> None:
    """Kill a process that leads its group, and everything below it."""
    # Found before the leader dies: afterwards they are somebody else's children.
    below = descendants(leader)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for each in below:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)
