"""``perago explain``: what the branch, the ledger and the orchestrator say of a task, and what follows."""

from __future__ import annotations

from attrs import frozen

from perago_core.answers import Answer, Done
from perago_core.ledger.codec import Unreadable, decode
from perago_core.ledger.records import Audit
from perago_core.values import Claim, Head, Target, TaskSnapshot, TaskStatus
from perago_worker.pipelines import TaskPlace
from perago_worker.stack import Stack

AUDITS = "audit/"
NEWLINE = "\n"


@frozen
class Finding:
    """One thing that is known, and who says so."""

    source: str
    says: str


def audits(stack: Stack) -> Answer[tuple[Audit | Unreadable, ...]]:
    """Give every audit record, in the order of their keys."""
    if stack.coordination is None:
        return Done(())
    found = stack.coordination.list(AUDITS)
    if not isinstance(found, Done):
        return found
    return Done(tuple(decode(Audit, entry) for entry in found.value))


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
    head = stack.store.head(target)
    if isinstance(head, Done):
        findings.append(Finding("branch", _head(target, head.value, task)))
    else:
        findings.append(_trouble("branch", head))
    records = audits(stack)
    if isinstance(records, Done):
        findings += [
            Finding("ledger", f"settled as {each.kind.value} by {each.actor}")
            for each in records.value
            if isinstance(each, Audit) and each.task_id == task.task_id
        ]
    else:
        findings.append(_trouble("ledger", records))
    return (*findings, Finding("so", _conclusion(task, place.accepted)))


def _trouble(source: str, answer: Answer[object]) -> Finding:
    return Finding(source, f"cannot be read: {'' if isinstance(answer, Done) else answer.reason}")


def _status(task: TaskSnapshot) -> str:
    worker = f" of worker {task.worker_id}" if task.worker_id else ""
    result = f", with {task.result_ref} of execution {task.result_execution}" if task.result_ref else ""
    return f"attempt {task.retry_count + 1} is {task.status.value}{worker}{result}"


def _claim(claim: Claim) -> str:
    what = "a no-op" if claim.tree is None else f"tree {claim.tree[:12]}"
    return f"attempt {claim.number} claimed the right to publish {what} on {claim.parent[:12]}: {claim.execution}"


def _head(target: Target, head: Head | None, task: TaskSnapshot) -> str:
    if head is None:
        return f"{target} does not exist"
    if task.result_ref == head.commit.ref:
        return f"{target} is at this attempt's result, {head.commit.ref[:12]}"
    return f"{target} is at {head.commit.ref[:12]}: {head.commit.message.partition(NEWLINE)[0] or 'no message'}"


def _conclusion(task: TaskSnapshot, accepted: int | None) -> str:
    if task.status is TaskStatus.COMPLETED:
        return "it is done: its result was accepted and stays"
    if accepted is not None:
        return f"it is over: attempt {accepted} was accepted, and replaced whatever this one may have published"
    if task.status.is_open:
        return "it is under way: wait for it, or for the orchestrator to give it up"
    if task.workflow_running:
        return "it is over: another attempt replaces whatever it may have published"
    return "it is over and nothing follows: what it may have published stays until `perago recover` takes it back"
