"""Sweeps over the open intents of a target, at the same time, while the owner of an intent may still be at work.

Recovery machine, ledger and classifier are the production ones. The owner does what an attempt does with its intent: it
arms it, publishes, reports, confirms, reads its task back, settles. The orchestrator may give the task up at any time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, TypeAlias

from attrs import frozen

from perago_core import ledger
from perago_core.answers import Answer, Done
from perago_core.calls import Call
from perago_core.engine import Table
from perago_core.plan import PlanKind
from perago_core.recovery import RECOVERY, Mode, Recovery, RecoveryKnown, perform
from perago_core.value import Value
from perago_core.values import Backing, Target
from perago_simulation.cluster.lake import EU, MAIN, OURS, OWNER, Lake, intent_of, owning
from perago_simulation.cluster.lake import answer as answer_of
from perago_simulation.cluster.model import Cluster, Label, Left, Moves, World
from perago_simulation.cluster.store import Shared, serve
from perago_simulation.cluster.talks import Answers, Perform, Runner, Running, Talks

_Running: TypeAlias = Running[Recovery, RecoveryKnown]


class Sweep(NamedTuple):
    """One sweep: the operations it has found and not begun, the one it is at, and those it leaves unresolved."""

    waiting: tuple[str, ...] | None = None
    running: _Running | None = None
    answers: Answers = ()
    ended: tuple[_Running, ...] = ()
    dead: bool = False


@frozen(repr=False)
class Bounds(Value):
    """Who sweeps what, how the world begins, and how much goes wrong.

    ``begins`` are pairs of what the orchestrator says and where each target's head is. ``blocked`` adds an intent whose
    task nobody knows: it can never be decided. With an ``owner`` the intent is not armed yet.
    """

    sweeps: tuple[tuple[Target, Mode], ...]
    begins: tuple[tuple[str, tuple[str, ...]], ...]
    confirmed: bool = False
    owner: bool = False
    blocked: Target | None = None
    backing: Backing = Backing.CONDITIONAL
    faults: int = 0
    crashes: int = 0


class Recoveries(Cluster):
    """Sweeps, and perhaps the owner, who is the last of the processes."""

    def __init__(
        self, bounds: Bounds, table: Table[Recovery, RecoveryKnown] = RECOVERY, talk: Perform = perform
    ) -> None:
        names = tuple(f"s{index}" for index in range(len(bounds.sweeps)))
        super().__init__((*names, OWNER) if bounds.owner else names)
        self.bounds = bounds
        self.talk = talk
        self.runner = Runner(table, talk)
        self.targets = (MAIN, EU)[: len(bounds.begins[0][1])]
        self.intent = intent_of(self.targets, bounds.backing)
        self._talks = Talks()
        self._healers: dict[Target, Recoveries] = {}
        self._swept: dict[tuple[Shared, Lake, Target], tuple[World, Sweep]] = {}

    def beginnings(self) -> Iterator[World]:
        """An intent was left open, or its owner is about to arm it."""
        for task, heads in self.bounds.begins:
            lake = Lake(tuple(zip(self.targets, heads, strict=True)), task)
            processes = (*(Sweep() for _ in self.bounds.sweeps), *((Sweep(),) if self.bounds.owner else ()))
            world = World(Shared(), lake, processes, Left(self.bounds.faults, self.bounds.crashes))
            if not self.bounds.owner:
                world = self._carried(world, ledger.arm(self.intent))
            if self.bounds.confirmed:
                world = self._carried(world, ledger.confirm(self.intent, dict.fromkeys(self.targets, OURS)))
            if self.bounds.blocked is not None:
                stuck = intent_of((self.bounds.blocked,), self.bounds.backing, "op-0", "t0")
                world = self._carried(world, ledger.arm(stuck))
            yield world

    def _carried(self, world: World, talk: Generator[Call, Answer[Any], Any]) -> World:
        try:
            call = next(talk)
            while True:
                ((answer, world),) = self.serve(world, 0, call)
                call = talk.send(answer)
        except StopIteration:
            return world

    def mode(self, index: int) -> Mode | None:
        """Give how far a process may go; the owner is no sweep."""
        return self.bounds.sweeps[index][1] if index < len(self.bounds.sweeps) else None

    def swept(self, world: World, target: Target) -> tuple[World, Sweep]:
        """Sweep once more, alone, only settling, with nothing going wrong; give the world and the sweep then."""
        key = (world.shared, world.outside, target)
        if key not in self._swept:
            alone = Bounds(((target, Mode.SETTLE_ONLY),), self.bounds.begins)
            healer = self._healers.setdefault(target, Recoveries(alone, self.runner.table, talk=self.talk))
            at = World(world.shared, world.outside, (Sweep(),))
            while (call := healer.call(at, 0)) is not None:
                ((answer, after),) = healer.serve(at, 0, call)
                at = after.with_process(0, healer.answered(at, 0, answer))
            self._swept[key] = at, at.processes[0]
        return self._swept[key]

    # -----------------------------------------------------------------------------------------------------------------
    # What a process does

    def call(self, world: World, index: int) -> Call | None:
        """Give the next call: of listing, of the machine, or of the owner."""
        sweep: Sweep = world.processes[index]
        if sweep.dead:
            return None
        if index == len(self.bounds.sweeps):
            found = self._talks.next(OWNER, sweep.answers, lambda: owning(self.intent))
            return found if isinstance(found, Call) else None
        if sweep.waiting is None:
            return self._listing(index, sweep.answers)
        return None if sweep.running is None else self.runner.call(sweep.running)

    def _listing(self, index: int, answers: Answers) -> Call | None:
        target = self.bounds.sweeps[index][0]
        found = self._talks.next(target, answers, lambda: ledger.list_open(target))
        return found if isinstance(found, Call) else None

    def answered(self, world: World, index: int, answer: Answer[Any]) -> Sweep:
        """Go on: to the next operation when one is at its end."""
        sweep: Sweep = world.processes[index]
        if index == len(self.bounds.sweeps):
            return sweep._replace(answers=(*sweep.answers, answer))
        if sweep.waiting is None:
            return self._listed(index, (*sweep.answers, answer))
        assert sweep.running is not None
        running = self.runner.answer(sweep.running, answer)
        if not self.runner.table.is_terminal(running.state):
            return sweep._replace(running=running)
        return self._begun(index, sweep.waiting, (*sweep.ended, running))

    def _listed(self, index: int, answers: Answers) -> Sweep:
        if self._listing(index, answers) is not None:
            return Sweep(answers=answers)
        target = self.bounds.sweeps[index][0]
        said = self._talks.next(target, answers, lambda: ledger.list_open(target))
        assert not isinstance(said, Call)
        listed: Answer[tuple[str, ...]] = said.value
        return self._begun(index, listed.value if isinstance(listed, Done) else (), ())

    def _begun(self, index: int, waiting: tuple[str, ...], ended: tuple[_Running, ...]) -> Sweep:
        if not waiting:
            return Sweep((), ended=ended)
        target, mode = self.bounds.sweeps[index]
        name = self.names[index]
        grounds = "the lock" if mode is Mode.EXCLUSIVE else ""
        running = self.runner.begin(Recovery(waiting[0], target, mode, name, index, grounds))
        return Sweep(waiting[1:], running, ended=ended)

    def mortal(self, world: World, index: int) -> bool:
        """Whoever still has a call to make can die."""
        return self.call(world, index) is not None

    def died(self, world: World, index: int) -> World:
        """Nobody starts it again; the next sweep is another one."""
        return world.with_process(index, Sweep(dead=True))

    def own_moves(self, world: World, index: int) -> Moves:
        """Nothing happens between calls."""
        del world, index
        return iter(())

    # -----------------------------------------------------------------------------------------------------------------
    # What surrounds them

    def surroundings(self, world: World) -> Moves:
        """The orchestrator gives an open task up."""
        lake: Lake = world.outside
        if lake.task == "running" and self.bounds.owner:
            yield Label("orchestrator", "gives up"), world._replace(outside=lake._replace(task="dead"))

    def serve(self, world: World, index: int, call: Call) -> Iterator[tuple[Answer[Any], World]]:
        """Answer from the branches, the task, or the coordination store."""
        if call.port == "coordination":
            answer, shared = serve(world.shared, call)
            yield answer, world._replace(shared=shared)
        else:
            answer, lake = answer_of(world.outside, call)
            moved = lake.moved or (lake.heads != world.outside.heads and self.mode(index) is not None)
            yield answer, world._replace(outside=lake._replace(moved=moved))

    def landed(self, world: World, call: Call) -> World:
        """Let a request nobody waits for take effect."""
        index = len(self.bounds.sweeps) if call.method == "publish" and call.args[0].kind is PlanKind.MERGE else 0
        return next(self.serve(world, index, call))[1]
