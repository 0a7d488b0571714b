"""Finding processes and ending them.

Spark's Python workers leave the process group, so that ending the group does not end them.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> tuple[int, ...]:
    """Name everything below a process, nearest first; nothing where the system does not say."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything, so what follows it is counted from its end.
            parent = int(place.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found: list[int] = []
    rest = list(children.get(pid, ()))
    while rest:
        found.append(rest.pop(0))
        rest += children.get(found[-1], ())
    return tuple(found)


def end(leader: int) -> None:
    """Kill a process that leads its group, and everything below it."""
    # Found before the leader dies: afterwards they are somebody else's children.
    below = descendants(leader)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for each in below:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)
