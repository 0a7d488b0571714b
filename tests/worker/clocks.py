"""Clocks for tests."""

from __future__ import annotations

import time

from attrs import define

from perago_clock import MachineClock


@define
class Wall(MachineClock):
    """A clock that can be put forward."""

    ahead: float = 0.0

    def now(self) -> float:
        return time.monotonic() + self.ahead

    def wall(self) -> int:
        return round((time.time() + self.ahead) * 1000)
