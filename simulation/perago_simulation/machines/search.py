"""Every world within the bounds, breadth first, so that the first way to a violation is a shortest one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from perago_core.value import Value
from perago_simulation.machines.model import Cluster, ClusterWorld, Label
from perago_simulation.properties.safety import When

#: Given the world before, what happened and the world after, says what is wrong with it, or nothing.
Judge: TypeAlias = Callable[[Any, ClusterWorld, Label, ClusterWorld], str | None]

BEGINNING = Label("world", "begins")


@frozen(repr=False)
class Promise(Value):
    """One clause about a move. At rest the move is the beginning, and both worlds are the one at rest."""

    id: str
    says: str
    judge: Judge
    when: When = When.ALWAYS


@frozen(repr=False)
class BrokenPromise(Value):
    """A promise that does not hold, and a shortest way there."""

    promise: str
    problem: str
    trace: tuple[Label, ...]


@frozen(repr=False)
class Explored(Value):
    """What was found. ``complete`` says that every world within the bounds was visited."""

    worlds: int
    moves: int
    depth: int
    resting: int
    complete: bool
    broken: tuple[BrokenPromise, ...] = ()

    def found(self) -> dict[str, int]:
        """Return the promises that do not hold, each with the length of its shortest trace."""
        return {each.promise: len(each.trace) for each in self.broken}


class _Search:
    def __init__(self, cluster: Cluster, promises: Iterable[Promise]) -> None:
        self.cluster = cluster
        wanted = tuple(promises)
        self.unbroken = {when: [each for each in wanted if each.when is when] for when in When}
        self.before: dict[ClusterWorld, tuple[ClusterWorld, Label] | None] = {}
        self.broken: list[BrokenPromise] = []
        self.moves = 0
        self.resting = 0

    def expand(self, world: ClusterWorld) -> list[ClusterWorld]:
        """Take every move from a world, judge it, and give the new worlds."""
        fresh: list[ClusterWorld] = []
        rests = True
        for label, after in self.cluster.moves(world):
            self.moves += 1
            rests = rests and label.fault
            self._judge(When.ALWAYS, world, label, after)
            if after not in self.before:
                self.before[after] = (world, label)
                fresh.append(after)
        if rests:
            self.resting += 1
            self._judge(When.AT_REST, world, BEGINNING, world)
        return fresh

    def _judge(self, when: When, world: ClusterWorld, label: Label, after: ClusterWorld) -> None:
        for promise in self.unbroken[when]:
            problem = promise.judge(self.cluster, world, label, after)
            if problem is not None:
                self.unbroken[when] = [each for each in self.unbroken[when] if each is not promise]
                way = self._way(world)
                trace = way if when is When.AT_REST else (*way, label)
                self.broken.append(BrokenPromise(promise.id, problem, trace))

    def _way(self, world: ClusterWorld) -> tuple[Label, ...]:
        labels: list[Label] = []
        at = self.before[world]
        while at is not None:
            labels.append(at[1])
            at = self.before[at[0]]
        return tuple(reversed(labels))


def explore(
    cluster: Cluster,
    promises: Sequence[Promise],
    *,
    ignore: Collection[str] = (),
    first: bool = False,
    limit: int = 2_000_000,
) -> Explored:
    """Visit every world. With ``first`` it ends with the first broken promise that is not to be ignored."""
    gc_was_on = gc.isenabled()
    gc.disable()  # it would walk over all worlds again and again, and find no cycle
    try:
        return _explored(cluster, promises, ignore, first=first, limit=limit)
    finally:
        if gc_was_on:
            gc.enable()


def _explored(
    cluster: Cluster, promises: Sequence[Promise], ignore: Collection[str], *, first: bool, limit: int
) -> Explored:
    search = _Search(cluster, (each for each in promises if each.id not in ignore))
    frontier = list(dict.fromkeys(cluster.beginnings()))
    search.before.update(dict.fromkeys(frontier))
    depth = 0
    complete = True
    while frontier and complete:
        following: list[ClusterWorld] = []
        for world in frontier:
            following += search.expand(world)
            if len(search.before) > limit or (first and search.broken):
                complete = False
                break
        frontier = following
        depth += bool(following)
    return Explored(len(search.before), search.moves, depth, search.resting, complete, tuple(search.broken))
