"""Starting a process that dies with this one, and knowing one again by more than its number."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from attrs import frozen

LAUNCHER = Path(__file__).with_name("launcher.py")


@frozen
class Order:
    """A program to start, where, and where its output goes."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    detached: bool = False

    def carry_out(self) -> subprocess.Popen[bytes]:
        quick = [sys.executable, "-ISE", str(LAUNCHER), str(os.getpid())]
        command = list(self.command) if self.detached else [*quick, *self.command]
        with self.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603  our own command
                command,
                env=dict(self.environment),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=self.detached,
            )


def spawn(order: Order) -> subprocess.Popen[bytes]:
    """Start it from a thread that never ends.

    For the kernel the parent is that *thread*: a server started by a test's helper thread would die with the helper.
    """
    born: Future[subprocess.Popen[bytes]] = Future()
    _midwife(os.getpid()).put((order, born))
    return born.result()


@cache
def _midwife(_process: int) -> SimpleQueue[tuple[Order, Future[subprocess.Popen[bytes]]]]:
    """Return the queue of this process's thread; a forked child has the queue of its parent and no thread behind it."""
    orders: SimpleQueue[tuple[Order, Future[subprocess.Popen[bytes]]]] = SimpleQueue()

    def serve() -> None:
        while True:
            order, born = orders.get()
            try:
                born.set_result(order.carry_out())
            except OSError as trouble:
                born.set_exception(trouble)

    threading.Thread(target=serve, name="starts servers", daemon=True).start()
    return orders


def birth(pid: int) -> str | None:
    """Return when a process was started, in words no later process of that number can have; ``None``: there is none.

    A number alone is not enough: after a restart of the machine or a wrap-around it is somebody else's.
    """
    try:
        # The name, in brackets, may hold spaces and brackets itself; what follows the last one may not.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _birth_by_ps(pid)
    state, started = fields[0], fields[19]
    if state in "ZX":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {started}"


def _birth_by_ps(pid: int) -> str | None:
    """Say it where there is no /proc."""
    asked = subprocess.run(  # noqa: S603  a number
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None


def listens(pid: int, port: int) -> bool:
    """Return whether that very process listens on the loopback port; where nobody can tell, believe it.

    Without this, somebody else's server on a port that was free a moment ago would be taken for ours.
    """
    tables = [Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")]
    if not tables[0].exists():
        return True
    rows = [line.split() for table in tables for line in _lines(table)[1:]]
    listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port}
    try:
        held = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return False
    return bool(listening & held)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []
