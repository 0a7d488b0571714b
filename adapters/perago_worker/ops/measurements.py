"""What traces say about time: the measurements of many attempts, added up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from perago_core.errors import CodecError
from perago_core.machine.trace import read_record
from perago_core.measured import CallTimes, Measured, summed

#: How many traces are read, the newest first: enough for a p99, and never all of history.
NEWEST: Final = 1000


def measurements(folder: Path) -> Mapping[str, CallTimes]:
    """Add up what the newest traces measured, call by call; a trace without measurements adds nothing."""
    return summed(times for found in _measured(folder) for times in found.calls)


def _measured(folder: Path) -> Iterator[Measured]:
    traces = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in traces[:NEWEST]:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        try:
            last = read_record(lines[-1])
        except (CodecError, IndexError):
            continue  # of an attempt that was killed, or of an older program
        if isinstance(last, Measured):
            yield last
