"""A breadth-first search that stops at the first violation, for questions of the kind "does anything notice?".

Breadth first like ``explore``, so what is found first is found by the shortest way. It also takes a machine that gives
up (an assertion, a key that is not there, a state that does not exist) for something found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from perago_core.errors import ProtocolError
from perago_simulation.explore.exploration import Violation
from perago_simulation.properties.safety import Property, When
from perago_simulation.world.model import Label, Model, Move
from perago_simulation.world.state import World

#: The property under which a machine that gives up is reported.
STUCK = "stuck"


class ViolationSearch:
    """One search: the worlds seen, and how each was reached."""

    def __init__(self, model: Model, properties: Sequence[Property], ignore: Collection[str] = ()) -> None:
        self.model = model
        self.came_from: dict[World, tuple[World | None, Label]] = {}
        self._always = [each for each in properties if each.when is When.ALWAYS and each.id not in ignore]
        self._resting = [each for each in properties if each.when is When.AT_REST and each.id not in ignore]

    def first(self, states: int) -> Violation | None:
        """Return the first thing wrong, or ``None`` once every world, or this many, have been seen."""
        frontier: list[World] = []
        found = self._visit(None, self.model.beginnings(), frontier)
        while frontier and found is None and len(self.came_from) < states:
            following: list[World] = []
            for world in frontier:
                found = self._visit(world, self.model.moves(world), following)
                if found is not None:
                    break
            frontier = following
        return found

    def _visit(self, source: World | None, moves: Iterable[Move], fresh: list[World]) -> Violation | None:
        came_from = self.came_from
        try:
            for label, world in moves:
                if world not in came_from:
                    came_from[world] = (source, label)
                    fresh.append(world)
                    found = self._judge(world)
                    if found is not None:
                        return found
        except (AssertionError, AttributeError, KeyError, ProtocolError, ValueError) as error:
            return Violation(STUCK, f"{type(error).__name__}: {error}", () if source is None else self._trace(source))
        return None

    def _judge(self, world: World) -> Violation | None:
        resting = self._resting if self._resting and self.model.at_rest(world) else ()
        for each in (*self._always, *resting):
            problem = each.judge(self.model.setting, world)
            if problem is not None:
                return Violation(each.id, problem, self._trace(world))
        return None

    def _trace(self, world: World) -> tuple[Label, ...]:
        labels: list[Label] = []
        at: World | None = world
        while at is not None:
            at, label = self.came_from[at]
            labels.append(label)
        return tuple(reversed(labels))


def first_violation(
    model: Model,
    properties: Sequence[Property],
    ignore: Collection[str] = (),
    states: int = 1_000_000,
) -> Violation | None:
    """Return the first thing wrong with a model, leaving out the properties to be ignored."""
    return ViolationSearch(model, properties, ignore).first(states)
