"""The breadth-first search: every reachable world within the bounds, level by level, each judged by the properties.

A world is a tuple of numbers, moves and judgements are looked up (``memo``), and how a world was reached is two numbers
in an array: where from, and by which label. With several processes each owns some of the worlds (``workers``): after
each level it hands over those that belong to others and takes over its own.

A property that reads what is shared (the head, the tasks, the requests) is computed once for what it reads, and is not
even looked up for a move that changes nothing of that. A property that looks at what the executions are doing reads
nearly everything, and is computed each time.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeAlias

from perago_simulation.explore.exploration import Exploration, Limits, Progress, Violation
from perago_simulation.explore.memo import Cells, Changes, Memo, MemoBranch, Numbers, Watch, cells_in
from perago_simulation.explore.reductions import Movers, Reduction
from perago_simulation.explore.workers import ALONE, Ancestry, Mark, Peers, Report, crew, sharing
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.world.model import Label, Model, Move
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import World

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
        """Return what a world breaks.

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
        """Return the judgement of a property that notes what it reads."""

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


# ---------------------------------------------------------------------------------------------------------------------
# Searching

#: Worlds between two looks at the limits.
_STRETCH = 256
#: Worlds on a level from which several processes are worth it.
MANY = 5_000
#: The parent of a beginning.
_NOWHERE = -1


class Reached(NamedTuple):
    """How far a search is: the worlds to be looked at next, their level, everybody's figures, whether that is all."""

    frontier: list[Cells]
    level: int = 0
    generated: int = 0
    distinct: int = 0
    stopped: str = ""
    done: bool = False


