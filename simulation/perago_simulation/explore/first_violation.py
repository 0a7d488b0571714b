"""An exploration that stops at the first violation, for questions of the kind "does anything notice?".

It visits the same worlds in the same order as ``explore``, so what is found first is found by the shortest way. It also
takes a machine that gives up (an assertion, a key that is not there, a state that does not exist) for something found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from perago_core.errors import ProtocolError
from perago_simulation.explore.exploration import Limits, Violation
from perago_simulation.explore.search import Explorer
from perago_simulation.properties.safety import Property, When
from perago_simulation.world.model import Model

#: The property under which a machine that gives up is reported.
STUCK = "stuck"
GIVES_UP = (AssertionError, AttributeError, KeyError, ProtocolError, ValueError)


class ViolationSearch:
    """One search: ``seen`` counts the worlds it has visited."""

    def __init__(self, model: Model, properties: Sequence[Property], ignore: Collection[str] = ()) -> None:
        # Of what one world breaks, the first is told: what holds always comes before what holds at rest.
        self._properties = [
            each
            for when in (When.ALWAYS, When.AT_REST)
            for each in properties
            if each.when is when and each.id not in ignore
        ]
        self._model = model
        self.seen = 0

    def first(self, states: int) -> Violation | None:
        """Return the first thing wrong, or ``None`` once every world, or about this many, have been seen."""
        try:
            if not any(True for _ in self._model.beginnings()):
                return None
        except GIVES_UP as error:
            return Violation(STUCK, said(error), ())
        explorer = Explorer(self._model, self._properties)
        try:
            self.seen = explorer.run(Limits(states=states, seconds=float("inf"), violations=1)).distinct
        except GIVES_UP as error:
            found = explorer.first_found()
            return Violation(STUCK, said(error), explorer.way_to_expanded()) if found is None else found
        return explorer.first_found()


def said(error: Exception) -> str:
    """Say how a machine gave up."""
    return f"{type(error).__name__}: {error}"


def first_violation(
    model: Model,
    properties: Sequence[Property],
    ignore: Collection[str] = (),
    states: int = 1_000_000,
) -> Violation | None:
    """Return the first thing wrong with a model, leaving out the properties to be ignored."""
    return ViolationSearch(model, properties, ignore).first(states)
