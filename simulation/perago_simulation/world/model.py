"""The model: a setting, a store and the attempt's table, and everything that can happen next in a world.

Each move is a label (who, what, about what) and the world after it. Executions run the table they are given, which is
the production table unless somebody explores a mutant; what a command does to the world is in ``effects``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias

from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, AttemptState, Known, Phase
from perago_core.attempt import messages as m
from perago_core.machine.engine import Table
from perago_core.machine.rows import Step
from perago_core.values import Attempt
from perago_simulation.machines.conversations import Conversations
from perago_simulation.world import bodies, strangers
from perago_simulation.world.effects import (
    EFFECTS,
    LOST,
    accepted_head,
    begins_at,
    newest_maintained,
    published,
    refused,
)
from perago_simulation.world.faults import rare_moves, rare_of
from perago_simulation.world.history import ROOT
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import (
    COMPLETED,
    DEAD,
    ENDED,
    FAILED_FOR_GOOD,
    NOBODY,
    OPEN,
    RUNNING,
    TIMED_OUT,
    Budget,
    Lease,
    Request,
    Run,
    Task,
    World,
    attempt_of,
    by_run,
    epoch_of,
    maintains,
    one_less,
    restarted,
    with_budget,
    with_head,
    with_rare,
    with_run,
    with_task,
)
from perago_simulation.world.store import Store
from perago_simulation.world.strangers import Label, Move, Moves
from perago_simulation.world.troubles import TROUBLES, troubles

__all__ = ["Label", "Model", "Move", "Moves", "Part"]

#: Somebody who can move: an execution, the store, the orchestrator.
Part: TypeAlias = Callable[[World], Moves]


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
        #: The rows of the table that have fired so far.
        self.fired: set[str] = set()
        #: What recoveries have said so far.
        self.talks = Conversations()
        self.step = lru_cache(maxsize=None)(self._fire)
        # Asked of the setting: a step that asked the world would depend on more than its own execution.
        self._troubled = any(getattr(setting, name) for name in TROUBLES)

    def beginnings(self) -> Moves:
        """Return the worlds a run starts from: the first attempt handed out, with each body it may have."""
        setting = self.setting
        budget = Budget(setting.crashes, setting.losses, setting.duplicates, setting.strangers)
        nobody = (NOBODY,) * (setting.steps * setting.workflows)
        empty = World(ROOT, (), (), nobody, (), (), (), Lease(), (), (), budget, rare_of(setting))
        yield from self.hand_out(empty, Task(0, 1, ROOT))

    def moves(self, world: World) -> Moves:
        """Give everything that can happen next."""
        for part in self.parts(len(world.runs)):
            yield from part(world)

    def parts(self, runs: int) -> tuple[Part, ...]:
        """Give who moves, one by one, in a world with this many executions.

        What a part does depends on nothing but what it reads of the world, and each reads little; ``memo`` rests on
        that. So a part asks the world for the fields it needs and changes it with ``_replace``.
        """
        executions = (partial(self._execution, index) for index in range(runs))
        return (*executions, self._requests, self._orchestrate, self._fail, self._rarely)

    def at_rest(self, world: World) -> bool:
        """Return whether nothing is left to do: nobody works, nothing is on its way, and nothing more is handed out."""
        if world.requests or any(run.fate is RUNNING for run in world.runs):
            return False
        if world.rare is not None and world.rare.held:
            return False
        return self.has_ended(world)

    def has_ended(self, world: World) -> bool:
        """Return whether the orchestrator has nothing more to hand out or to give up by itself."""
        return next(self._orchestrate(world), None) is None

    # -----------------------------------------------------------------------------------------------------------------
    # Executions

    def _execution(self, index: int, world: World) -> Moves:
        run = world.runs[index]
        if run.fate is RUNNING:
            yield from self._work(world, index, run)
            if self._troubled:
                yield from troubles(self, world, index, run)

    def _work(self, world: World, index: int, run: Run) -> Moves:
        assert run.state is not None
        (command,) = run.state.pending
        who, kind = f"e{index}", type(command)
        if isinstance(command, m.Publish):
            yield from self._send(world, index, command)
            return
        after = world
        if isinstance(command, m.RunBody | m.ResumeBody):
            for about, answered in bodies.played(self.setting, run.state):
                yield (who, kind.__name__, about), self.tell(world, index, answered)
        elif isinstance(command, m.PrepareWorkspace) and not self.setting.bodies:
            # One that looks for earlier attempts first comes to its body by a move; nothing of that can go wrong here.
            ready = self.tell(world, index, m.WorkspaceReady())
            for body, ended in bodies.ended(self.setting, run.state.subject):
                yield (who, m.RunBody.__name__, body), self.tell(ready, index, ended)
            return
        else:
            after, event = EFFECTS[kind](self.setting, world, index, command)
            yield (who, kind.__name__, type(event).__name__), self.tell(after, index, event)
        if isinstance(command, m.CommitStaging) and self.setting.bodies and self.setting.no_ops and after is not world:
            yield (who, kind.__name__, m.NothingStaged.__name__), self.tell(world, index, m.NothingStaged())
        if world.budget.losses and command.answers.unknown:
            spent = one_less(world.budget, "losses")
            lost = LOST[kind]
            yield (who, kind.__name__, "dropped"), self.tell(with_budget(world, spent), index, lost)
            if after is not world:
                landed = with_budget(after, spent)
                yield (who, kind.__name__, "landed, answer lost"), self.tell(landed, index, lost)

    def start(self, attempt: Attempt) -> AttemptState:
        """Return where an execution of an attempt begins."""
        return self.table.start(attempt).state

    def _fire(self, state: AttemptState, event: Event) -> Step[Attempt, Known]:
        row, after, commands = self.table.fire(state, event)
        self.fired.add(row.id)
        return Step(after, commands)

    def tell(self, world: World, index: int, event: Event) -> World:
        """Let an execution learn an event and wait for what it asks next."""
        run = world.runs[index]
        assert run.state is not None
        state = self.step(run.state, event).state
        if state.phase is Phase.DONE:
            return with_run(world, index, Run(run.task, ENDED, None))
        return with_run(world, index, Run(run.task, RUNNING, state))

    def _send(self, world: World, index: int, command: m.Publish) -> Moves:
        """Send a publication; once it is sent, the sender may stop waiting for it while it is on its way."""
        who = f"e{index}"
        if not any(request.run == index for request in world.requests):
            requests = tuple(sorted((*world.requests, Request(index, command.plan)), key=by_run))
            yield (who, "Publish", command.plan.kind.value), world._replace(requests=requests)
        elif world.budget.losses:
            requests = tuple(each._replace(awaited=False) if each.run == index else each for each in world.requests)
            gone = world._replace(requests=requests, budget=one_less(world.budget, "losses"))
            yield (who, "Publish", "stops waiting"), self.tell(gone, index, LOST[m.Publish])

    # -----------------------------------------------------------------------------------------------------------------
    # The store, carrying out publications in two phases

    def _requests(self, world: World) -> Moves:
        for at, request in enumerate(world.requests):
            yield from self._publish(world, at, request)

    def _publish(self, world: World, at: int, request: Request) -> Moves:
        others = (*world.requests[:at], *world.requests[at + 1 :])
        # Two of one sender differ in who waits for them, and different moves must have different labels.
        copied = world.rare is not None and request.awaited and any(each.run == request.run for each in others)
        who = f"e{request.run} (copy)" if copied else f"e{request.run}"
        awaited = request.awaited and world.runs[request.run].fate is RUNNING
        if not request.begun:
            refusal = self.store.refusal(self.setting, world, request)
            if refusal is None:
                on = world.head if self.setting.store.overwrites else ""
                begun = tuple(sorted((*others, request._replace(begun=True, on=on)), key=by_run))
                yield ("store", "begin", who), world._replace(requests=begun)
                return
            gone = world._replace(requests=others)
            after = self.tell(gone, request.run, refused(refusal)) if awaited else gone
            yield ("store", "refuse", f"{who}: {refusal}"), after
            return
        read = world._replace(head=request.on) if request.on else world
        ref = self.store.installed(self.setting, read, request)
        moved = with_head(world._replace(requests=others), ref)
        if world.rare is not None and request.plan.commit in world.rare.hollow:
            moved = with_rare(moved, hollow=tuple(sorted({*world.rare.hollow, ref})))
        yield (
            ("store", "install", f"{who}: {ref}"),
            self.tell(moved, request.run, published(ref)) if awaited else moved,
        )
        if awaited and world.budget.losses:
            spent = with_budget(moved, one_less(world.budget, "losses"))
            lost = self.tell(spent, request.run, LOST[m.Publish])
            yield ("store", "install", f"{who}: {ref}, answer lost"), lost

    # -----------------------------------------------------------------------------------------------------------------
    # The orchestrator

    def _orchestrate(self, world: World) -> Moves:
        last = len(world.tasks) - 1
        if not self.setting.abreast:
            for newest in self._lines(world, last):
                yield from self._go_on(world, newest)
            return
        workflows = [task.step // self.setting.steps for task in world.tasks]
        for workflow in range(max(workflows) + 1):
            newest = max(index for index, each in enumerate(workflows) if each == workflow)
            for line in self._lines(world, newest):
                yield from self._go_on(world, line)
        yield from self._start_next(world, max(workflows) + 1)

    def _lines(self, world: World, last: int) -> tuple[int, ...]:
        """Return the newest task of each line of this one's step; where no step is scheduled twice there is one."""
        if not self.setting.twins:
            return (last,)
        step = world.tasks[last].step
        return tuple({task.line: index for index, task in enumerate(world.tasks) if task.step == step}.values())

    def another(self, world: World, task: Task) -> Task:
        """Return the next attempt of a task, newer than every other one of its step."""
        newest = max(each.number for each in world.tasks if each.step == task.step)
        # Maintenance begins from where accepted maintenance has led, for before that it could not be published.
        source = newest_maintained(self.setting, world, task.input) if maintains(self.setting, task) else task.input
        if self.setting.scopes:
            first = next(each.input for each in world.tasks if each.step == task.step)
            source = begins_at(self.setting, world, task.step, first)
        return Task(task.step, newest + 1, source, line=task.line)

    def _go_on(self, world: World, last: int) -> Moves:
        """Go on with a workflow whose newest task this is."""
        setting = self.setting
        task = world.tasks[last]
        if world.rare is not None and world.rare.terminated:
            yield from self._follow(with_rare(world, terminated=False), task)
        elif task.status is OPEN:
            alive = any(run.task == last and run.fate is RUNNING for run in world.runs)
            if setting.pauses or not alive:
                yield ("orchestrator", "give up", f"t{last}"), with_task(world, last, task._replace(status=TIMED_OUT))
            if world.budget.duplicates:
                spent = with_budget(world, one_less(world.budget, "duplicates"))
                yield from self.deliver(spent, last, "deliver again")
        elif task.status is COMPLETED and (task.step + 1) % setting.steps:
            source = begins_at(setting, world, task.step + 1, task.ref) if setting.scopes else task.ref
            yield from self.hand_out(world, Task(task.step + 1, 1, source))
        elif task.status not in {COMPLETED, FAILED_FOR_GOOD} and self._tried(world, task) < setting.attempts:
            yield from self.hand_out(world, self.another(world, task))
        else:
            yield from self._follow(world, task)

    def _follow(self, world: World, last: Task) -> Moves:
        """Start the next workflow after one that has ended; side by side, nobody waits for that."""
        if not self.setting.abreast:
            yield from self._start_next(world, last.step // self.setting.steps + 1)

    def _start_next(self, world: World, workflow: int) -> Moves:
        """Start the next workflow, if there is one, from where the head is once nothing of the past can move it.

        Whoever starts one revokes the names of every task that has ended, passes the barrier and only then reads the
        head. In sequence nobody acts for a task that has not ended, so no name is left.
        """
        if workflow < self.setting.workflows:
            able = self.setting.store
            quiet, first = world, workflow * self.setting.steps
            if able.revocable_names and self.setting.pinned:
                quiet = world._replace(names=self._names_in_use(world))
            # An atomic store checks the name in the step that moves the branch: what was begun under it begins again.
            waits = (able.barrier or able.conditional_claim) and self.setting.pinned
            pinned = restarted(quiet) if waits else quiet
            yield from self.hand_out(pinned, Task(first, 1, self.pin(pinned, first)))

    def pin(self, world: World, step: int, /) -> str:
        """Return what a workflow starts from: the head, or on a shared branch the newest accepted commit."""
        return accepted_head(self.setting, world, step) if self.setting.scopes else world.head

    def _names_in_use(self, world: World) -> tuple[tuple[int, str], ...]:
        if not self.setting.abreast:
            return ()
        return tuple(each for each in world.names if world.tasks[world.runs[each[0]].task].status is OPEN)

    def _tried(self, world: World, task: Task) -> int:
        """Count the attempts of a task's line; where there is one line, the newest one's number says it."""
        if not self.setting.twins:
            return task.number
        return sum((each.step, each.line) == (task.step, task.line) for each in world.tasks)

    def hand_out(self, world: World, task: Task, what: str = "hand out") -> Moves:
        """Hand a new task out."""
        yield from self.deliver(world._replace(tasks=(*world.tasks, task)), len(world.tasks), what)

    def deliver(self, world: World, at: int, what: str) -> Moves:
        """Start an execution. Workspace and body are local: unless the setting says otherwise they are done at once."""
        index = len(world.runs)
        task = world.tasks[at]._replace(status=OPEN, winner=NOBODY, ref="")
        attempt = attempt_of(self.setting, task, at, index, epoch_of(world))
        begun = self.start(attempt)
        if self.setting.bodies or begun.phase is not Phase.WORKSPACE:
            after = world._replace(runs=(*world.runs, Run(at, RUNNING, begun)))
            yield ("orchestrator", what, f"t{at} to e{index}"), after
            return
        ready = self.step(begun, m.WorkspaceReady()).state
        for body, event in bodies.ended(self.setting, attempt):
            after = world._replace(runs=(*world.runs, Run(at, RUNNING, self.step(ready, event).state)))
            yield ("orchestrator", what, f"t{at} to e{index} ({body})"), after

    # -----------------------------------------------------------------------------------------------------------------
    # What goes wrong by itself

    def _fail(self, world: World) -> Moves:
        budget = world.budget
        if budget.crashes:
            spent = with_budget(world, one_less(budget, "crashes"))
            for index, run in enumerate(world.runs):
                if run.fate is RUNNING:
                    yield ("fault", "crash", f"e{index}"), with_run(spent, index, Run(run.task, DEAD, None))
        if budget.strangers:
            yield from strangers.commit(with_budget(world, one_less(budget, "strangers")))
        holder = world.lease.holder
        if holder != NOBODY and (self.setting.pauses or world.runs[holder].fate is not RUNNING):
            yield ("coordination", "expire", f"lease of e{holder}"), world._replace(lease=Lease(clean=False))

    def _rarely(self, world: World) -> Moves:
        if world.rare is not None:
            yield from rare_moves(self, world)
