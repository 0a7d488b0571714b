"""Times, durations and sizes in the words of a command line."""

from __future__ import annotations

import time

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def took(started_at: int, ended_at: int) -> str:
    """Say how long something took, or has taken until now; times are milliseconds, 0 for what has not happened."""
    if not started_at:
        return ""
    seconds = max(0, (ended_at or time.time_ns() // 1_000_000) - started_at) / 1000
    if seconds < 10:  # noqa: PLR2004  beyond, tenths say nothing
        return f"{seconds:.1f} s"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def ago(at: int) -> str:
    """Say when something happened, seen from now."""
    return f"{took(at, 0)} ago" if at else "not yet"


def clock(at: int) -> str:
    """Write a moment as people here do."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1000)) if at else ""


def size(count: int) -> str:
    """Write a number of bytes."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count} B"
