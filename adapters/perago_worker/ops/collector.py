"""What a worker does between two tasks so that nothing grows for ever."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Lock

from perago_worker.stack import Stack


class Collector(ABC):
    """What a worker does about growth, between two tasks: one part, and then nothing for a while.

    Trouble is logged and nothing else: the next part may do better.
    """

    def __init__(self, stack: Stack, every: float) -> None:
        self._stack = stack
        self._every = every
        self._next = stack.clock.now()
        self._busy = Lock()

    def collect_now_and_then(self) -> None:
        """Collect the next part if it is time and nobody is at it."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            if self._stack.clock.now() >= self._next:
                self._next = self._stack.clock.now() + self._every
                self._collect()
        finally:
            self._busy.release()

    @abstractmethod
    def _collect(self) -> None:
        """Collect a part."""
