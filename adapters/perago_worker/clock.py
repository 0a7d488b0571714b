"""The clock of a running worker."""

from __future__ import annotations

import time


class SystemClock:
    """Monotonic seconds for decisions, the date for records."""

    def now(self) -> float:
        """Give monotonic seconds."""
        return time.monotonic()

    def wall(self) -> int:
        """Give milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
