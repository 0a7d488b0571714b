"""Reductions: worlds that need not be told apart, and moves that need not wait. Each is a switch, and off by default.

Names are canonical without a switch: a commit is called after what it is (``history``), so equal histories are equal
names. No symmetry is left between executions: attempts have numbers, and each number is another role. Only the
deliveries of one task could be swapped; their names are part of every commit, claim and plan, and renaming all of these
would cost more than the few settings with duplicates would save.

Whether a reduction applies is computed once for what it reads of a world (``memo``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from functools import partial

from perago_core.attempt import messages as m
from perago_core.attempt.state import Phase
from perago_simulation.explore.memo import (
    CellMove,
    Cells,
    Memo,
    Numbers,
    RecordCells,
    Watch,
    cells_in,
    step_of,
    steps,
    steps_of,
)
from perago_simulation.world.model import Label, Model, Moves, Part
from perago_simulation.world.state import DEAD, ENDED, OPEN, RUNNING, Run, World, with_run, without_name


class Reduction(Enum):
    """The switches."""

    FORGET = "forget"
    FUSE = "fuse"
    END = "end"


def forgetting(model: Model, numbers: Numbers) -> Memo[list[CellMove]]:
    """Forget what nobody can use any more, in worlds of one size.

    The staging name of a dead execution with no publication on its way: the store looks a name up for its own
    publication only, the revocation of older names removes it without asking, and S-33 excuses the dead. And once
    nothing runs and nothing more is handed out, the crashes and duplicates that did not happen: there is nobody left to
    crash or to be delivered again, and no property asks how many there might have been. Not where rare things may
    happen: the collector waits for the last name, and a workflow may be run again.

    What is forgotten is read by no move and no property, so a world and what is left of it have the same future:
    verdicts and the lengths of traces stay the same.
    """

    def forgotten(watch: Watch) -> list[CellMove]:
        step = step_of(numbers, watch, (("", "forget", ""), _forgotten(model, watch.world)))
        return [step] if step.changes else []

    return Memo(numbers, forgotten)


def _forgotten(model: Model, world: World) -> World:
    if world.rare is not None:
        return world
    senders = {request.run for request in world.requests}
    kept = tuple(each for each in world.names if each[0] in senders or world.runs[each[0]].fate is not DEAD)
    if len(kept) != len(world.names):
        world = world._replace(names=kept)
    if model.at_rest(world):
        world = world._replace(budget=world.budget._replace(crashes=0, duplicates=0))
    return world


#: Until here an execution writes under its own name only, and the next fence tells it that its task has ended.
_BEFORE_THE_LAST_FENCE = frozenset(
    {
        Phase.WORKSPACE,
        Phase.BODY,
        Phase.FENCE_0,
        Phase.STAGING_0,
        Phase.FENCE_1,
        Phase.STAGING,
        Phase.UPLOAD,
        Phase.COMMIT,
        Phase.FENCE_2,
    }
)
#: From here on it looks, reports to a task that has ended, and cleans up.
_NOTHING_MORE = frozenset(
    {
        Phase.OWN_HEAD,
        Phase.OWN_FENCE,
        Phase.READ_BACK,
        Phase.REPORT,
        Phase.CONFIRMATION,
        Phase.ACCEPTANCE,
        Phase.CLEAN_UP,
    }
)


def ending(model: Model, part: Part) -> Part:
    """Let executions end with the very move that leaves them nothing to do that anybody else could see.

    That is an execution of a task that has ended, and it is either on its way to an attempt fence that must fail, or
    past its publication: it will look, report to a task that ignores it, and remove its own name. It must not hold the
    lease, have a publication on its way or an intent that stands: what it does about those is seen by others. To end at
    once is one of its own schedules, so no world is invented. What is left out are its crash and its lost answers,
    which only spend what may go wrong elsewhere, and the worlds in between, which differ in nothing others read.

    It happens in the move itself, so it is computed once for what the move reads (``memo``); a look at every new world
    would read all of it. Not where a task may come back under its id or somebody collects names.
    """
    of = model.setting
    if of.requeues or of.reruns or of.collects:
        return part

    def moves(world: World) -> Moves:
        for label, after in part(world):
            for index in _concerned(label, after):
                after = _ended(after, index)  # noqa: PLW2901  one by one
            yield label, after

    return moves


def _concerned(label: Label, after: World) -> Iterable[int]:
    """Name the executions a move may leave with nothing to do: the one that moves, and all of a task that ends."""
    who, what, about = label
    if what == "Report":
        task = after.runs[int(who[1:])].task
    elif what in {"give up", "terminate"}:
        task = int(about[1:])
    else:
        return (int(who[1:]),) if who[1:].isdigit() else ()
    return [index for index, run in enumerate(after.runs) if run.task == task]


def _ended(world: World, index: int) -> World:
    """Return the world in which an execution that has nothing left to do has done it."""
    run = world.runs[index]
    if run.fate is not RUNNING:
        return world
    assert run.state is not None
    phase, known = run.state.phase, run.state.known
    if phase not in _BEFORE_THE_LAST_FENCE and (phase not in _NOTHING_MORE or known.armed):
        return world
    if world.tasks[run.task].status is OPEN or world.lease.holder == index:
        return world
    if any(request.run == index for request in world.requests):
        return world
    return without_name(with_run(world, index, Run(run.task, ENDED, None)), index)


def local_steps(model: Model, numbers: Numbers, runs: int) -> list[Memo[list[CellMove]]]:
    """Give, for each execution, the step that concerns nobody else and is therefore taken before anything else.

    Such a step reads nothing but its own execution and writes nothing else; that is not declared but observed, on a
    stand-in. Two commands may also read their own task once it has ended, because that never changes again: a reload,
    and a report that is ignored. Not where rare things may happen: a task may then be handed out again.

    So it commutes with every move of anybody else, and whatever they can do before it they can do after it. The one
    move that does not commute is the crash of the execution itself, and it leads to the same world before and after. An
    answer may be lost only while the budget lasts, and the budget is everybody's, so nothing is local before it is
    spent. Nobody is kept waiting for ever: an execution does not come back to a state without asking the world.

    What is left out are worlds in which others go on while an execution waits for itself. Verdicts stay the same, of
    properties that do not look at an execution in that very state and at the others at once; none of ours does. A trace
    may be longer than the shortest by the steps that were taken first and were not needed.
    """
    executions = enumerate(model.parts(runs)[:runs])
    return [Memo(numbers, partial(_local, numbers, index, part)) for index, part in executions]


def _local(numbers: Numbers, index: int, part: Part, watch: Watch) -> list[CellMove]:
    run, budget, places = watch.world.runs[index], numbers.fixed["budget"], watch.place.fields["runs"]
    assert isinstance(budget, RecordCells)
    assert isinstance(places, tuple)
    if watch.world.budget.losses or run.fate is not RUNNING:
        return []
    steps = steps_of(numbers, watch, part)
    own = {*places[index].cells}
    written = {cell for step in steps for cell, _ in step.changes}
    read = {*watch.reads} - own - {*cells_in(budget.fields["losses"])}
    if read == {*cells_in(numbers.fixed["tasks"])} and _has_ended(watch.world, run):
        read.clear()
    return steps if len(steps) == 1 and not steps[0].added and not read and written <= own else []


def _has_ended(world: World, run: Run) -> bool:
    """Return whether an execution asks only about its own task, and that has ended for good."""
    assert run.state is not None
    asks = isinstance(run.state.pending[0], m.ReloadTask | m.Report)
    return asks and world.rare is None and world.tasks[run.task].status is not OPEN


# ---- The memoised moves of each part of a model, by the cells of a world, with the chosen reductions applied.


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
        """Return the parts that may move: all of them, or the one that moves first."""
        parts = self._parts.get(len(cells))
        if parts is None:
            parts = self._made(len(cells))
        if self.fuses:
            for index, local in enumerate(self._local[len(cells)]):
                if local(cells):
                    return (parts[index],)
        return parts

    def forgotten(self, cells: Cells) -> Cells:
        """Return a world without what nobody can use any more."""
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
