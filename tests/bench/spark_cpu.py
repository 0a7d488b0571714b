"""The processor time of this process and all below it, for machines on which others work too.

Looked at many times a second and never forgotten. Counterexample for looking only before and after: Spark's daemon does
not wait for its workers, so what a worker has used is gone with it, and work done in Python seems to cost nothing. What
a process uses between the last look and its end is still missed, a tenth of a second at most.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from perago_spark.process.pool import descendants

_TICKS = os.sysconf("SC_CLK_TCK")
_PAUSE = 0.1


class Meter:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, name="meter", daemon=True).start()

    def used(self) -> float:
        """Return the seconds used so far. It never becomes less."""
        with self._lock:
            for pid in (os.getpid(), *descendants(os.getpid())):
                self._look(pid)
            return sum(self._seen.values()) / _TICKS

    def _look(self, pid: int) -> None:
        try:
            # After the name, which may hold anything: utime and stime are the 12th and 13th, the start is the 20th.
            found = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            return
        self._seen[pid, int(found[19])] = int(found[11]) + int(found[12])

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(_PAUSE):
            self.used()
