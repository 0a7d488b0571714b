"""What an exploration is asked and what it answers: limits, violations, figures."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from attrs import field, frozen

from perago_core.value import Value
from perago_simulation.world.settings import Setting
from perago_simulation.world.strangers import Label

#: Told generated worlds, distinct worlds and depth, once a level.
Progress: TypeAlias = Callable[[int, int, int], object]

_MEGABYTE = 1 << 20


@frozen(repr=False)
class Violation(Value):
    """A property that does not hold, and the shortest way there: the labels of the moves, the first one first."""

    property: str
    problem: str
    trace: tuple[Label, ...]


@frozen(repr=False)
class Limits(Value):
    """Where an exploration stops although it is not done; it then says so.

    ``memory`` is in megabytes, for all processes together; ``violations`` counts properties that do not hold. Limits
    are looked at after every few hundred worlds, so an exploration may go a little beyond them.
    """

    states: int = 5_000_000
    depth: int = 10_000
    seconds: float = 600.0
    memory: float = float("inf")
    violations: float = float("inf")

    def reached(self, states: int, violations: int, begun: float, processes: int) -> str:
        """Name the limit that is reached by so many states and violations since then, or nothing."""
        if states >= self.states:
            return "states"
        if violations >= self.violations:
            return "violations"
        if time.monotonic() - begun >= self.seconds:
            return "seconds"
        if self.memory != float("inf") and resident() * processes >= self.memory:
            return "memory"
        return ""


@frozen(repr=False)
class Exploration(Value):
    """What was found, and within which bounds. ``stopped`` names the limit that was reached, if one was."""

    setting: Setting
    generated: int
    distinct: int
    depth: int
    seconds: float
    stopped: str = ""
    violations: tuple[Violation, ...] = field(default=())

    @property
    def complete(self) -> bool:
        """Return whether every world within the bounds was visited."""
        return not self.stopped

    def broken(self) -> dict[str, int]:
        """Return the properties that do not hold, each with the length of its shortest trace."""
        return {each.property: len(each.trace) for each in self.violations}


def resident() -> float:
    """Return the megabytes this process holds in memory; where the system does not say, the most it has ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return _most_ever_resident()
    return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE


def _most_ever_resident() -> float:
    try:
        import resource  # noqa: PLC0415  not there on every system, and only needed where /proc is not
    except ImportError:
        message = "this system does not say how much memory a process holds; explore without a limit on memory"
        raise OSError(message) from None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / _MEGABYTE if sys.platform == "darwin" else most / 1024
