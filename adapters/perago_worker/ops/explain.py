"""``perago explain``: what the branch, the ledger and the orchestrator say of a task, and what follows."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from attrs import frozen

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.ledger.records import Audit, SettlementKind, Unreadable
from perago_core.names import task_id_in
from perago_core.pipelines import TaskPlace
from perago_core.recovery import Mode, sweep
from perago_core.values import Claim, CommitRef, Head, Target, TaskSnapshot, TaskStatus
from perago_worker.ops.adopted import adoptions_among
from perago_worker.ops.recover import audits, unaccepted
from perago_worker.ops.revert import reverts_of
from perago_worker.stack import Stack

NEWLINE = "\n"


class Settled(Enum):
    """What the ledger says of a task's publication. ``KEPT`` also if it says nothing: a task that published nothing."""

    KEPT = auto()
    LOST = auto()
    UNREADABLE = auto()
    NOWHERE = auto()


_ACCEPTED = {
    Settled.KEPT: "it is done: its result was accepted and stays",
    Settled.LOST: (
        "its result was accepted and is LOST: it is not on {target}. Stop publishing to {target} and have an operator "
        "restore the accepted commit; `perago audit` shows from where to where the branch went"
    ),
    Settled.UNREADABLE: "its result was accepted; whether it is still on {target} cannot be told without the ledger",
    Settled.NOWHERE: "it is done: its result was accepted; no ledger says whether it is still on {target}",
}


@frozen
class Finding:
    """One thing that is known, and who says so."""

    source: str
    says: str


def explain(stack: Stack, task: TaskSnapshot, place: TaskPlace) -> tuple[Finding, ...]:
    """Say everything that is known about one attempt, and at the end what follows from it."""
    target = place.target
    findings = [Finding("orchestrator", _status(task))]
    claims = stack.store.claims(target, place.logical_task)
    findings += (
        [Finding("store", _claim(each)) for each in claims.value]
        if isinstance(claims, Done)
        else [_trouble("store", claims)]
    )
    undone = reverts_of(stack, target, claims.value) if isinstance(claims, Done) else claims
    if isinstance(undone, Done):
        findings += [Finding("branch", _reverted(*each)) for each in undone.value.items()]
    findings += [Finding("branch", each) for each in _adopted(stack, target, task)]
    head = stack.store.head(target)
    if isinstance(head, Done):
        findings.append(Finding("branch", _head(target, head.value, task)))
        looked = unaccepted(stack, target)
        findings += [Finding("branch", f"{each.reason}. {each.next_action}") for each in looked.heads]
        findings += [Finding("branch", f"unknown: {each}") for each in looked.unknown]
    else:
        findings.append(_trouble("branch", head))
    settled, findings_of_ledger = _ledger(stack, task, target)
    return (*findings, *findings_of_ledger, Finding("so", _conclusion(task, place, settled)))


def _ledger(stack: Stack, task: TaskSnapshot, target: Target) -> tuple[Settled, list[Finding]]:
    """Say how the task's intents were settled; of one that is still open, as what it would be settled now."""
    if stack.coordination is None:
        return Settled.NOWHERE, []
    records = audits(stack)
    if not isinstance(records, Done):
        return Settled.UNREADABLE, [_trouble("ledger", records)]
    unread = [each for each in records.value if isinstance(each, Unreadable)]
    own = [each for each in records.value if isinstance(each, Audit) and each.task_id == task.task_id]
    findings = [Finding("ledger", f"settled as {each.kind.value} by {each.actor}") for each in own]
    if any(each.kind is SettlementKind.ACCEPTED_LOST for each in own):
        return Settled.LOST, findings
    if own:
        return Settled.KEPT, findings
    if unread:
        return Settled.UNREADABLE, [Finding("ledger", str(each)) for each in unread]
    swept = run(sweep(target, Mode.PROBE, "explain"), stack.ports())
    if not isinstance(swept, Done):
        return Settled.UNREADABLE, [_trouble("ledger", swept)]
    # The operation id of an intent is the execution that armed it.
    still_open = [each for each in swept.value.outcomes if each.operation_id == task.result_execution]
    findings = [Finding("ledger", f"not settled yet: {each.reason}") for each in still_open]
    return (Settled.LOST if any(each.alarm for each in still_open) else Settled.KEPT), findings


def _trouble(source: str, answer: Answer[object]) -> Finding:
    return Finding(source, f"cannot be read: {'' if isinstance(answer, Done) else answer.reason}")


def _status(task: TaskSnapshot) -> str:
    worker = f" of worker {task.worker_id}" if task.worker_id else ""
    result = f", with {task.result_ref} of execution {task.result_execution}" if task.result_ref else ""
    return f"attempt {task.retry_count + 1} is {task.status.value}{worker}{result}"


def _adopted(stack: Stack, target: Target, task: TaskSnapshot) -> Iterator[str]:
    """Say that the attempt was accepted with what an earlier one had published."""
    if task.result_ref is None:
        return
    found = stack.store.look(target.repository, task.result_ref)
    commit = found.value if isinstance(found, Done) else None
    if commit is None:
        return
    taken = adoptions_among(stack, (commit,)).get(commit.ref)
    if taken is not None and taken.task_id == task.task_id:
        yield f"it adopted {commit.ref[:12]}, which task {task_id_in(commit.message)} had published"


def _reverted(ref: CommitRef, by: CommitRef) -> str:
    return f"{ref[:12]}, which its task has published, was reverted by {by[:12]}: nobody had accepted it"


def _claim(claim: Claim) -> str:
    if claim.reverts is not None:
        return f"a recovery claimed the right to revert {claim.reverts[:12]}: {claim.execution}"
    what = "a no-op" if claim.tree is None else f"tree {claim.tree[:12]}"
    return f"attempt {claim.number} claimed the right to publish {what} on {claim.parent[:12]}: {claim.execution}"


def _head(target: Target, head: Head | None, task: TaskSnapshot) -> str:
    if head is None:
        return f"{target} does not exist"
    if task.result_ref == head.commit.ref:
        return f"{target} is at this attempt's result, {head.commit.ref[:12]}"
    return f"{target} is at {head.commit.ref[:12]}: {head.commit.message.partition(NEWLINE)[0] or 'no message'}"


def _conclusion(task: TaskSnapshot, place: TaskPlace, settled: Settled) -> str:
    if task.status is TaskStatus.COMPLETED:
        return _ACCEPTED[settled].format(target=place.target)
    if place.accepted is not None:
        return f"it is over: attempt {place.accepted} was accepted, with what this one has published or without it"
    if task.status.is_open:
        return "it is under way: wait for it, or for the orchestrator to give it up"
    if task.workflow_running:
        return "it is over: another attempt takes over, or replaces, what it may have published"
    return (
        f"it is over, and nothing follows by itself: `perago retry {place.workflow_id}` goes on from its step; `perago "
        "recover` says whether it has left anything on the branch"
    )
