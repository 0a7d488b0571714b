"""Judging worlds: which properties a world breaks.

A property that reads what is shared (the head, the tasks, the requests) is computed once for what it reads, and is not
even looked up for a move that changes nothing of that. A property that looks at what the executions are doing reads
nearly everything, and is computed each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from perago_simulation.explore.cells import Cells, Changes, Numbers, Watch, cells_in
from perago_simulation.explore.memo import Memo
from perago_simulation.properties.safety import Property, When
from perago_simulation.world.model import Model

#: What is wrong with a world: a property and the problem.
Broken: TypeAlias = tuple[str, str]


class Judges:
    """The properties nobody has found broken yet, for worlds of one size."""

    def __init__(self, numbers: Numbers, model: Model, properties: Sequence[Property]) -> None:
        self._numbers = numbers
        self._setting = model.setting
        self._at_rest = Memo(numbers, lambda watch: model.at_rest(watch.world))
        self._resting = [each for each in properties if each.when is When.AT_REST]
        self._computed: list[Property] = []
        self._looked_up = {
            each.id: Memo(numbers, self._watched(each)) for each in properties if each.when is When.ALWAYS
        }
        #: The cells each property has ever read.
        self._reads: dict[str, set[int]] = {each.id: set() for each in properties}
        self._touched: dict[Changes, list[tuple[str, Memo[list[str]]]]] = {}

    def broken(self, cells: Cells, changes: Changes | None = None) -> list[Broken]:
        """Give what a world breaks.

        With ``changes``, the world it came from was judged before and differs in nothing but these. A property that
        never read any of these cells read the same in both worlds, so what held there holds here.
        """
        judges = list(self._looked_up.items()) if changes is None else self._touched.get(changes)
        if judges is None:
            assert changes is not None
            judges = self._touched[changes] = self._reading({cell for cell, _ in changes})
        broken = [(name, problem) for name, judge in judges for problem in judge(cells)]
        computed = self._computed
        if self._resting and self._at_rest(cells):
            computed = [*computed, *self._resting]
        if computed:
            world = self._numbers.world(cells)
            problems = ((each.id, each.judge(self._setting, world)) for each in computed)
            broken += [(name, problem) for name, problem in problems if problem is not None]
        return broken

    def leave_out(self, names: Iterable[str]) -> None:
        """Judge these no longer."""
        left_out = set(names)
        for name in left_out:
            self._looked_up.pop(name, None)
        self._computed = [each for each in self._computed if each.id not in left_out]
        self._resting = [each for each in self._resting if each.id not in left_out]
        self._touched.clear()

    def _reading(self, cells: set[int]) -> list[tuple[str, Memo[list[str]]]]:
        return [(name, judge) for name, judge in self._looked_up.items() if self._reads[name] & cells]

    def _watched(self, each: Property) -> Callable[[Watch], list[str]]:
        """Give the judgement of a property that notes what it reads."""

        def judged(watch: Watch) -> list[str]:
            problem = each.judge(self._setting, watch.world)
            reads = self._reads[each.id]
            if not watch.reads.keys() <= reads:
                reads.update(watch.reads)
                self._touched.clear()
            if reads & set(_states(watch)) and each not in self._computed:
                self._looked_up.pop(each.id, None)
                self._computed.append(each)
                self._touched.clear()
            return [] if problem is None else [problem]

        return judged


def _states(watch: Watch) -> Iterable[int]:
    runs = watch.place.fields["runs"]
    assert isinstance(runs, tuple)
    return (cell for run in runs for cell in cells_in(run.fields["state"]))
