"""Breadth-first exploration: every reachable world within the bounds, the shortest way to each violation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from attrs import field, frozen

from perago_core.value import Value
from perago_simulation.model import Label, Model, Move
from perago_simulation.properties import PROPERTIES, Property, When
from perago_simulation.settings import Setting
from perago_simulation.world import World


@frozen(repr=False)
class Violation(Value):
    """A property that does not hold, and the shortest way there: the labels of the moves, the first one first."""

    property: str
    problem: str
    trace: tuple[Label, ...]


@frozen(repr=False)
class Limits(Value):
    """Where an exploration stops although it is not done; it then says so."""

    states: int = 5_000_000
    depth: int = 10_000
    seconds: float = 600.0


@frozen(repr=False)
class Exploration(Value):
    """What was found, and within which bounds. ``complete``: every world within the bounds was visited."""

    setting: Setting
    generated: int
    distinct: int
    depth: int
    seconds: float
    complete: bool
    violations: tuple[Violation, ...] = field(default=())

    def broken(self) -> dict[str, int]:
        """Give the properties that do not hold, each with the length of its shortest trace."""
        return {each.property: len(each.trace) for each in self.violations}


Progress = Callable[[int, int, int], object]


class Explorer:
    """One exploration: the worlds seen, how each was reached, what was found wrong."""

    def __init__(self, model: Model, properties: Sequence[Property] = PROPERTIES) -> None:
        self.model = model
        self.came_from: dict[World, tuple[World | None, Label]] = {}
        self.generated = 0
        self.found: dict[str, Violation] = {}
        self._always = [each for each in properties if each.when is When.ALWAYS]
        self._resting = [each for each in properties if each.when is When.AT_REST]

    def run(
        self,
        limits: Limits,
        progress: Progress | None = None,
        beginnings: Iterable[Move] | None = None,
    ) -> Exploration:
        """Visit every world, level by level, until none is left or a limit is reached."""
        begun = time.monotonic()
        depth, complete = 0, True
        frontier = self._visit(None, self.model.beginnings() if beginnings is None else beginnings)
        while frontier:
            following: list[World] = []
            for world in frontier:
                following += self._visit(world, self.model.moves(world))
                if len(self.came_from) >= limits.states or time.monotonic() - begun >= limits.seconds:
                    complete = False
                    break
            depth += bool(following)
            complete = complete and (depth < limits.depth or not following)
            frontier = following if complete else []
            if progress is not None:
                progress(self.generated, len(self.came_from), depth)
        return Exploration(
            setting=self.model.setting,
            generated=self.generated,
            distinct=len(self.came_from),
            depth=depth,
            seconds=time.monotonic() - begun,
            complete=complete,
            violations=tuple(sorted(self.found.values(), key=lambda each: each.property)),
        )

    def trace(self, world: World) -> tuple[Label, ...]:
        """Give the shortest way to a world that was visited."""
        labels: list[Label] = []
        at: World | None = world
        while at is not None:
            at, label = self.came_from[at]
            labels.append(label)
        return tuple(reversed(labels))

    def _visit(self, source: World | None, moves: Iterable[Move]) -> list[World]:
        fresh: list[World] = []
        came_from = self.came_from
        for label, world in moves:
            self.generated += 1
            if world not in came_from:
                came_from[world] = (source, label)
                fresh.append(world)
                self._judge(world)
        return fresh

    def _judge(self, world: World) -> None:
        """Each property is reported once, where it is first broken; breadth first, that is the shortest way."""
        for each in self._always:
            self._check(each, world)
        if self._resting and self.model.at_rest(world):
            for each in self._resting:
                self._check(each, world)

    def _check(self, each: Property, world: World) -> None:
        if each.id not in self.found:
            problem = each.judge(self.model.setting, world)
            if problem is not None:
                self.found[each.id] = Violation(each.id, problem, self.trace(world))


def explore(
    model: Model | Setting,
    properties: Sequence[Property] = PROPERTIES,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Exploration:
    """Explore a model, or a setting on the production table, and give what was found."""
    explorer = Explorer(Model(model) if isinstance(model, Setting) else model, properties)
    return explorer.run(limits or Limits(), progress)
