"""Dying on purpose: a worker that kills or stops itself before or after one port call.

For people who want to see what happens then: the demo, the kill matrix, and a team that does not take our word for it.
``PERAGO_FAILPOINT="kill store.publish.after"`` kills the worker right after its first publication;
``"stop store.head.after 2 clean"`` stops it (SIGSTOP) after the second head read of a task named ``clean``.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from attrs import define, field

from perago_core.failpoints import Failpoint, Reached

VARIABLE = "PERAGO_FAILPOINT"
_ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_FORM = "'kill|stop PORT.METHOD.before|after [COUNT] [TASK]'"


@define
class Fate:
    """What is to happen where. Counts over all attempts of the process, and happens once."""

    signal: signal.Signals
    point: Failpoint
    count: int = 1
    task: str | None = None
    _lock: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    @classmethod
    def parse(cls, words: str) -> Fate:
        """Read it from an environment variable."""
        parts = words.split()
        if not 2 <= len(parts) <= 4 or parts[0] not in _ACTIONS:  # noqa: PLR2004  the words of the form
            raise ValueError(f"{VARIABLE} must read {_FORM}, not {words!r}")
        count, task = 1, None
        for part in parts[2:]:
            if part.isdigit():
                count = int(part)
            else:
                task = part
        return cls(_ACTIONS[parts[0]], Failpoint.parse(parts[1]), count, task)

    def of(self, task: str) -> Reached:
        """Give the watcher of one attempt of this task."""

        def reached(point: Failpoint) -> None:
            if point == self.point and self.task in {None, task} and self._is_due():
                os.kill(os.getpid(), self.signal)

        return reached

    def _is_due(self) -> bool:
        with self._lock:
            self.count -= 1
            return self.count == 0


def fate_from(environment: Callable[[str], str | None] = os.environ.get) -> Fate | None:
    """Read what the environment asks for, if anything."""
    words = environment(VARIABLE)
    return None if not words else Fate.parse(words)
