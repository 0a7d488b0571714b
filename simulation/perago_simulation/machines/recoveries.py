"""Sweeps over the open intents of a target, at the same time, while the owner of an intent may still be at work.

Recovery machine, ledger and classifier are the production ones. The owner does what an attempt does with its intent: it
arms it, publishes, reports, confirms, reads its task back, settles. The orchestrator may give the task up at any time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from attrs import frozen

from perago_core import ledger
from perago_core.answers import Answer, Done
from perago_core.calls import Call
from perago_core.ledger import Audit, Intent, IntentState, Settlement, SettlementKind
from perago_core.ledger.records import audit_key, intent_key, open_key, prepared_key, settled_key
from perago_core.machine import codec
from perago_core.machine.engine import Table
from perago_core.plan import PlanKind
from perago_core.recovery import RECOVERY, Mode, Recovery, RecoveryKnown, perform
from perago_core.value import Value
from perago_core.values import Backing, Target
from perago_simulation.machines.conversations import Answers, Conversations, Perform, Runner, Running
from perago_simulation.machines.lake import (
    COMMITS,
    EU,
    ILLEGIBLE,
    INPUT,
    MAIN,
    OURS,
    OWNER,
    STAGING,
    LakeState,
    intent_of,
    owning,
)
from perago_simulation.machines.lake import answer as answer_of
from perago_simulation.machines.model import Cluster, ClusterWorld, Label, Left, Moves
from perago_simulation.machines.search import Promise
from perago_simulation.machines.store import Shared, serve
from perago_simulation.properties.safety import When

_Running: TypeAlias = Running[Recovery, RecoveryKnown]


class Sweep(NamedTuple):
    """One sweep: the operations it has found and not begun, the one it is at, and those it leaves unresolved."""

    waiting: tuple[str, ...] | None = None
    running: _Running | None = None
    answers: Answers = ()
    ended: tuple[_Running, ...] = ()
    dead: bool = False


@frozen(repr=False)
class RecoveryBounds(Value):
    """Who sweeps what, how the world begins, and how much goes wrong.

    ``begins`` are pairs of what the orchestrator says and where each target's head is. ``blocked`` adds an intent whose
    task nobody knows, while what looks like its commit is there: only a person can decide it. With an ``owner`` the
    intent is not armed yet.
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
        self, bounds: RecoveryBounds, table: Table[Recovery, RecoveryKnown] = RECOVERY, talk: Perform = perform
    ) -> None:
        names = tuple(f"s{index}" for index in range(len(bounds.sweeps)))
        super().__init__((*names, OWNER) if bounds.owner else names)
        self.bounds = bounds
        self.talk = talk
        self.runner = Runner(table, talk)
        self.targets = (MAIN, EU)[: len(bounds.begins[0][1])]
        self.intent = intent_of(self.targets, bounds.backing)
        self._talks = Conversations()
        self._healers: dict[Target, Recoveries] = {}
        self._swept: dict[tuple[Shared, LakeState, Target], tuple[ClusterWorld, Sweep]] = {}

    def beginnings(self) -> Iterator[ClusterWorld]:
        """An intent was left open, or its owner is about to arm it."""
        for task, heads in self.bounds.begins:
            lake = LakeState(tuple(zip(self.targets, heads, strict=True)), task)
            processes = (*(Sweep() for _ in self.bounds.sweeps), *((Sweep(),) if self.bounds.owner else ()))
            world = ClusterWorld(Shared(), lake, processes, Left(self.bounds.faults, self.bounds.crashes))
            if not self.bounds.owner:
                world = self._carried(world, ledger.arm(self.intent))
            if self.bounds.confirmed:
                world = self._carried(world, ledger.confirm(self.intent, dict.fromkeys(self.targets, OURS)))
            if self.bounds.blocked is not None:
                stuck = intent_of((self.bounds.blocked,), self.bounds.backing, "op-0", "t0")
                world = self._carried(world, ledger.arm(stuck))
            yield world

    def _carried(self, world: ClusterWorld, talk: Generator[Call, Answer[Any], Any]) -> ClusterWorld:
        try:
            call = next(talk)
            while True:
                ((answer, world),) = self.serve(world, 0, call)
                call = talk.send(answer)
        except StopIteration:
            return world

    def mode(self, index: int) -> Mode | None:
        """Return how far a process may go; the owner is no sweep."""
        return self.bounds.sweeps[index][1] if index < len(self.bounds.sweeps) else None

    def swept(self, world: ClusterWorld, target: Target) -> tuple[ClusterWorld, Sweep]:
        """Sweep once more, alone and undisturbed, keeping what is unaccepted; give the world and the sweep then."""
        key = (world.shared, world.outside, target)
        if key not in self._swept:
            alone = RecoveryBounds(((target, Mode.KEEP),), self.bounds.begins)
            healer = self._healers.setdefault(target, Recoveries(alone, self.runner.table, talk=self.talk))
            at = ClusterWorld(world.shared, world.outside, (Sweep(),))
            while (call := healer.call(at, 0)) is not None:
                ((answer, after),) = healer.serve(at, 0, call)
                at = after.with_process(0, healer.answered(at, 0, answer))
            self._swept[key] = at, at.processes[0]
        return self._swept[key]

    # -----------------------------------------------------------------------------------------------------------------
    # What a process does

    def call(self, world: ClusterWorld, index: int) -> Call | None:
        """Return the next call: of listing, of the machine, or of the owner."""
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

    def answered(self, world: ClusterWorld, index: int, answer: Answer[Any]) -> Sweep:
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
        grounds = "" if mode in {Mode.PROBE, Mode.SETTLE_ONLY} else "a reason"
        running = self.runner.begin(Recovery(waiting[0], target, mode, name, index, grounds))
        return Sweep(waiting[1:], running, ended=ended)

    def mortal(self, world: ClusterWorld, index: int) -> bool:
        """Whoever still has a call to make can die."""
        return self.call(world, index) is not None

    def died(self, world: ClusterWorld, index: int) -> ClusterWorld:
        """Nobody starts it again; the next sweep is another one."""
        return world.with_process(index, Sweep(dead=True))

    def own_moves(self, world: ClusterWorld, index: int) -> Moves:
        """Nothing happens between calls."""
        del world, index
        return iter(())

    # -----------------------------------------------------------------------------------------------------------------
    # What surrounds them

    def surroundings(self, world: ClusterWorld) -> Moves:
        """The orchestrator gives an open task up."""
        lake: LakeState = world.outside
        if lake.task == "running" and self.bounds.owner:
            yield Label("orchestrator", "gives up"), world._replace(outside=lake._replace(task="dead"))

    def serve(self, world: ClusterWorld, index: int, call: Call) -> Iterator[tuple[Answer[Any], ClusterWorld]]:
        """Answer from the branches, the task, or the coordination store."""
        if call.port == "coordination":
            answer, shared = serve(world.shared, call)
            yield answer, world._replace(shared=shared)
        else:
            answer, lake = answer_of(world.outside, call)
            moved = lake.moved or (lake.heads != world.outside.heads and self.mode(index) is not None)
            yield answer, world._replace(outside=lake._replace(moved=moved))

    def landed(self, world: ClusterWorld, call: Call) -> ClusterWorld:
        """Let a request nobody waits for take effect."""
        index = len(self.bounds.sweeps) if call.method == "publish" and call.args[0].kind is PlanKind.MERGE else 0
        return next(self.serve(world, index, call))[1]