class Explorer:
    """One exploration: the worlds seen, how each was reached, what was found wrong."""

    def __init__(
        self,
        model: Model,
        properties: Sequence[Property] = PROPERTIES,
        processes: int = 1,
        reductions: Collection[Reduction] = (),
        together_from: float = MANY,
    ) -> None:
        example = next((world for _, world in model.beginnings()), None)
        if example is None:
            message = "there is nothing to explore: the setting allows no body; let bodies change something or nothing"
            raise ValueError(message)
        if processes < 1:
            message = f"an exploration needs at least one process, not {processes}"
            raise ValueError(message)
        self.model = model
        self._properties = properties
        self._processes = processes
        self._alone_until = float("inf") if processes == 1 else together_from
        self._numbers = Numbers(example)
        self._movers = Movers(model, self._numbers, sharing(self._numbers), reductions)
        self._judges: dict[int, Judges] = {}
        self._seen: set[Cells] = set()
        self._parents = array("q")
        self._labels = array("L")
        self._expanded = 0
        self._generated = 0
        self._distinct = 0
        self._found: dict[str, Mark] = {}
        self._peers = ALONE

    def run(
        self,
        limits: Limits,
        progress: Progress | None = None,
        beginnings: Iterable[Move] | None = None,
    ) -> Exploration:
        """Visit every world, level by level, until none is left or a limit is reached."""
        begun = time.monotonic()
        with no_garbage_collection():
            frontier = self._begin(self.model.beginnings() if beginnings is None else beginnings)
            reached = self._search(Reached(frontier), limits, begun, progress, self._alone_until)
            if reached.done:
                violations = self._violations()
            else:
                part = partial(self._take_part, reached, limits, begun)
                with crew(self._processes, self._numbers, part) as peers:
                    reached, violations = part(peers, progress)
        return Exploration(
            setting=self.model.setting,
            generated=reached.generated,
            distinct=reached.distinct,
            # The last level has no worlds, unless the search was stopped there.
            depth=reached.level if reached.stopped else max(reached.level - 1, 0),
            seconds=time.monotonic() - begun,
            stopped=reached.stopped,
            violations=violations,
        )

    def _take_part(
        self, reached: Reached, limits: Limits, begun: float, peers: Peers, progress: Progress | None = None
    ) -> tuple[Reached, tuple[Violation, ...]]:
        """Go on with others. Everybody knows what was reached alone; the first accounts for it."""
        self._peers = peers
        if peers.rank != 0:
            self._generated = self._distinct = 0
        for index, parent in enumerate(self._parents):
            self._parents[index] = parent if parent == _NOWHERE else parent * peers.count
        # Our part of the frontier is entered once more, so that what is expanded next is in a row.
        first = len(self._parents) - len(reached.frontier)
        frontier: list[Cells] = []
        self._expanded = len(self._parents)
        for index, cells in enumerate(reached.frontier, start=first):
            if peers.owner(cells) == peers.rank:
                frontier.append(cells)
                self._parents.append(self._parents[index])
                self._labels.append(self._labels[index])
        reached = self._search(reached._replace(frontier=frontier), limits, begun, progress)
        return reached, self._violations()

    def _search(
        self,
        reached: Reached,
        limits: Limits,
        begun: float,
        progress: Progress | None,
        enough: float = float("inf"),
    ) -> Reached:
        """Go on level by level until that is all, or until the frontier is large enough for several processes."""
        elsewhere = 0
        while not reached.done and len(reached.frontier) < enough:
            frontier, level = reached.frontier, reached.level
            following: list[Cells] = []
            stopped = "depth" if frontier and level >= limits.depth else ""
            for at in range(0, 0 if stopped else len(frontier), _STRETCH):
                following += self._expand(frontier[at : at + _STRETCH], level + 1)
                stopped = limits.reached(elsewhere + self._distinct, len(self._found), begun, self._peers.count)
                if stopped:
                    break
            report = Report(len(frontier), self._generated, self._distinct, stopped, self._found)
            reports, arrivals = self._peers.exchange(report)
            self._hear(reports)
            distinct = sum(each.distinct for each in reports)
            elsewhere = distinct - report.distinct
            stopped = next((each.stopped for each in reports if each.stopped), "")
            done = bool(stopped) or not any(each.frontier for each in reports)
            if not done:
                for cells, parent, label in arrivals:
                    if cells not in self._seen:
                        self._take_in(cells, parent, label, level + 1)
                        following.append(cells)
            generated = sum(each.generated for each in reports)
            reached = Reached(following, level + (not done), generated, distinct, stopped, done)
            if progress is not None:
                progress(generated, distinct, level)
        return reached

    def worlds(self) -> Iterator[World]:
        """Return every world that was visited."""
        return map(self._numbers.world, self._seen)

    # -----------------------------------------------------------------------------------------------------------------
    # One level

    def _begin(self, beginnings: Iterable[Move]) -> list[Cells]:
        frontier: list[Cells] = []
        for label, world in beginnings:
            cells = self._numbers.cells(world)
            self._generated += 1
            if cells not in self._seen:
                self._take_in(cells, _NOWHERE, self._numbers.number(label), 0)
                frontier.append(cells)
        return frontier

    def _expand(self, worlds: Sequence[Cells], level: int) -> list[Cells]:
        """Take every step from these worlds, and give the new worlds. Everything that costs time happens here."""
        fresh: list[Cells] = []
        seen, peers, take_in = self._seen, self._peers, self._take_in
        parts_of, forgets, together = self._movers.parts, self._movers.forgets, peers.count > 1
        for world in worlds:
            parent = self._expanded * peers.count + peers.rank
            self._expanded += 1
            for part in parts_of(world):
                # As in Memo.__call__, which would cost as much again as what it does.
                node = part.root
                while type(node) is MemoBranch:
                    node = node[1].get(world[node[0]])
                if node is None:
                    node = part.learn(world)
                self._generated += len(node)
                for label, changes, added, leaves in node:
                    changed = [*world]
                    for cell, number in changes:
                        changed[cell] = number
                    changed += added
                    after = tuple(changed)
                    if forgets:
                        after = self._movers.forgotten(after)
                    if together and (leaves or forgets) and (owner := peers.owner(after)) != peers.rank:
                        peers.hand_over(owner, after, parent, label)
                    elif after not in seen:
                        take_in(after, parent, label, level, None if added or forgets else changes)
                        fresh.append(after)
        return fresh

    def _take_in(self, cells: Cells, parent: int, label: int, level: int, changes: Changes | None = None) -> None:
        """Take in a world that was not seen before, and judge it."""
        judges = self._judges.get(len(cells))
        if judges is None:
            judges = self._judges[len(cells)] = Judges(self._numbers, self.model, self._properties)
            judges.leave_out(self._found)
        for name, problem in judges.broken(cells, changes):
            self._found.setdefault(name, Mark(level, self._peers.rank, len(self._parents), problem))
        self._seen.add(cells)
        self._distinct += 1
        self._parents.append(parent)
        self._labels.append(label)

    def _hear(self, reports: Iterable[Report]) -> None:
        """Learn what the others found. Breadth first, the first world that breaks a property is the nearest."""
        for report in reports:
            for name, mark in report.found.items():
                self._found[name] = min(mark, self._found.get(name, mark))
        for judges in self._judges.values():
            judges.leave_out(self._found)

    # -----------------------------------------------------------------------------------------------------------------
    # The way there

    def first_found(self) -> Violation | None:
        """Return the first thing that the first wrong world breaks; for one process."""
        order = {each.id: index for index, each in enumerate(self._properties)}
        wrong = min(self._found.items(), key=lambda each: (each[1][:3], order[each[0]]), default=None)
        return None if wrong is None else Violation(wrong[0], wrong[1].problem, self._way(wrong[1].at))

    def way_to_expanded(self) -> tuple[Label, ...]:
        """Return the way to the world whose steps are being taken; for one process."""
        return self._way(self._expanded - 1)

    def _way(self, at: int) -> tuple[Label, ...]:
        labels: list[Label] = []
        while at != _NOWHERE:
            labels.append(self._numbers.values[self._labels[at]])
            at = self._parents[at]
        return tuple(reversed(labels))

    def _violations(self) -> tuple[Violation, ...]:
        if not self._found:  # everybody knows what was found, so nobody waits for the others' ways in vain
            return ()
        ways = self._peers.gather(Ancestry(self._parents, [self._numbers.values[each] for each in self._labels]))
        found = sorted(self._found.items()) if ways else ()
        return tuple(Violation(name, mark.problem, _trace(ways, mark)) for name, mark in found)


def _trace(ways: Sequence[Ancestry], mark: Mark) -> tuple[Label, ...]:
    labels: list[Label] = []
    at = mark.at * len(ways) + mark.rank
    while at != _NOWHERE:
        index, rank = divmod(at, len(ways))
        labels.append(ways[rank].labels[index])
        at = ways[rank].parents[index]
    return tuple(reversed(labels))


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """Let the collector rest: worlds are tuples of numbers, and it would walk all of them to find no cycle."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def explore(
    model: Model | Setting,
    properties: Sequence[Property] = PROPERTIES,
    limits: Limits | None = None,
    progress: Progress | None = None,
    *,
    processes: int = 1,
    reductions: Collection[Reduction] = (),
) -> Exploration:
    """Explore a model, or a setting on the production table, and give what was found.

    With several ``processes`` it is found sooner, and is the same: every figure, verdict and length of a trace. With
    ``reductions`` fewer worlds are visited, and the verdicts are the same.
    """
    wanted = Model(model) if isinstance(model, Setting) else model
    return Explorer(wanted, properties, processes, reductions).run(limits or Limits(), progress)
