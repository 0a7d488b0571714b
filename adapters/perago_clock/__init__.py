"""The clock that all processes of one machine share, and by which the embedded stack counts its time-outs.

Deadlines are written into a file by one process and read by another, so they must be counted on a clock that both see
alike and that nobody can set. The wall clock can be set: an hour forward ends every lease, an hour back makes a dead
holder's lease last an hour. The seconds since the machine started cannot, and they also pass while it sleeps.

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


class MachineClock:
    """Seconds since this machine started, the date for records, and a way to wait."""

    def now(self) -> float:
        """Return the seconds since the machine started."""
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)

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
