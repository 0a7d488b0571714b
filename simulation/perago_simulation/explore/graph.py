"""The worlds of a model by number, in the order of a breadth-first search, with the way to each and the moves between.

For questions that need more than a verdict: what can still be reached from where. Moves are looked up as in ``search``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

from perago_simulation.explore.memo import CellMove, Cells, Memo, Numbers, steps
from perago_simulation.world.model import Label, Model, Part
from perago_simulation.world.state import NOBODY, World

T = TypeVar("T")


class Graph:
    """What was found so far. ``remark`` may add something to the labels of moves, which ``taken`` is then told."""

    def __init__(self, model: Model, remark: Callable[[Part], Part] | None = None) -> None:
        self.model = model
        self._remark = remark
        self.worlds: list[Cells] = []
        self.numbers = Numbers(next(world for _, world in model.beginnings()))
        self._known: dict[Cells, int] = {}
        self._came_from: list[tuple[int, int]] = []
        self._steps: dict[int, list[Memo[list[CellMove]]]] = {}

    def walk(self, taken: Callable[[int, int, Label], object]) -> Iterator[int]:
        """Return the number of each new world; every move, also to a world that is known, is told to ``taken``."""
        known, worlds, labels = self._known, self.worlds, self.numbers.values
        for label, world in self.model.beginnings():
            if self._is_new(self.numbers.cells(world), NOBODY, self.numbers.number(label)):
                yield len(worlds) - 1
        for at, cells in enumerate(worlds):  # the list grows while it is walked
            for part in self._parts(len(cells)):
                for name, changes, added, _ in part(cells):
                    changed = [*cells]
                    for cell, number in changes:
                        changed[cell] = number
                    after = (*changed, *added)
                    if after not in known and self._is_new(after, at, name):
                        yield len(worlds) - 1
                    taken(at, known[after], labels[name])

    def _is_new(self, cells: Cells, source: int, label: int) -> bool:
        if cells in self._known:
            return False
        self._known[cells] = len(self.worlds)
        self.worlds.append(cells)
        self._came_from.append((source, label))
        return True

    def _parts(self, size: int) -> list[Memo[list[CellMove]]]:
        if size not in self._steps:
            parts = self.model.parts(self.numbers.runs(size))
            marked = parts if self._remark is None else map(self._remark, parts)
            self._steps[size] = [steps(self.numbers, part) for part in marked]
        return self._steps[size]

    def asked(self, question: Callable[[World], T]) -> Callable[[int], T]:
        """Return the answer of a world to a question, by the world's number. No answer is ``None``."""
        memos: defaultdict[int, Memo[T]] = defaultdict(lambda: Memo(self.numbers, lambda watch: question(watch.world)))

        def answer(at: int) -> T:
            cells = self.worlds[at]
            return memos[len(cells)](cells)

        return answer

    def world(self, at: int) -> World:
        """Return the world of this number."""
        return self.numbers.world(self.worlds[at])

    def trace(self, at: int) -> tuple[Label, ...]:
        """Return the shortest way to a world."""
        labels: list[Label] = []
        while at != NOBODY:
            at, label = self._came_from[at]
            who, what, about = self.numbers.values[label][:3]
            labels.append((who, what, about))
        return tuple(reversed(labels))
