"""Those who explore together, and what each tells the others after a level. Alone there is nobody to tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from attrs import frozen

from perago_core.value import Value
from perago_simulation.cells import Cells
from perago_simulation.strangers import Label


class Mark(NamedTuple):
    """A broken property: on which level it was found, by whom, in which of his worlds, and what is wrong there."""

    level: int
    rank: int
    at: int
    problem: str


@frozen(repr=False)
class Report(Value):
    """How far one of them is: how many worlds he began the level with, his figures, what he knows to be broken."""

    frontier: int
    generated: int
    distinct: int
    stopped: str
    found: Mapping[str, Mark]


#: A world somebody else came upon, in the numbers of its owner: its cells, its parent, its label.
Arrival: TypeAlias = tuple[Cells, int, int]


class Way(NamedTuple):
    """How one of them reached his worlds. A parent is its index times the number of processes plus its owner."""

    parents: Sequence[int]
    labels: Sequence[Label]


class Peers:
    """Nobody: one process owns every world. ``parallel`` has the others."""

    rank = 0
    count = 1

    def owner(self, _cells: Cells) -> int:
        """Give the rank of whoever owns a world."""
        return self.rank

    def hand_over(self, _owner: int, _cells: Cells, _parent: int, _label: int) -> None:
        """Keep a world for its owner until the level is done."""
        raise AssertionError("everything is our own")

    def exchange(self, report: Report) -> tuple[Sequence[Report], Iterable[Arrival]]:
        """Tell the others, and give everybody's report, in order of rank, with the worlds that were handed over."""
        return (report,), ()

    def gather(self, way: Way) -> Sequence[Way]:
        """Give everybody's way, in order of rank, to the first of them; the others get nothing of it."""
        return (way,)


ALONE = Peers()
