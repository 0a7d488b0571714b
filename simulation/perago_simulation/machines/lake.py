"""What lies around a sweep: branches and the commits on them, a task, an intent, and the owner of the intent."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import cache
from typing import Any, NamedTuple

from perago_core import fence, ledger
from perago_core.answers import Answer, Done, NotDone
from perago_core.calls import Call
from perago_core.ledger import Intent, Movement, SettlementKind, TargetIntent
from perago_core.names import staging_name
from perago_core.plan import PlanKind, PublishPlan
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

MAIN, EU = Target("repo", "main"), Target("repo", "main/eu")
INPUT, OURS = CommitRef("a0"), CommitRef("p1")
OWNER = "owner"
#: The name by which the owner publishes.
STAGING = staging_name(MAIN, "w/step", 1, 0, "t1", "e1")


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


class LakeState(NamedTuple):
    """The branches, the names on them, the task, and whether a sweep has ever taken a branch back."""

    heads: tuple[tuple[Target, str], ...]
    task: str
    names: frozenset[str] = frozenset({STAGING})
    moved: bool = False


def intent_of(targets: tuple[Target, ...], backing: Backing, name: str = "op-1", task: str = "t1") -> Intent:
    """Return the intent of attempt 1: from the input to tree ``t1``, on every target."""
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


def answer(lake: LakeState, call: Call) -> tuple[Answer[Any], LakeState]:
    """Answer a call of the store or of the orchestrator."""
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
        case "publish", (plan,):
            return _published(lake, heads, plan)
        case _:
            return _named(lake, call)


def _named(lake: LakeState, call: Call) -> tuple[Answer[Any], LakeState]:
    """Answer a call that is about names, or the barrier."""
    match call.method, call.args:
        case "staging_names", (_, prefix):
            return Done(tuple(sorted(name for name in lake.names if name.startswith(prefix)))), lake
        case "open_staging", (_, name, _):
            fresh = name not in lake.names
            return Done(None) if fresh else NotDone("it exists"), lake._replace(names=lake.names | {name})
        case "drop", (_, name):
            return Done(None), lake._replace(names=lake.names - {name})
        case "barrier", (target,):
            return Done(None) if target in dict(lake.heads) else NotDone("there is no such branch"), lake
        case _:
            raise AssertionError(call)


def _published(lake: LakeState, heads: dict[Target, str], plan: PublishPlan) -> tuple[Answer[Any], LakeState]:
    name = STAGING if plan.kind is PlanKind.MERGE else plan.name
    if heads[plan.target] != plan.expected or (name is not None and name not in lake.names):
        return NotDone("the head or the name is another"), lake
    heads[plan.target] = OURS if plan.kind is PlanKind.MERGE else plan.commit
    return Done(CommitRef(heads[plan.target])), lake._replace(heads=tuple(heads.items()))
