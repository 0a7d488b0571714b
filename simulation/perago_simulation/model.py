"""The model: a setting, a store and the attempt's table, and everything that can happen next in a world.

Each move is a label (who, what, about what) and the world after it. Executions run the table they are given, which is
the production table unless somebody explores a mutant; what a command does to the world is in ``effects``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TypeAlias

from perago_core.attempt import ATTEMPT, Known, Phase
from perago_core.attempt import commands as c
from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.engine import Table
from perago_core.rows import Command, Event
from perago_core.values import Attempt, CommitRef
from perago_simulation.effects import EFFECTS
from perago_simulation.history import ROOT, foreign
from perago_simulation.settings import Setting
from perago_simulation.store import Store
from perago_simulation.world import (
    COMPLETED,
    DEAD,
    ENDED,
    NOBODY,
    OPEN,
    RUNNING,
    TIMED_OUT,
    Budget,
    Request,
    Run,
    Task,
    World,
    attempt_of,
    with_head,
    with_run,
    with_task,
)

Label: TypeAlias = tuple[str, str, str]
Move: TypeAlias = tuple[Label, World]
Moves: TypeAlias = Iterator[Move]


class Model:
    """What can happen. Two models with the same setting, store and table have the same worlds."""

    def __init__(
        self,
        setting: Setting,
        table: Table[Attempt, Known] = ATTEMPT,
        store: Store | None = None,
    ) -> None:
        self.setting = setting
        self.table = table
        self.store = store or Store()
        self.step = lru_cache(maxsize=None)(table.step)

    def beginnings(self) -> Moves:
        """Give the worlds a run starts from: the first attempt handed out, with each body it may have."""
        setting = self.setting
        budget = Budget(setting.crashes, setting.losses, setting.duplicates, setting.strangers)
        empty = World(ROOT, (), (), (NOBODY,) * setting.steps, (), (), (), (NOBODY, True), (), (), budget)
        yield from self._hand_out(empty, Task(0, 1, ROOT))

    def moves(self, world: World) -> Moves:
        """Give everything that can happen next."""
        for index, run in enumerate(world.runs):
            if run.fate is RUNNING:
                yield from self._work(world, index, run)
        for index, request in enumerate(world.requests):
            yield from self._publish(world, index, request)
        yield from self._orchestrate(world)
        yield from self._fail(world)

    def at_rest(self, world: World) -> bool:
        """Say whether nothing is left to do: nobody works, nothing is on its way, and nothing more is handed out."""
        if world.requests or any(run.fate is RUNNING for run in world.runs):
            return False
        return next(self._orchestrate(world), None) is None

    # -----------------------------------------------------------------------------------------------------------------
    # Executions

    def _work(self, world: World, index: int, run: Run) -> Moves:
        assert run.state is not None
        (command,) = run.state.pending
        who, kind = f"e{index}", type(command)
        if isinstance(command, c.Publish):
            yield from self._send(world, index, command)
            return
        after, event = EFFECTS[kind](self.setting, world, index, command)
        yield (who, kind.__name__, type(event).__name__), self._tell(after, index, event)
        if world.budget.losses and command.answers.unknown:
            spent = world.budget._replace(losses=world.budget.losses - 1)
            lost = _LOST[kind]
            yield (who, kind.__name__, "dropped"), self._tell(world._replace(budget=spent), index, lost)
            if after is not world:
                landed = after._replace(budget=spent)
                yield (who, kind.__name__, "landed, answer lost"), self._tell(landed, index, lost)

    def _tell(self, world: World, index: int, event: Event) -> World:
        """Let an execution learn an event and wait for what it asks next."""
        run = world.runs[index]
        assert run.state is not None
        state = self.step(run.state, event).state
        if state.phase is Phase.DONE:
            return with_run(world, index, Run(run.task, ENDED, None))
        return with_run(world, index, Run(run.task, RUNNING, state))

    def _send(self, world: World, index: int, command: c.Publish) -> Moves:
        """Send a publication; once it is sent, the sender may stop waiting for it while it is on its way."""
        who = f"e{index}"
        if not any(request.run == index for request in world.requests):
            requests = tuple(sorted((*world.requests, Request(index, command.plan)), key=_by_run))
            yield (who, "Publish", command.plan.kind.value), world._replace(requests=requests)
        elif world.budget.losses:
            requests = tuple(each._replace(awaited=False) if each.run == index else each for each in world.requests)
            budget = world.budget._replace(losses=world.budget.losses - 1)
            gone = world._replace(requests=requests, budget=budget)
            yield (who, "Publish", "stops waiting"), self._tell(gone, index, _LOST[c.Publish])

    # -----------------------------------------------------------------------------------------------------------------
    # The store, carrying out publications in two phases

    def _publish(self, world: World, at: int, request: Request) -> Moves:
        who = f"e{request.run}"
        others = (*world.requests[:at], *world.requests[at + 1 :])
        awaited = request.awaited and world.runs[request.run].fate is RUNNING
        if not request.begun:
            refusal = self.store.refusal(self.setting, world, request)
            if refusal is None:
                begun = tuple(sorted((*others, request._replace(begun=True)), key=_by_run))
                yield ("store", "begin", who), world._replace(requests=begun)
                return
            gone = world._replace(requests=others)
            refused = self._tell(gone, request.run, _publish_refused(refusal)) if awaited else gone
            yield ("store", "refuse", f"{who}: {refusal}"), refused
            return
        ref = self.store.installed(self.setting, world, request)
        moved = with_head(world._replace(requests=others), ref)
        yield (
            ("store", "install", f"{who}: {ref}"),
            self._tell(moved, request.run, _published(ref)) if awaited else moved,
        )
        if awaited and world.budget.losses:
            spent = moved._replace(budget=world.budget._replace(losses=world.budget.losses - 1))
            lost = self._tell(spent, request.run, _LOST[c.Publish])
            yield ("store", "install", f"{who}: {ref}, answer lost"), lost

    # -----------------------------------------------------------------------------------------------------------------
    # The orchestrator

    def _orchestrate(self, world: World) -> Moves:
        setting = self.setting
        last = len(world.tasks) - 1
        task = world.tasks[last]
        if task.status is OPEN:
            alive = any(run.task == last and run.fate is RUNNING for run in world.runs)
            if setting.pauses or not alive:
                yield ("orchestrator", "give up", f"t{last}"), with_task(world, last, task._replace(status=TIMED_OUT))
            if world.budget.duplicates:
                spent = world._replace(budget=world.budget._replace(duplicates=world.budget.duplicates - 1))
                yield from self._deliver(spent, last, "deliver again")
        elif task.status is COMPLETED:
            if task.step + 1 < setting.steps:
                yield from self._hand_out(world, Task(task.step + 1, 1, task.ref))
        elif task.number < setting.attempts:
            yield from self._hand_out(world, Task(task.step, task.number + 1, task.input))

    def _hand_out(self, world: World, task: Task) -> Moves:
        yield from self._deliver(world._replace(tasks=(*world.tasks, task)), len(world.tasks), "hand out")

    def _deliver(self, world: World, at: int, what: str) -> Moves:
        """Start an execution. Workspace and body are local: done at once, with each result the setting allows."""
        index = len(world.runs)
        attempt = attempt_of(self.setting, world.tasks[at]._replace(status=OPEN, winner=NOBODY, ref=""), at, index)
        for changed in (True, False):
            if not (self.setting.changes if changed else self.setting.no_ops):
                continue
            state = self.table.start(attempt).state
            for event in (e.WorkspaceReady(), e.BodyDone(attempt.execution, changed)):
                state = self.step(state, event).state
            body = "changed" if changed else "unchanged"
            after = world._replace(runs=(*world.runs, Run(at, RUNNING, state)))
            yield ("orchestrator", what, f"t{at} to e{index} ({body})"), after

    # -----------------------------------------------------------------------------------------------------------------
    # What goes wrong by itself

    def _fail(self, world: World) -> Moves:
        budget = world.budget
        if budget.crashes:
            spent = world._replace(budget=budget._replace(crashes=budget.crashes - 1))
            for index, run in enumerate(world.runs):
                if run.fate is RUNNING:
                    yield ("fault", "crash", f"e{index}"), with_run(spent, index, Run(run.task, DEAD, None))
        if budget.strangers:
            ref = foreign(len(world.strangers), world.head)
            left = budget._replace(strangers=budget.strangers - 1)
            yield (
                ("stranger", "commit", ref),
                with_head(world._replace(budget=left, strangers=(*world.strangers, ref)), ref),
            )
        holder = world.lease[0]
        if holder != NOBODY and (self.setting.pauses or world.runs[holder].fate is not RUNNING):
            yield ("coordination", "expire", f"lease of e{holder}"), world._replace(lease=(NOBODY, False))


def _by_run(request: Request) -> int:
    return request.run


def _unknown(kind: type[Command]) -> Event:
    (unknown,) = kind.answers.unknown
    event: Event = unknown(("something",)) if kind is c.CleanUp else unknown("no answer")
    return event


_ASKED: tuple[type[Command], ...] = (*EFFECTS, c.Publish)
_LOST = {kind: _unknown(kind) for kind in _ASKED if kind.answers.unknown}


@cache
def _published(ref: str) -> Event:
    return e.Published(CommitRef(ref))


@cache
def _publish_refused(reason: str) -> Event:
    return f.PublishRefused(reason)