# What must hold of sweeps and of who they sweep after: S-19 to S-22, L-06 to L-08.


OPERATION = "op-1"
_ACCEPTED = (SettlementKind.ACCEPTED, SettlementKind.ROLLED_FORWARD)
#: What the orchestrator must have said for a kind of settlement.
_TASK = {
    SettlementKind.ACCEPTED: ("ours",),
    SettlementKind.ROLLED_FORWARD: ("ours",),
    SettlementKind.ACCEPTED_LOST: ("ours",),
    SettlementKind.SUPPRESSED: ("other",),
    SettlementKind.NOT_PUBLISHED: ("dead", "gone"),
    SettlementKind.ABANDONED: ("dead",),
    SettlementKind.ROLLED_BACK: ("dead",),
    SettlementKind.SUPERSEDED: ("dead", "gone"),
}

_loads = cache(codec.loads)


def settlement(shared: Shared) -> Settlement | None:
    """Return the settlement that stands."""
    text = shared.value(settled_key(OPERATION))
    return None if text is None else _loads(text, Settlement)


def _new(before: ClusterWorld, after: ClusterWorld) -> Settlement | None:
    return settlement(after.shared) if settlement(before.shared) is None else None


def published_on(lake: LakeState) -> frozenset[Target]:
    """Return the targets whose history has our commit."""
    return frozenset(target for target, head in lake.heads if OURS in {head, *COMMITS[head].parents})


