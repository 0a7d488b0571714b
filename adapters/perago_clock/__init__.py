"""The one clock by which deadlines are counted: nobody can set it, and it goes on while the machine sleeps.

The wall clock can be set: an hour forward ends every lease, an hour back makes a dead holder's lease last an hour.
Python's monotonic clock stands still while the machine sleeps. Counterexample: the lid is closed for an hour, and the
worker that wakes takes lease and deadline for good, which every other machine has long seen end. The seconds since the
machine started cannot be set and count its sleep; all its processes see them alike.

They begin again when the machine starts again, so a deadline means something only together with the ``boot`` it was
written under.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: ``CLOCK_BOOTTIME`` is Linux; elsewhere the monotonic clock counts from the start of the machine as well.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def seconds() -> float:
    """Return the seconds since the machine started, those included in which it slept."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


class MachineClock:
    """Seconds since this machine started, the date for records, and a way to wait."""

    def now(self) -> float:
        """Return the seconds since the machine started."""
        return seconds()

    def wall(self) -> int:
        """Return milliseconds since the epoch, for records only."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@cache
def boot() -> str:
    """Return the id of this boot of the machine; two boots have different ids.

    Where the kernel gives no name, all runs share one, and a deadline of before a restart is then taken at its word:
    a lease may block its key for as long as the machine ran before. To take it for ended would be worse, because
    nothing else tells a restart from a wall clock that was set while the holder is at work.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return "this machine"
