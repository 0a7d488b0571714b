"""Waiting for what must come true, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

PATIENCE = 60.0


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"it did not come true within {PATIENCE:.0f} s")
        time.sleep(0.01)
