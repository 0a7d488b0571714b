"""What the operating system offers to keep hold of processes. Linux has it all; elsewhere a process group must do."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none of them can slip away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Be killed when the parent dies, however it dies."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def children() -> list[int]:
    """List our own children, adopted ones too; nothing where the system does not say."""
    me = os.getpid()
    with suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text("ascii").split()]
    return []


def has_children() -> bool:
    """Return whether any child is left, adopted ones too; ``False`` where the system does not say which they are.

    The list of ``children`` may leave one out while others end. This is the kernel's own answer.
    """
    if sys.platform == "linux":
        with suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return True
    return False


def kill(pid: int) -> None:
    """Kill a process that may be gone, or be another user's by now: what it has run may change who it is."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def threads() -> int:
    """Count the threads of this process, those of native libraries too; 1 where the system does not say."""
    with suppress(OSError):
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    return 1


def volunteer_for_out_of_memory() -> None:
    """Ask the kernel to take this process first when memory runs out: the body, not the worker or its neighbours."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signal a process group that may be gone, or not yet be one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(leader, number)


def handle_of(pid: int) -> int | None:
    """Return a descriptor of a process, which is no later one of the same number; ``None``: there is no such thing."""
    return os.pidfd_open(pid) if sys.platform == "linux" else None


def kill_by(handle: int) -> None:
    """Kill the process of a descriptor, if it is still there."""
    if sys.platform == "linux":
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)


class ChildWatch:
    """Waits for input and for the end of a child at the same time. One for each process that has children to watch."""

    def __init__(self) -> None:
        self._wake, write = os.pipe()
        for each in (self._wake, write):
            os.set_blocking(each, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # any handler: the wake-up byte is what counts
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def wait(self, inputs: Sequence[int], timeout: float | None) -> set[int]:
        """Wait until one of the inputs can be read, a child ends, or the time is over; give the readable inputs."""
        readable, _, _ = select.select([*inputs, self._wake], [], [], timeout)
        if self._wake in readable:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
        return set(readable) - {self._wake}


def reap() -> dict[int, int]:
    """Collect the children that have ended, with their wait status."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
