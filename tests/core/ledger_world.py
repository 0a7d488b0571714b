"""The simulated world as the tests of ledger and recovery use it: with a call log, and faults at any single call.

A fault is named by the number of the call it strikes, whatever that call is, so that a test can loop over all of them;
it may also end the conversation. The simulated world's own faults are named by method, and answer.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from enum import Enum
from typing import Any, TypeVar

from perago_core import ledger
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Call
from perago_core.ledger import Intent, SettlementKind, TargetIntent
from perago_core.machine import codec
from perago_core.values import (
    Backing,
    Claim,
    Commit,
    CommitRef,
    Operation,
    Target,
    TaskSnapshot,
    TaskStatus,
)
from perago_simulation.ports import SimulatedWorld
from perago_simulation.ports.lake import Branch
from tests.core.world import ABLE_TO_ALL

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


class World(SimulatedWorld):
    """The simulated world, with commits of the names the cases use, and answers a test gives instead of a port.

    ``tasks`` are what a reload says: the authority's word is the case here, also one that no orchestrator would give,
    such as another task's. ``always`` answers every call of one method.
    """

    def __init__(self) -> None:
        super().__init__(ABLE_TO_ALL)
        for target in (MAIN, EU, FAR):
            self.store().create(target, {})
        self.tasks: dict[tuple[str, str], TaskSnapshot] = {}
        self.calls: list[Call] = []
        self.always: dict[tuple[str, str], Answer[Any]] = {}

    def copy(self) -> World:
        """Make another world in the same state; simulated ports are one of a kind, and not copied by ``deepcopy``."""
        other = World()
        other.clock().sleep(self.clock().now())
        for name, repository in self.store().repositories.items():
            other.store().repositories[name].commits.update(repository.commits)
            other.store().repositories[name].branches = {
                branch: Branch(found.at, dict(found.uncommitted)) for branch, found in repository.branches.items()
            }
        other.store().records = list(self.store().records)
        for key, value in self.entries.items():
            other.coordination().create_if_absent(key, value)
        other.tasks, other.calls, other.always = dict(self.tasks), list(self.calls), dict(self.always)
        return other

    def answer(self, call: Call) -> Answer[Any]:
        self.calls.append(call)
        if (call.port, call.method) in self.always:
            return self.always[call.port, call.method]
        if (call.port, call.method) == ("orchestrator", "reload"):
            workflow_id, task_id = call.args
            if workflow_id is None:
                return Done(next((found for (_, each), found in self.tasks.items() if each == task_id), None))
            return Done(self.tasks.get((workflow_id, task_id)))
        if call.port == "clock":
            return Done(getattr(self.clock(), call.method)(*call.args))
        answer: Answer[Any] = getattr(getattr(self, call.port)(), call.method)(*call.args)
        return answer

    # -- what tests put there and look at

    def commit(self, name: str, *parents: str, tree: str = "", message: str = "") -> CommitRef:
        """Put a commit of this name into every repository: the store itself would give it a digest for a name."""
        made = Commit(ref(name), tuple(ref(each) for each in parents), tree or f"tree-of-{name}", message)
        for repository in self.store().repositories.values():
            repository.commits[made.ref] = made
        return made.ref

    def point(self, target: Target, name: str, *, dirty: bool = False) -> None:
        stranger = self.stranger(target)
        stranger.reset(ref(name))
        if dirty:
            stranger.write("left", b"behind")

    def put(self, key: str, value: str | None) -> None:
        """Write a key, whatever stands there; ``None`` removes it."""
        assert self.coordination().swap(key, self.entries.get(key), value) == Done(value=True)

    @property
    def entries(self) -> dict[str, str]:
        return {each.key: each.value for each in done(self.coordination().list(""))}

    @property
    def commits(self) -> Mapping[CommitRef, Commit]:
        return self.store().repositories[MAIN.repository].commits

    @property
    def names(self) -> set[Target]:
        """Return the branches that are nobody's target: the staging names."""
        return self._branches().keys() - self.store().targets

    def heads(self) -> dict[Target, CommitRef]:
        return {target: at for target, at in self._branches().items() if target in self.store().targets}

    def _branches(self) -> dict[Target, CommitRef]:
        return {
            Target(name, branch): found.at
            for name, repository in self.store().repositories.items()
            for branch, found in repository.branches.items()
        }

    def under(self, prefix: str) -> list[str]:
        return sorted(key for key in self.entries if key.startswith(prefix))

    def writes(self) -> list[Call]:
        reads = {"get", "list", "reload", "head", "look", "claims", "wall", "staging_names", "barrier"}
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
    for each in armed.targets:
        world.store().claim(claim_like(armed, target=each.target))
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
