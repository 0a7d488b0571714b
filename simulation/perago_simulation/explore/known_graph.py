"""Looking for a violation where nearly everything is known: only what a wrong table does otherwise is explored.

A wrong table takes most steps as the right one does. So the worlds of the right one are explored once in a setting,
with the moves between them and the steps of the table that each move rests on: 40,884 worlds rest on 675 steps. Whoever
tries a wrong table compares the steps and walks the known graph; a move is made anew only where a step it rests on is
another one, and a world is judged only if the right table never comes to it. What is found first is what
``first_violation`` finds, by a way of the same length.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from perago_core.answers import Event
from perago_core.attempt import AttemptState, Known
from perago_core.machine.rows import Step
from perago_core.values import Attempt
from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.first_violation import GIVES_UP, STUCK, first_violation, said
from perago_simulation.explore.memo import CellMove, Cells, Memo, Numbers, Watch, steps, steps_of
from perago_simulation.explore.search import Judges, no_garbage_collection
from perago_simulation.properties.safety import Property
from perago_simulation.world.model import Label, Model, Part
from perago_simulation.world.settings import Setting
from perago_simulation.world.store import Store

#: A step that was taken: a state and what it learnt, or, where an execution begins, its attempt alone.
Taken = tuple[AttemptState, Event] | tuple[Attempt]


class Moved(NamedTuple):
    """The moves of one part, and the numbers of the steps they rest on."""

    moves: list[CellMove]
    rests_on: frozenset[int]


class _Noting(Model):
    """Takes down the steps that are taken."""

    def __init__(self, of: Setting) -> None:
        super().__init__(of)
        self.noted: set[Taken] = set()
        step = self.step

        def noting(state: AttemptState, event: Event) -> Step[Attempt, Known]:
            self.noted.add((state, event))
            return step(state, event)

        self.step = lru_cache(maxsize=0)(noting)  # noted each time

    def start(self, attempt: Attempt) -> AttemptState:
        """Return where an execution begins."""
        self.noted.add((attempt,))
        return super().start(attempt)


class KnownGraph:
    """The worlds of the right table in a setting, and its moves."""

    def __init__(self, of: Setting) -> None:
        self.setting = of
        self._model = _Noting(of)
        self.numbers = Numbers(next(world for _, world in self._model.beginnings()))
        self.worlds: list[Cells] = []
        self.known: dict[Cells, int] = {}
        #: By world: its moves, part by part, and where they lead.
        self.moved: list[tuple[Moved, ...]] = []
        self.leads: list[tuple[int, ...]] = []
        self._steps: dict[Taken, int] = {}
        self._judges: dict[tuple[Hashable, ...], Judges] = {}
        with no_garbage_collection():
            self._explore()

    def _explore(self) -> None:
        for _, world in self._model.beginnings():
            self._number(self.numbers.cells(world))
        parts: dict[int, list[Memo[Moved]]] = {}
        for cells in self.worlds:  # the list grows while it is walked
            if len(cells) not in parts:
                parts[len(cells)] = [self._noted(part) for part in self._model.parts(self.numbers.runs(len(cells)))]
            moved = tuple(part(cells) for part in parts[len(cells)])
            self.moved.append(moved)
            self.leads.append(tuple(self._number(move.taken(cells)) for each in moved for move in each.moves))

    def _number(self, cells: Cells) -> int:
        number = self.known.setdefault(cells, len(self.worlds))
        if number == len(self.worlds):
            self.worlds.append(cells)
        return number

    def _noted(self, part: Part) -> Memo[Moved]:
        def moved(watch: Watch) -> Moved:
            self._model.noted.clear()
            moves = steps_of(self.numbers, watch, part)
            return Moved(moves, frozenset(self._steps.setdefault(each, len(self._steps)) for each in self._model.noted))

        return Memo(self.numbers, moved)

    def differences(self, model: Model) -> frozenset[int]:
        """Return the steps that a model takes otherwise, or not at all."""
        return frozenset(number for taken, number in self._steps.items() if not self._same(model, taken))

    def _same(self, model: Model, taken: Taken) -> bool:
        try:
            if len(taken) == 1:
                return model.start(*taken) == self._model.start(*taken)
            return model.step(*taken) == self._model.step(*taken)
        except GIVES_UP:
            return False

    def judges(self, size: int, properties: Sequence[Property]) -> Judges:
        """Return who judges worlds of a size; what they have looked at they remember, whoever came there."""
        asked = (size, *(each.id for each in properties))
        if asked not in self._judges:
            self._judges[asked] = Judges(self.numbers, self._model, properties)
        return self._judges[asked]


class _Search:
    """One search: how each world was reached. Worlds that are new have the numbers after those that are known."""

    def __init__(self, graph: KnownGraph, model: Model, properties: Sequence[Property]) -> None:
        self._graph = graph
        self._model = model
        self._properties = properties
        self._order = {each.id: index for index, each in enumerate(properties)}
        self._differs = graph.differences(model)
        self._as_known: dict[int, bool] = {}
        self._new: dict[Cells, int] = {}
        self._new_worlds: list[Cells] = []
        self._parts: dict[int, list[Memo[list[CellMove]]]] = {}
        self._came_from: dict[int, tuple[int | None, int]] = {}
        self._queue: list[int] = []

    def first(self) -> Violation | None:
        """Return the first thing wrong, or ``None`` once every world has been seen."""
        at: int | None = None
        try:
            for label, world in self._model.beginnings():
                numbers = self._graph.numbers
                if (found := self._take_in(numbers.cells(world), None, numbers.number(label))) is not None:
                    return found
            for at in self._queue:  # it grows while it is walked
                for found in self._expanded(at):
                    return found
        except GIVES_UP as error:
            return Violation(STUCK, said(error), () if at is None else self._trace(at))
        return None

    def _expanded(self, at: int) -> Iterator[Violation]:
        """Go on from a world: along what is known as far as that is how this table goes on."""
        graph, came_from = self._graph, self._came_from
        known = at < len(graph.worlds)
        if known and self._is_as_known(graph.moved[at]):
            leads = iter(graph.leads[at])
            for each in graph.moved[at]:
                for move, to in zip(each.moves, leads, strict=False):
                    if to not in came_from:
                        came_from[to] = (at, move.label)
                        self._queue.append(to)
            return
        cells = graph.worlds[at] if known else self._new_worlds[at - len(graph.worlds)]
        for index, part in enumerate(self._parts_of(len(cells))):
            same = known and self._is_as_known(graph.moved[at][index : index + 1])
            for move in graph.moved[at][index].moves if same else part(cells):
                found = self._take_in(move.taken(cells), at, move.label)
                if found is not None:
                    yield found

    def _is_as_known(self, moved: Sequence[Moved]) -> bool:
        """Return whether these moves rest on no step that this table takes otherwise."""
        answers = self._as_known
        for each in moved:
            answer = answers.get(id(each))
            if answer is None:
                answer = answers[id(each)] = self._differs.isdisjoint(each.rests_on)
            if not answer:
                return False
        return True

    def _take_in(self, cells: Cells, source: int | None, label: int) -> Violation | None:
        graph = self._graph
        number = graph.known.get(cells)
        new = number is None and cells not in self._new
        if number is None:
            number = self._new.setdefault(cells, len(graph.worlds) + len(self._new_worlds))
        if number in self._came_from:
            return None
        self._came_from[number] = (source, label)
        self._queue.append(number)
        return self._judged(number, cells) if new else None

    def _judged(self, number: int, cells: Cells) -> Violation | None:
        self._new_worlds.append(cells)
        broken = self._graph.judges(len(cells), self._properties).broken(cells)
        if not broken:
            return None
        name, problem = min(broken, key=lambda each: self._order[each[0]])
        return Violation(name, problem, self._trace(number))

    def _parts_of(self, size: int) -> Sequence[Memo[list[CellMove]]]:
        if size not in self._parts:
            numbers = self._graph.numbers
            self._parts[size] = [steps(numbers, part) for part in self._model.parts(numbers.runs(size))]
        return self._parts[size]

    def _trace(self, at: int) -> tuple[Label, ...]:
        labels: list[Label] = []
        here: int | None = at
        while here is not None:
            here, label = self._came_from[here]
            labels.append(self._graph.numbers.values[label])
        return tuple(reversed(labels))


@cache
def known_graph(of: Setting) -> KnownGraph:
    """Return the worlds of the right table in a setting, explored once in a process."""
    return KnownGraph(of)


def first_otherwise(
    model: Model, of: Setting, properties: Sequence[Property], ignore: Collection[str] = ()
) -> Violation | None:
    """Return the first thing wrong with a model, where the right table breaks only what is to be ignored.

    What differs in more than its table is explored as a whole.
    """
    judged = [each for each in properties if each.id not in ignore]
    if type(model) is not Model or type(model.store) is not Store or model.setting != of:
        return first_violation(model, judged)
    with no_garbage_collection():
        return _Search(known_graph(of), model, judged).first()
