"""A clock for embedded systems that take one: real time goes on, and whoever sleeps is there at once.

So a time-out can be long enough for a busy machine, and a test that waits it out costs nothing.
"""

from __future__ import annotations

from threading import Lock

from perago_clock import MachineClock


class SkippingClock(MachineClock):
    """The machine's clock, put forward by every sleep."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ahead = 0.0

    def now(self) -> float:
        return super().now() + self._ahead

    def wall(self) -> int:
        return super().wall() + round(self._ahead * 1000)

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._ahead += seconds
