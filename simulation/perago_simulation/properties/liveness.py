"""Liveness by healing: once nothing more goes wrong, everything comes to an end, and it is the end it should be.

The whole graph is explored; then it is read without its faults. A *fault* is whatever spends the budget of what may go
wrong, and what only a pause explains: an attempt given up, or a lease that expires, under a worker that lives. From
every world a resting world must be reachable without a fault (in a finite graph and with a fair schedule that means it
is reached), within a bound that is counted; where none is, ``waiting`` says who waits for whom. And from the worlds
where a ``Lead`` begins, no way without a fault may lead to where it is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from attrs import frozen

from perago_core.attempt import messages as m
from perago_core.attempt.state import Phase
from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.graph import Graph
from perago_simulation.properties.safety import disturbed
from perago_simulation.world.history import commit, maker
from perago_simulation.world.model import Label, Model, Part
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import COMPLETED, NOBODY, OPEN, RUNNING, Rarities, World

Where: TypeAlias = Callable[[Setting, World], bool]


@frozen(repr=False)
class Lead(Value):
    """Where it begins, an attempt that is left alone is accepted: no way without a fault ends it otherwise."""

    id: str
    says: str
    begins: Where


@frozen(repr=False)
class Healing(Value):
    """What was found. ``bound``: from any world rest is at most this many moves away, if nothing more goes wrong."""

    worlds: int
    bound: int
    violations: tuple[Violation, ...]

    def broken(self) -> dict[str, int]:
        """Return the clauses that do not hold, each with the length of its shortest trace."""
        return {each.property: len(each.trace) for each in self.violations}


class _Healthy(Graph):
    """A graph walked to its end, with its moves backwards, but for the faults."""

    def __init__(self, model: Model, limit: int) -> None:
        super().__init__(model, _marked)
        self._before: list[list[int]] = []
        for at in self.walk(self._keep):
            if at >= limit:
                message = f"more than {limit} worlds: this cannot be judged in part, take smaller bounds"
                raise ValueError(message)

    def _keep(self, source: int, to: int, label: Label) -> None:
        while len(self._before) < len(self.worlds):
            self._before.append([])
        if label[-1] is not _FAULT:
            self._before[to].append(source)

    def where(self, holds: Callable[[World], bool]) -> list[int]:
        """Return the worlds of which this holds."""
        answer = self.asked(holds)
        return [at for at in range(len(self.worlds)) if answer(at)]

    def distances(self, ends: Iterable[int], within: Callable[[int, int], bool] | None = None) -> dict[int, int]:
        """Return every world from which an end can be reached without a fault, with how many moves that takes."""
        reached = dict.fromkeys(ends, 0)
        frontier = list(reached)
        while frontier:
            earlier: list[int] = []
            for at in frontier:
                for before in self._before[at]:
                    if before not in reached and (within is None or within(before, at)):
                        reached[before] = reached[at] + 1
                        earlier.append(before)
            frontier = earlier
        return reached


_FAULT = "fault"


def _marked(part: Part) -> Part:
    """Let the label of a fault say so."""

    def moves(world: World) -> Iterator[tuple[Any, World]]:
        for label, after in part(world):
            yield ((*label, _FAULT) if is_fault(world, label, after) else label), after

    return moves


def is_fault(world: World, label: Label, after: World) -> bool:
    """Return whether a move is something going wrong: it spends the budget, or only a pause explains it."""
    if after.budget != world.budget or rarities(after) != rarities(world):
        return True
    if label[1] == "give up":
        given_up = int(label[2].removeprefix("t"))
        return any(run.task == given_up and run.fate is RUNNING for run in world.runs)
    return label[1] == "expire" and world.runs[world.lease.holder].fate is RUNNING


def rarities(world: World) -> Rarities | None:
    """Return how often what seldom happens may still happen."""
    return None if world.rare is None else world.rare.left


def _fresh(setting: Setting, world: World) -> bool:
    """Whether the newest attempt has one execution, which has not asked for anything yet, and no stranger came."""
    run = world.runs[-1]
    first = Phase.EARLIER_CLAIMS if setting.takes_over else Phase.WORKSPACE if setting.bodies else Phase.FENCE_1
    if run.state is None or run.state.phase is not first or disturbed(setting, world):
        return False
    last = len(world.tasks) - 1
    return world.tasks[last].status is OPEN and [each.task for each in world.runs].count(last) == 1


def _nobody_else(setting: Setting, world: World) -> bool:
    alone = not world.requests and all(run.fate is not RUNNING for run in world.runs[:-1])
    alone = alone and (world.rare is None or not world.rare.held)
    return _fresh(setting, world) and alone and world.lease.holder == NOBODY


def _among_zombies(setting: Setting, world: World) -> bool:
    """Under a lease only where nobody else holds or may take it: being refused a busy lease is an answer (L-04)."""
    return _fresh(setting, world) and (setting.backing is not Backing.LOCKED or _nobody_else(setting, world))


def _over_an_abandoned_one(setting: Setting, world: World) -> bool:
    """With whatever else is at work out of the way: in ``soft`` a late merge may still stack a second one on it."""
    return _nobody_else(setting, world) and on_an_abandoned_one(world)


def on_an_abandoned_one(world: World) -> bool:
    """Return whether exactly one publication that nobody accepted stands on the input of the newest attempt."""
    return maker(world.head) != NOBODY and commit(world.head).parents == (world.tasks[-1].input,)


#: What every world leads to, wherever it begins.
REST = Lead("L-01", "everything comes to rest once nothing more goes wrong", lambda _setting, _world: True)

LEADS = (
    Lead("L-02b", "a fresh attempt that is left alone is accepted, whatever went wrong before", _among_zombies),
    Lead("L-03", "one abandoned publication does not block the next attempt", _over_an_abandoned_one),
)


def heal(model: Model | Setting, leads: Sequence[Lead] = LEADS, limit: int = 400_000) -> Healing:
    """Explore everything, take the faults away, and see whether all ends, and as it should."""
    graph = _Healthy(Model(model) if isinstance(model, Setting) else model, limit)
    distances = graph.distances(graph.where(graph.model.at_rest))
    found = (*_stuck(graph, distances), *_lost(graph, leads))
    return Healing(len(graph.worlds), max(distances.values(), default=0), found)


def _stuck(graph: _Healthy, distances: Mapping[int, int]) -> Iterator[Violation]:
    """Return the nearest world that does not come to rest, if there is one, and where everything ends up from there."""
    for at in range(len(graph.worlds)):
        if at not in distances:
            yield Violation(REST.id, waiting(_drained(graph.model, graph.world(at))), graph.trace(at))
            return


def _drained(model: Model, world: World) -> World:
    """Let everybody go on without a fault, until there is nothing left that has not been before."""
    seen = {world}
    while True:
        moves = ((label, after) for label, after in model.moves(world) if after not in seen)
        further = next((after for label, after in moves if not is_fault(world, label, after)), None)
        if further is None:
            return world
        seen.add(further)
        world = further


def _lost(graph: _Healthy, leads: Sequence[Lead]) -> Iterator[Violation]:
    """Give for each lead the nearest world where it begins and from which a way without a fault ends otherwise."""
    setting = graph.model.setting
    tasks = graph.asked(lambda world: len(world.tasks))
    lost = graph.distances(
        graph.where(lambda world: world.tasks[-1].status not in {OPEN, COMPLETED}),
        # Only within one attempt: what becomes of the next is the next one's affair.
        lambda before, at: tasks(before) == tasks(at),
    )
    for lead in leads:
        begins = [at for at in graph.where(partial(lead.begins, setting)) if at in lost]
        if begins:
            problem = f"t{tasks(begins[0]) - 1} is left alone from here on and can still fail"
            yield Violation(lead.id, problem, graph.trace(begins[0]))


def waiting(world: World) -> str:
    """Say who waits for whom in a world that does not come to rest."""
    waits = [_waits_for(world, index) for index, run in enumerate(world.runs) if run.fate is RUNNING]
    on_their_way = [f"the publication of e{request.run} is on its way" for request in world.requests]
    return "; ".join((*waits, *on_their_way)) or "nobody works, and the orchestrator hands out nothing more"


def _waits_for(world: World, index: int) -> str:
    state = world.runs[index].state
    assert state is not None
    asked = state.pending[0]
    task = world.tasks[world.runs[index].task]
    about = f"whose task is {task.status}"
    if isinstance(asked, m.AcquireLease) and world.lease.holder != NOBODY:
        about = f"and the lease belongs to e{world.lease.holder}, which is {world.runs[world.lease.holder].fate}"
    elif isinstance(asked, m.SettleIntents):
        others = [f"e{run}" for run in world.intents if run != index]
        about = f"and the intents of {' and '.join(others)} are open" if others else about
    return f"e{index} waits for {type(asked).__name__}, {about}"
