"""A small world for the ledger and recovery: the three ports in memory, a call log, and faults at any single call.

It serves calls, not protocols: what a conversation yields is looked up here by port and method. A fault is named by the
number of the call it strikes, so that a test can loop over all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, TypeVar

from attrs import Factory, define

from perago_core import ledger
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Call
from perago_core.ledger import Intent, SettlementKind, TargetIntent
from perago_core.machine import codec
from perago_core.plan import PublishPlan
from perago_core.ports import Entry
from perago_core.values import (
    Backing,
    Claim,
    Commit,
    CommitRef,
    Head,
    Operation,
    Target,
    TaskSnapshot,
    TaskStatus,
)

T = TypeVar("T")

MAIN = Target("repo", "main")
EU = Target("repo", "main/eu")  # shares a prefix with MAIN for anybody who forgets to escape
FAR = Target("far", "main")


def ref(name: str) -> CommitRef:
    return CommitRef(name)


ROOT, A, P1 = ref("root"), ref("a0"), ref("p1")


class Fault(Enum):
    """What may strike one call. A crash ends the conversation, the others answer it."""

    CRASH_BEFORE = "crash before the call"
    CRASH_AFTER = "crash after its effect"
    LOST_ANSWER = "the effect lands, the answer does not"
    LOST_REQUEST = "neither lands"
    REFUSAL = "the port says no"

    @property
    def crashes(self) -> bool:
        return self in {Fault.CRASH_BEFORE, Fault.CRASH_AFTER}


class CrashedError(Exception):
    """The process is gone."""


@define
class World:
    """Coordination store, versioned store and orchestrator in memory."""

    entries: dict[str, str] = Factory(dict[str, str])
    branches: dict[Target, Head] = Factory(dict[Target, Head])
    commits: dict[CommitRef, Commit] = Factory(dict[CommitRef, Commit])
    tasks: dict[tuple[str, str], TaskSnapshot] = Factory(dict[tuple[str, str], TaskSnapshot])
    stored_claims: list[Claim] = Factory(list[Claim])
    names: set[tuple[Target, str]] = Factory(set[tuple[Target, str]])
    calls: list[Call] = Factory(list[Call])
    time: int = 1000
    always: dict[tuple[str, str], Answer[Any]] = Factory(dict[tuple[str, str], Answer[Any]])

    def copy(self) -> World:
        return copy.deepcopy(self)

    def answer(self, call: Call) -> Answer[Any]:
        self.calls.append(call)
        if (call.port, call.method) in self.always:
            return self.always[call.port, call.method]
        serve: Callable[..., Answer[Any]] = getattr(self, f"{call.port}_{call.method}")
        return serve(*call.args)

    # -- coordination

    def coordination_get(self, key: str) -> Answer[Entry | None]:
        return Done(Entry(key, self.entries[key]) if key in self.entries else None)

    def coordination_create_if_absent(self, key: str, value: str) -> Answer[Entry]:
        return Done(Entry(key, self.entries.setdefault(key, value)))

    def coordination_swap(self, key: str, expected: str | None, value: str | None) -> Answer[bool]:
        if self.entries.get(key) != expected:
            return Done(value=False)
        self.entries.pop(key, None)
        if value is not None:
            self.entries[key] = value
        return Done(value=True)

    def coordination_list(self, prefix: str) -> Answer[tuple[Entry, ...]]:
        return Done(tuple(Entry(key, self.entries[key]) for key in sorted(self.entries) if key.startswith(prefix)))

    # -- orchestrator and clock

    def orchestrator_reload(self, workflow_id: str, task_id: str) -> Answer[TaskSnapshot | None]:
        return Done(self.tasks.get((workflow_id, task_id)))

    def clock_wall(self) -> Answer[int]:
        self.time += 1
        return Done(self.time)

    # -- store

    def store_head(self, target: Target) -> Answer[Head | None]:
        return Done(self.branches.get(target))

    def store_look(self, _repository: str, which: CommitRef) -> Answer[Commit | None]:
        return Done(self.commits.get(which))

    def store_claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        return Done(tuple(c for c in self.stored_claims if (c.target, c.logical_task) == (target, logical_task)))

    def store_open_staging(self, target: Target, name: str, _at: CommitRef) -> Answer[None]:
        if (target, name) in self.names:
            return NotDone("the name exists")
        self.names.add((target, name))
        return Done(None)

    def store_drop(self, target: Target, name: str) -> Answer[None]:
        self.names.discard((target, name))
        return Done(None)

    def store_publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        if plan.name is not None and (plan.target, plan.name) not in self.names:
            return NotDone("the name is gone")
        if self.branches[plan.target].commit.ref != plan.expected:
            return NotDone("the head is another")
        self.branches[plan.target] = Head(self.commits[plan.commit])
        return Done(plan.commit)

    # -- what tests put there and look at

    def commit(self, name: str, *parents: str, tree: str = "", message: str = "") -> CommitRef:
        made = Commit(ref(name), tuple(ref(each) for each in parents), tree or f"tree-of-{name}", message)
        self.commits[made.ref] = made
        return made.ref

    def point(self, target: Target, name: str, *, dirty: bool = False) -> None:
        self.branches[target] = Head(self.commits[ref(name)], dirty)

    def heads(self) -> dict[Target, CommitRef]:
        return {target: head.commit.ref for target, head in self.branches.items()}

    def under(self, prefix: str) -> list[str]:
        return sorted(key for key in self.entries if key.startswith(prefix))

    def writes(self) -> list[Call]:
        reads = {"get", "list", "reload", "head", "look", "claims", "wall"}
        return [call for call in self.calls if call.method not in reads]


def run(
    conversation: Generator[Call, Answer[Any], T],
    world: World,
    fault: Fault | None = None,
    at: int = -1,
    *,
    times: int = 1,
) -> T:
    """Carry a conversation on to its end, with a fault striking ``times`` calls from number ``at`` on."""
    answer: Answer[Any] | None = None
    number = 0
    try:
        while True:
            call = next(conversation) if answer is None else conversation.send(answer)
            struck = fault if at <= number < at + times and call.port != "clock" else None
            number += 1
            answer = _struck(call, world, struck)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _struck(call: Call, world: World, fault: Fault | None) -> Answer[Any]:
    match fault:
        case Fault.CRASH_BEFORE:
            raise CrashedError
        case Fault.CRASH_AFTER:
            world.answer(call)
            raise CrashedError
        case Fault.LOST_ANSWER:
            world.answer(call)
            return Unknown("the answer was lost")
        case Fault.LOST_REQUEST:
            return Unknown("the request was lost")
        case Fault.REFUSAL:
            return NotDone("refused")
        case None:
            return world.answer(call)


class Paused:
    """A conversation carried on call by call, to interleave it with another."""

    def __init__(self, conversation: Generator[Call, Answer[Any], Any], world: World) -> None:
        self.conversation = conversation
        self.world = world
        self.answer: Answer[Any] | None = None
        self.result: Any = None
        self.ended = False

    def advance(self, calls: int) -> None:
        """Make so many calls, or as many as there are."""
        for _ in range(calls):
            if self.ended:
                return
            try:
                call = next(self.conversation) if self.answer is None else self.conversation.send(self.answer)
            except StopIteration as stop:
                self.ended, self.result = True, stop.value
                return
            self.answer = self.world.answer(call)

    def finish(self) -> Any:  # noqa: ANN401 - whatever the conversation returns
        while not self.ended:
            self.advance(1)
        return self.result


def done(answer: Answer[T]) -> T:
    assert isinstance(answer, Done), answer
    return answer.value


# ---------------------------------------------------------------------------------------------------------------------
# One intent, and the worlds it may be found in


def intent_of(
    *targets: Target,
    operation_id: str = "op-1",
    noop: bool = False,
    backing: Backing = Backing.CONDITIONAL,
    operation: Operation = Operation.LOGICAL,
    over_maintenance: bool = False,
) -> Intent:
    """An armed intent of attempt 1, execution ``e1``, from A to ``tree t1``."""
    return Intent(
        operation_id=operation_id,
        operation=operation,
        workflow_id="w",
        task_id="t1",
        number=1,
        execution="e1",
        logical_task="w/step",
        actor="worker-1",
        created_at=7,
        targets=tuple(
            TargetIntent(each, A, None if noop else ref("c1"), None if noop else "t1") for each in targets or (MAIN,)
        ),
        backing=backing,
        over_maintenance=over_maintenance,
    )


def claim_like(intent: Intent, **changes: Any) -> Claim:  # noqa: ANN401 - the fields of a claim
    each = intent.targets[0]
    fields: dict[str, Any] = {
        "target": each.target,
        "logical_task": intent.logical_task,
        "workflow_id": intent.workflow_id,
        "task_id": intent.task_id,
        "number": intent.number,
        "execution": intent.execution,
        "parent": each.parent,
        "tree": each.tree,
    }
    return Claim(**{**fields, **changes})


def empty_world() -> World:
    """A store with every commit the scenarios need; all branches at A."""
    world = World()
    world.commit("root")
    world.commit("a0", "root")
    world.commit("p1", "a0", tree="t1")
    world.commit("n1", "p1")
    world.commit("x1", "a0", message="the same message, the same number of files")
    world.commit("x2", "x1")
    world.commit("m1", "a0", "root", tree="t1")
    world.commit("u2", "unreadable")
    for target in (MAIN, EU, FAR):
        world.point(target, "a0")
    return world


#: Where the head of a target is put for each kind of movement.
HEADS = {
    "ours": "p1",
    "buried": "n1",
    "none": "a0",
    "unexpected": "x1",
    "violated": "root",
    "unverifiable": "u2",
}

DEAD = (TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT, TaskStatus.CANCELED)


def task(status: TaskStatus, **changes: Any) -> TaskSnapshot:  # noqa: ANN401 - the fields of a snapshot
    fields: dict[str, Any] = {"workflow_id": "w", "task_id": "t1", "retry_count": 0, "status": status}
    return TaskSnapshot(**{**fields, **changes})


TASKS = {
    "ours": task(TaskStatus.COMPLETED, result_execution="e1", result_ref=P1),
    "other": task(TaskStatus.COMPLETED, result_execution="e2", result_ref=ref("x1")),
    "running": task(TaskStatus.IN_PROGRESS),
    "dead": task(TaskStatus.TIMED_OUT),
    "unknown": task(TaskStatus.COMPLETED, task_id="another", result_execution="e1"),
}


def scene(
    authority: str,
    movement: str,
    *,
    confirmed: bool = False,
    intent: Intent | None = None,
) -> tuple[World, Intent]:
    """A world in which one intent was left open, the authority says this, and this is on its first target."""
    world = empty_world()
    armed = intent or intent_of()
    done(run(ledger.arm(armed), world))
    if confirmed:
        armed = done(run(ledger.confirm(armed, {each.target: P1 for each in armed.targets}), world))
    world.point(armed.targets[0].target, HEADS[movement])
    if authority in TASKS:
        world.tasks["w", "t1"] = TASKS[authority]
    world.stored_claims += [claim_like(armed, target=each.target) for each in armed.targets]
    world.calls.clear()
    return world, armed


def settled_kind(world: World, operation_id: str = "op-1") -> SettlementKind | None:
    """What the ledger says became of the operation; the audit record must say the same, once."""
    settled, audited = world.under(f"settled/{operation_id}"), world.under(f"audit/{operation_id}")
    if not settled:
        assert not audited
        return None
    kind = codec.loads(world.entries[settled[0]], ledger.Settlement).kind
    for key in audited:
        assert codec.loads(world.entries[key], ledger.Audit).kind is kind
    return kind


def audit_of(world: World, operation_id: str = "op-1") -> ledger.Audit:
    return codec.loads(world.entries[f"audit/{operation_id}"], ledger.Audit)
