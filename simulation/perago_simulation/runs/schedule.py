"""Schedulers: who chooses what happens next, over the same moves the explorer takes all of.

A run *is* its list of choices: the index of the beginning, then the index of each move among what could happen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from attrs import field, frozen

from perago_core.value import Value
from perago_simulation.runs.world_cache import FAULTS, CachedWorld, WorldCache
from perago_simulation.world.model import Label, Model

Chooser = Callable[[CachedWorld], int]


class Scheduler(Protocol):
    """Gives a chooser for each run. A chooser picks the index of a move, or -1 to end the run."""

    def run(self, number: int) -> Chooser:
        """Begin the run of this number; the same number makes the same choices."""
        ...


@frozen(repr=False)
class Weighted(Value):
    """Seeded random choice: a fault with probability ``faults`` if one can happen, else any work alike."""

    seed: int = 0
    faults: float = 0.1

    def run(self, number: int) -> Chooser:
        """Begin a run."""
        return _weighted(_seeded(self.seed, number), self.faults, frozenset())


@frozen(repr=False)
class Swarm(Value):
    """Weighted, but each run leaves out each kind of fault with probability one half."""

    seed: int = 0
    faults: float = 0.1

    def run(self, number: int) -> Chooser:
        """Begin a run."""
        random = _seeded(self.seed, number)
        left_out = frozenset(kind for kind in FAULTS if random.random() < _HALF)
        return _weighted(random, self.faults, left_out)


@frozen(repr=False)
class Pct(Value):
    """Probabilistic concurrency testing: who has the highest priority moves, and ``depth - 1`` times that changes.

    An ordering bug of depth d among n actors and k steps is found with probability at least 1/(n k^(d-1)) per run.
    Faults are drawn as in ``Swarm``: they are not a matter of order.
    """

    seed: int = 0
    depth: int = 3
    steps: int = 40
    faults: float = 0.1

    def run(self, number: int) -> Chooser:
        """Begin a run."""
        random = _seeded(self.seed, number)
        left_out = frozenset(kind for kind in FAULTS if random.random() < _HALF)
        changes = {random.randrange(self.steps) for _ in range(self.depth - 1)}
        priorities: dict[str, float] = {}
        at = 0

        def choose(node: CachedWorld) -> int:
            nonlocal at
            fault = _fault(random, node, self.faults, left_out)
            if fault >= 0:
                return fault
            work = [index for index, kind in enumerate(node.faults) if kind is None]
            if not work:
                return _any_fault(random, node, left_out)
            best = max(work, key=lambda index: priorities.setdefault(node.actors[index], 1.0 + random.random()))
            if at in changes:
                priorities[node.actors[best]] = random.random() / (1 + at)
            at += 1
            return best

        return choose


_HALF = 0.5
_TELL_EVERY = 100


def _seeded(seed: int, number: int) -> Random:
    return Random(f"{seed}/{number}")  # noqa: S311  repeatable, not secret


def _weighted(random: Random, faults: float, left_out: frozenset[str]) -> Chooser:
    pick, below = random.random, random.randrange

    def choose(node: CachedWorld) -> int:
        kinds = node.faults
        if pick() >= faults:
            work = [index for index, kind in enumerate(kinds) if kind is None]
            if work:
                return work[below(len(work))] if len(work) > 1 else work[0]
        return _any_fault(random, node, left_out, work=True)

    return choose


def _fault(random: Random, node: CachedWorld, faults: float, left_out: frozenset[str]) -> int:
    return _any_fault(random, node, left_out) if random.random() < faults else -1


def _any_fault(random: Random, node: CachedWorld, left_out: frozenset[str], *, work: bool = False) -> int:
    """Choose among the faults that are not left out; if there is none, among the work, if that is wanted."""
    possible = [index for index, kind in enumerate(node.faults) if kind is not None and kind not in left_out]
    if not possible and work:
        possible = [index for index, kind in enumerate(node.faults) if kind is None]
    # An attempt nobody works on any more is given up sooner or later, whatever a run leaves out.
    if not possible:
        possible = [index for index, kind in enumerate(node.faults) if kind == "give up"]
    return random.choice(possible) if possible else -1


@frozen(repr=False)
class Replay(Value):
    """Makes the same choices again."""

    choices: tuple[int, ...]

    def run(self, number: int) -> Chooser:  # noqa: ARG002  every run is the same
        """Begin a run."""
        left = iter(self.choices)
        return lambda node: next(left, -1)  # noqa: ARG005  a replay does not look


@frozen(repr=False)
class Failure(Value):
    """A run that broke a property: its choices, up to where it did."""

    property: str
    problem: str
    choices: tuple[int, ...]
    labels: tuple[Label, ...]


@frozen(repr=False)
class Simulation(Value):
    """What a number of runs came to. ``worlds`` counts the different ones that are remembered."""

    runs: int
    steps: int
    seconds: float
    worlds: int
    failures: tuple[Failure, ...] = field(default=())


def simulate(
    model: Model | WorldCache,
    scheduler: Scheduler,
    runs: int,
    steps: int = 200,
    stop_after: int = 1,
    *,
    progress: Callable[[int], object] | None = None,
) -> Simulation:
    """Make this many runs, of at most so many steps each, and stop early after so many failures."""
    worlds = WorldCache(model) if isinstance(model, Model) else model
    begun, taken, number = time.monotonic(), 0, 0
    failures: list[Failure] = []
    while number < runs and len(failures) < stop_after:
        node, choices = walk(worlds, scheduler.run(number), steps)
        number += 1
        taken += len(choices)
        if progress is not None and number % _TELL_EVERY == 0:
            progress(number)
        if node.wrong is not None:
            failures.append(Failure(*node.wrong, tuple(choices), _labels(worlds, choices)))
    return Simulation(number, taken, time.monotonic() - begun, worlds.known(), tuple(failures))


def carry_out(worlds: WorldCache, choices: Sequence[int]) -> tuple[CachedWorld, tuple[Label, ...]]:
    """Make these choices and give where they end; those after the first wrong world are not made."""
    # One step more than there are choices: only looking further shows whether somebody gives up there.
    node, made = walk(worlds, Replay(tuple(choices)).run(0), len(choices) + 1)
    return node, _labels(worlds, made)


def walk(worlds: WorldCache, choose: Chooser, steps: int) -> tuple[CachedWorld, list[int]]:
    """Make one run of at most so many steps; give where it ends, and its choices."""
    node = worlds.begin()
    choices: list[int] = []
    for _ in range(steps):
        if node.labels is None:
            worlds.expand(node)
            if node.wrong is not None:
                break
        index = choose(node)
        if not 0 <= index < len(node.children):
            break
        choices.append(index)
        node = node.children[index]
        if node.wrong is not None:
            break
    return node, choices


def _labels(worlds: WorldCache, choices: Sequence[int]) -> tuple[Label, ...]:
    node, labels = worlds.root, list[Label]()
    for index in choices:
        assert node.labels is not None
        labels.append(node.labels[index])
        node = node.children[index]
    return tuple(labels)
