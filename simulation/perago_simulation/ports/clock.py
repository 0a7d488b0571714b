"""Time that passes only when somebody waits, or when told to."""

from __future__ import annotations

from threading import Lock

#: What the wall clock shows at the beginning: a date that no test mistakes for an absent one.
EPOCH = 1_700_000_000_000


class SimulatedClock:
    """The ``Clock`` port. Whoever sleeps moves the time for everybody, at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._now = 0.0

    def now(self) -> float:
        """Give the seconds that have passed."""
        return self._now

    def wall(self) -> int:
        """Give milliseconds since the epoch."""
        return EPOCH + round(self._now * 1000)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        if not seconds >= 0:
            message = f"time only goes forward: expected zero seconds or more, not {seconds!r}"
            raise ValueError(message)
        with self._lock:
            self._now += seconds
