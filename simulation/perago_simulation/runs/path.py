"""One path through a model, chosen move by move by what a label says: for crash windows, and for tests."""

from __future__ import annotations

from attrs import frozen

from perago_core.errors import PeragoError
from perago_core.value import Value
from perago_simulation.runs.replay import line_of
from perago_simulation.world.model import Label, Model, Move
from perago_simulation.world.state import RUNNING, World


class RunPathError(PeragoError, LookupError):
    """What is wanted cannot happen here; the message says what can."""


@frozen(repr=False)
class RunPath(Value):
    """A way from the beginning. Each move gives a new one, so a way may fork."""

    model: Model
    choices: tuple[int, ...] = ()
    labels: tuple[Label, ...] = ()
    at: World | None = None

    @property
    def world(self) -> World:
        """Return where it ends."""
        assert self.at is not None
        return self.at

    def moves(self) -> list[Move]:
        """Return everything that can happen next."""
        return list(self.model.beginnings() if self.at is None else self.model.moves(self.at))

    def can(self, *wanted: str) -> bool:
        """Return whether a move can happen whose words contain all that is wanted."""
        return any(_fits(label, wanted) for label, _ in self.moves())

    def take(self, *wanted: str) -> RunPath:
        """Let the first move happen whose words contain all that is wanted."""
        moves = self.moves()
        for choice, (label, world) in enumerate(moves):
            if _fits(label, wanted):
                return RunPath(self.model, (*self.choices, choice), (*self.labels, label), world)
        can = "; ".join(" ".join(label) for label, _ in moves) or "nothing"
        message = f"after {len(self.labels)} moves {' '.join(wanted)!r} cannot happen; what can: {can}"
        raise RunPathError(message)

    def go_on(self, run: int) -> RunPath:
        """Let an execution do the next thing it does if nothing goes wrong; the store serves it."""
        mine = any(request.run == run for request in self.world.requests)
        return self.take("store ", f" e{run}") if mine else self.take(f"e{run} ")

    def until(self, run: int, *wanted: str) -> RunPath:
        """Let an execution go on until what is wanted has happened, or else to its end."""
        way = self
        while way.world.runs[run].fate is RUNNING:
            way = way.go_on(run)
            if wanted and _fits(way.labels[-1], wanted):
                break
        return way

    def line(self) -> str:
        """Write it as one line that replays."""
        return line_of(self.model, self.choices)


def _fits(label: Label, wanted: tuple[str, ...]) -> bool:
    text = " ".join(label)
    return all(each in text for each in wanted)
