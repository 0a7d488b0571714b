"""Sweeps over the open intents of a target, at the same time, while the owner of an intent may still be at work.

Recovery machine, ledger and classifier are the production ones. The owner does what an attempt does with its intent: it
arms it, publishes, reports, confirms, reads its task back, settles. The orchestrator may give the task up at any time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from attrs import frozen

from perago_core import fence, ledger
from perago_core.answers import Answer, Done, NotDone
from perago_core.calls import Call
from perago_core.engine import Table
from perago_core.ledger import Intent, Movement, SettlementKind, TargetIntent
from perago_core.plan import PlanKind, PublishPlan
from perago_core.recovery import RECOVERY, Mode, Recovery, RecoveryKnown, perform
from perago_core.value import Value
from perago_core.values import (
    Attempt,
    Backing,
    Claim,
    Commit,
    CommitRef,
    Head,
    Operation,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
)
from perago_simulation.cluster.model import Cluster, Label, Left, Moves, World
from perago_simulation.cluster.store import Shared, serve
from perago_simulation.cluster.talks import Perform, Answers, Runner, Running, Talks

MAIN, EU = Target("repo", "main"), Target("repo", "main/eu")
INPUT, OURS = CommitRef("a0"), CommitRef("p1")
STAGING = "own"
OWNER = "owner"
_Running = Running[Recovery, RecoveryKnown]


def _commit(ref: str, *parents: str, tree: str = "") -> Commit:
    return Commit(CommitRef(ref), tuple(CommitRef(each) for each in parents), tree or f"tree of {ref}")


#: The input, what the intent publishes on it, what others did: on ours, beside ours, instead of the input, unreadable.
COMMITS: Mapping[str, Commit] = {
    each.ref: each
    for each in (
        _commit("root"), _commit("a0", "root"), _commit("p1", "a0", tree="t1"), _commit("n1", "p1"),
        _commit("x1", "a0"), _commit("u2", "unreadable"),
    )
}  # fmt: skip
#: Heads from which nobody can tell what became of an intent whose task was given up.
ILLEGIBLE = frozenset({"root", "u2"})

TASKS: Mapping[str, TaskSnapshot | None] = {
    "running": TaskSnapshot("w", "t1", 0, TaskStatus.IN_PROGRESS),
    "dead": TaskSnapshot("w", "t1", 0, TaskStatus.TIMED_OUT),
    "ours": TaskSnapshot("w", "t1", 0, TaskStatus.COMPLETED, result_execution="e1", result_ref=OURS),
    "other": TaskSnapshot("w", "t1", 0, TaskStatus.COMPLETED, result_execution="e2", result_ref=CommitRef("x1")),
    "gone": None,
}


class Lake(NamedTuple):
    """The branches, the names on them, the task, and whether a sweep has ever taken a branch back."""

    heads: tuple[tuple[Target, str], ...]
    task: str
    names: frozenset[str] = frozenset({STAGING})
    moved: bool = False


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


def intent_of(targets: tuple[Target, ...], backing: Backing, name: str = "op-1", task: str = "t1") -> Intent:
    """Give the intent of attempt 1: from the input to tree ``t1``, on every target."""
    return Intent(
        operation_id=name, operation=Operation.LOGICAL, workflow_id="w", task_id=task, number=1, execution="e1",
        logical_task="w/step", actor=OWNER, created_at=7, backing=backing,
        targets=tuple(TargetIntent(each, INPUT, CommitRef("c1"), "t1") for each in targets),
    )  # fmt: skip


def owning(intent: Intent) -> Generator[Call, Answer[Any], None]:
    """Do what an attempt does with its intent, and leave the rest to a sweep whenever an answer is not a yes."""
    (target,) = intent.targets
    if not isinstance((yield from ledger.arm(intent)), Done):
        return
    if not isinstance((yield Call("store", "publish", (_plan(intent),))), Done):
        return
    yield Call("orchestrator", "report", ("e1",))
    confirmed = yield from ledger.confirm(intent, {target.target: OURS})
    task = yield Call("orchestrator", "reload", ("w", "t1"))
    if isinstance(task, Done) and task.value.result_execution == "e1":
        stands = confirmed.value if isinstance(confirmed, Done) else intent
        movement = Movement(target.target, INPUT, OURS)
        yield from ledger.settle(stands, SettlementKind.ACCEPTED, (movement,), OWNER, 7)


@cache
def _plan(intent: Intent) -> PublishPlan:
    attempt = Attempt("w", "t1", 0, "w/step", 1, "e1", MAIN, INPUT, intent.backing)
    decided = fence.decide(fence.Case(attempt, StagedRef("repo", STAGING, CommitRef("c1"), "t1"), Head(COMMITS["a0"])))
    assert isinstance(decided, fence.Allowed)
    return decided.plan


class Recoveries(Cluster):
    """Sweeps, and perhaps the owner, who is the last of the processes."""

    def __init__(self, bounds: Bounds, table: Table[Recovery, RecoveryKnown] = RECOVERY, talk: Perform = perform) -> None:
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
        return self._begun(index, said.value.value if isinstance(said.value, Done) else (), ())

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
            answer, lake = self._answer(world.outside, call)
            moved = lake.moved or (lake.heads != world.outside.heads and self.mode(index) is not None)
            yield answer, world._replace(outside=lake._replace(moved=moved))

    def landed(self, world: World, call: Call) -> World:
        """Let a request nobody waits for take effect."""
        index = len(self.bounds.sweeps) if call.method == "publish" and call.args[0].kind is PlanKind.MERGE else 0
        return next(self.serve(world, index, call))[1]

    def _answer(self, lake: Lake, call: Call) -> tuple[Answer[Any], Lake]:
        heads = dict(lake.heads)
        match call.method, call.args:
            case "reload", (_, task_id):
                return Done(TASKS[lake.task] if task_id == "t1" else None), lake
            case "report", _:
                return Done(None), lake._replace(task="ours" if lake.task == "running" else lake.task)
            case "head", (target,):
                return Done(Head(COMMITS[heads[target]]) if target in heads else None), lake
            case "look", (_, ref):
                return Done(COMMITS.get(ref)), lake
            case "claims", (target, logical_task):
                return Done((Claim(target, logical_task, "w", "t1", 1, "e1", INPUT, "t1"),)), lake
            case "open_staging", (_, name, _):
                fresh = name not in lake.names
                return Done(None) if fresh else NotDone("it exists"), lake._replace(names=lake.names | {name})
            case "drop", (_, name):
                return Done(None), lake._replace(names=lake.names - {name})
            case _, (plan,):
                return self._published(lake, heads, plan)
            case _:
                raise AssertionError(call)

    def _published(self, lake: Lake, heads: dict[Target, str], plan: PublishPlan) -> tuple[Answer[Any], Lake]:
        name = STAGING if plan.kind is PlanKind.MERGE else plan.name
        if heads[plan.target] != plan.expected or (name is not None and name not in lake.names):
            return NotDone("the head or the name is another"), lake
        heads[plan.target] = OURS if plan.kind is PlanKind.MERGE else plan.commit
        return Done(CommitRef(heads[plan.target])), lake._replace(heads=tuple(heads.items()))
