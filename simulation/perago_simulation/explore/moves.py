"""The memoised moves of each part of a model, by the number of cells of a world, with the chosen reductions applied."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from perago_simulation.explore.cells import Cells, Numbers
from perago_simulation.explore.memo import CellMove, Memo, steps
from perago_simulation.explore.reductions import Reduction, ending, forgetting, local_steps
from perago_simulation.world.model import Model


class Movers:
    """The parts of a model, each with its steps so far."""

    def __init__(
        self, model: Model, numbers: Numbers, sharing: Collection[int], reductions: Collection[Reduction]
    ) -> None:
        self.fuses = Reduction.FUSE in reductions
        self.forgets = Reduction.FORGET in reductions
        self._ends = Reduction.END in reductions
        self._model = model
        self._numbers = numbers
        self._sharing = sharing
        self._parts: dict[int, list[Memo[list[CellMove]]]] = {}
        self._local: dict[int, list[Memo[list[CellMove]]]] = {}
        self._forgetting: dict[int, Memo[list[CellMove]]] = {}

    def parts(self, cells: Cells) -> Sequence[Memo[list[CellMove]]]:
        """Give the parts that may move: all of them, or the one that moves first."""
        parts = self._parts.get(len(cells))
        if parts is None:
            parts = self._made(len(cells))
        if self.fuses:
            for index, local in enumerate(self._local[len(cells)]):
                if local(cells):
                    return (parts[index],)
        return parts

    def forgotten(self, cells: Cells) -> Cells:
        """Give a world without what nobody can use any more."""
        forget = self._forgetting.get(len(cells))
        if forget is None:
            forget = self._forgetting[len(cells)] = forgetting(self._model, self._numbers)
        for step in forget(cells):
            return step.taken(cells)
        return cells

    def _made(self, size: int) -> list[Memo[list[CellMove]]]:
        runs = self._numbers.runs(size)
        self._local[size] = local_steps(self._model, self._numbers, runs)
        parts = self._model.parts(runs)
        if self._ends:
            parts = tuple(ending(self._model, part) for part in parts)
        self._parts[size] = [steps(self._numbers, part, self._sharing) for part in parts]
        return self._parts[size]