def _for_what_it_is(_recoveries: Recoveries, before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    new = _new(before, after)
    if new is None:
        return None
    lake: LakeState = after.outside
    if lake.task not in _TASK[new.kind]:
        return f"settled as {new.kind.value}, and the task is {lake.task}"
    if new.kind in _ACCEPTED and not published_on(lake):
        return f"settled as {new.kind.value}, and it is on no branch"
    if new.kind is SettlementKind.NOT_PUBLISHED and lake.moved:
        return "settled as not published, and it was published and taken back"
    return None


def _fits_the_branches(recoveries: Recoveries, before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    """Judge what recovery wrote by what is on the branches. Only a rollback moves them meanwhile, so it is known."""
    new = _new(before, after)
    lake: LakeState = after.outside
    if new is None or recoveries.bounds.owner:
        return None
    there = published_on(lake)
    heads = {head for _, head in lake.heads}
    fits = {
        SettlementKind.ROLLED_FORWARD: there == frozenset(recoveries.targets),
        SettlementKind.ACCEPTED_LOST: there != frozenset(recoveries.targets) and "u2" not in heads,
        SettlementKind.NOT_PUBLISHED: heads == {INPUT},
        SettlementKind.ABANDONED: lake.moved or (heads <= {INPUT, OURS} and bool(there)),
        SettlementKind.SUPERSEDED: bool(heads - {INPUT, OURS}) and not heads & ILLEGIBLE,
        SettlementKind.ROLLED_BACK: lake.moved,
    }
    where = ", ".join(sorted(heads))
    return None if fits.get(new.kind, True) else f"settled as {new.kind.value}, and the heads are at {where}"


def _never_lands(_recoveries: Recoveries, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    stands = settlement(after.shared)
    if stands is None or stands.kind is not SettlementKind.NOT_PUBLISHED or not published_on(after.outside):
        return None
    return "settled as not published, and it is on the branch"


def _together(recoveries: Recoveries, before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    new = _new(before, after)
    if new is None:
        return None
    if tuple(each.target for each in new.movements) != recoveries.targets:
        return "the settlement does not name every target"
    there = published_on(after.outside)
    if new.kind in _ACCEPTED and there != frozenset(recoveries.targets):
        return f"settled as {new.kind.value}, and it is not on every target"
    if new.kind is SettlementKind.ROLLED_BACK and there:
        return "settled as rolled back, and it is still on a target"
    return None


def _monotone(_recoveries: Recoveries, before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    for key in (settled_key(OPERATION), audit_key(OPERATION)):
        if before.shared.value(key) not in {None, after.shared.value(key)}:
            return f"what stands at {key} has changed"
    was, now = before.shared.value(intent_key(OPERATION)), after.shared.value(intent_key(OPERATION))
    if was is not None and now is not None and was != now and _loads(now, Intent).state is IntentState.ARMED:
        return "a confirmed intent is armed again"
    return None


def _gone_for_good(_recoveries: Recoveries, before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    key = intent_key(OPERATION)
    settled = settlement(before.shared) is not None
    back = settled and before.shared.value(key) is None and after.shared.value(key) is not None
    return "the record of a settled intent is back, and no sweep will find it" if back else None


def _one_audit(_recoveries: Recoveries, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    stands, text = settlement(after.shared), after.shared.value(audit_key(OPERATION))
    if text is not None and (stands is None or _loads(text, Audit).kind is not stands.kind):
        return "the audit record says another kind than the settlement"
    if stands is not None and text is None and after.shared.value(intent_key(OPERATION)) is None:
        return "the intent is closed, and there is no audit record"
    return None


def _untouched(recoveries: Recoveries, before: ClusterWorld, label: Label, after: ClusterWorld) -> str | None:
    if _new(before, after) is not None and after.outside.task == "running":
        return "settled while the task is open"
    if label.actor not in recoveries.names:
        return None
    mode = recoveries.mode(recoveries.names.index(label.actor))
    moves = before.outside.heads != after.outside.heads
    dropped = before.outside.names - after.outside.names
    if mode in {Mode.SETTLE_ONLY, Mode.KEEP, Mode.PROBE} and (moves or after.outside.names - before.outside.names):
        return f"{label.actor} may not move anything and did"
    if mode is Mode.PROBE and (dropped or before.shared != after.shared):
        return f"{label.actor} may only look and wrote"
    if mode is not None and STAGING in dropped and before.outside.task == "running":
        return f"{label.actor} took the name of a task that is open"
    return None


def _dead_only(recoveries: Recoveries, before: ClusterWorld, label: Label, after: ClusterWorld) -> str | None:
    """Judge an exclusive move: the task must be dead, and only our own commit may leave a branch."""
    if label.actor not in recoveries.names or recoveries.mode(recoveries.names.index(label.actor)) is None:
        return None
    for (target, was), (_, now) in zip(before.outside.heads, after.outside.heads, strict=True):
        if was != now and (before.outside.task != "dead" or was != OURS):
            return f"{label.actor} takes {target} back from {was}, and the task is {before.outside.task}"
    return None


def _settled_in_the_end(
    recoveries: Recoveries, _before: ClusterWorld, _label: Label, after: ClusterWorld
) -> str | None:
    lake: LakeState = after.outside
    heads = {head for _, head in lake.heads}
    illegible = heads & ILLEGIBLE and lake.task == "dead"
    unreadable = lake.task == "ours" and "u2" in heads
    undecided = lake.task == "gone" and (recoveries.bounds.confirmed or not heads <= {INPUT, "x1"})
    if lake.task == "running" or undecided or illegible or unreadable:
        return None
    left: list[str] = []
    for target in recoveries.targets:
        if after.shared.value(open_key(target, OPERATION)) is not None:
            then, _ = recoveries.swept(after, target)
            keys = (open_key(target, OPERATION), intent_key(OPERATION), prepared_key(OPERATION))
            left += [key for key in keys if then.shared.value(key) is not None]
            if then.shared.value(audit_key(OPERATION)) is None:
                left.append("no audit record")
            if settlement(after.shared) not in {None, settlement(then.shared)}:
                left.append("another settlement")
    return f"one more sweep leaves {', '.join(left)}" if left else None


def _all_end(recoveries: Recoveries, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    waiting = [name for index, name in enumerate(recoveries.names) if recoveries.call(after, index) is not None]
    if waiting:
        return f"{' and '.join(waiting)} never end"
    alone = after.left == next(recoveries.beginnings()).left
    settled = settlement(after.shared) is not None
    if alone and settled and after.shared.value(audit_key(OPERATION)) is None:
        return "every sweep has ended, nothing went wrong, and there is no audit record"
    return None


def _own_targets_only(recoveries: Recoveries, _before: ClusterWorld, label: Label, after: ClusterWorld) -> str | None:
    """Judge sweeps beside an intent nobody can decide: it is kept, and keeps nobody else from being settled."""
    blocked = recoveries.bounds.blocked
    if blocked is None:
        return None
    if after.shared.value(intent_key("op-0")) is None or after.shared.value(settled_key("op-0")) is not None:
        return "the intent nobody can decide is gone"
    for index, sweep in enumerate(after.processes):
        mode = recoveries.mode(index)
        if mode is None or sweep.dead or sweep.waiting is None or sweep.running is not None:
            continue
        target = recoveries.bounds.sweeps[index][0]
        if blocked != target and any(each.state.subject.operation_id == "op-0" for each in sweep.ended):
            return f"a sweep of {target} is concerned with an intent of {blocked}"
        refused = blocked == target and len(sweep.ended) == 1
        if refused and not label.fault and after.left.faults == recoveries.bounds.faults and len(after.processes) == 1:
            return "the intent nobody can decide kept the other from being tried"
    return None


PROMISES = (
    Promise("S-19", "an intent is settled for what it is", _for_what_it_is),
    Promise("S-19b", "what it is settled as is what the branches show", _fits_the_branches),
    Promise("S-19c", "what was settled as not published never lands", _never_lands),
    Promise("S-20", "all targets of an intent are settled together", _together),
    Promise("S-21", "what is settled stays settled, as what it was", _monotone),
    Promise("S-21b", "one audit record, of the kind that was settled, before the intent is closed", _one_audit),
    Promise("S-21c", "the record of a settled intent does not come back", _gone_for_good),
    Promise("S-22", "who only settles moves nothing, and nobody settles what is alive", _untouched),
    Promise("S-22b", "exclusive recovery takes back what a dead task published, and nothing else", _dead_only),
    Promise("L-06", "one more sweep settles every intent whose task has ended", _settled_in_the_end, When.AT_REST),
    Promise("L-07", "sweeps at the same time all end, with one audit record", _all_end, When.AT_REST),
    Promise("L-08", "an intent nobody can decide blocks nobody else", _own_targets_only),
)
