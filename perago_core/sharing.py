"""A branch that several workflows write to: what lies between an input and the head, and where a task may begin.

Asked only for tasks that declare what they read and write (``Scope``). Facts are gathered here; what follows from them
``fence`` decides.

A commit on the branch is a stranger's, or a publication of a task that was accepted, or one that was not, yet. Whose it
is its staged commit says, in words that give nobody a right: they say whose claims to read, and the tasks behind those
claims are asked about. Accepted is the *commit*, for any attempt or twin of its task: who adopted it reports it too,
while the record of its publisher says for ever that it timed out. A commit of whom nobody has heard any more, because
claims and tasks of settled workflows are collected, is like a stranger's.

Only the newest publication needs to be asked about. Whoever published it had all that lies below it accepted, or was a
task that began at an accepted commit: so the cost does not grow with the number of other writers.
"""

from __future__ import annotations

from enum import Enum

from perago_core.answers import Done
from perago_core.calls import Talk, call
from perago_core.fence import published_by
from perago_core.names import task_in
from perago_core.ports import FARTHEST, Orchestrator, Store
from perago_core.values import Between, Commit, CommitRef, Scope, Target, TaskStatus


class Publication(Enum):
    """Whose a commit on the branch is."""

    STRANGERS = "a stranger's"
    OWN = "of the own task"
    ACCEPTED = "accepted"
    UNACCEPTED = "not accepted"


def between(target: Target, base: CommitRef, head: CommitRef, scope: Scope, own_task: str) -> Talk[Between]:
    """Gather what a decision about a head above the input needs to know."""
    listed = yield from call(Store.since, target.repository, base, head, scope.prefixes)
    if not isinstance(listed, Done):
        return listed
    for landed in listed.value or ():
        judged = yield from publication(target, landed.commit, own_task)
        if not isinstance(judged, Done):
            return judged
        kind, task = judged.value
        if kind is Publication.UNACCEPTED:
            return Done(Between(listed.value, unaccepted=landed.commit.ref, owner=task))
        if kind is not Publication.STRANGERS:
            break
    return Done(Between(listed.value))


def begin_at(target: Target, given: CommitRef, scope: Scope, own_task: str) -> Talk[CommitRef]:
    """Return where an attempt begins: as it was told, unless somebody has changed since what it reads or writes.

    Then the newest accepted commit: with the old one its work would be refused in the end, however often it is done.
    Not if what was changed is its own task's publication: that is adopted.
    """
    seen = yield from call(Store.head, target)
    if not isinstance(seen, Done):
        return seen
    if seen.value is None or seen.value.commit.ref == given:
        return Done(given)
    head = seen.value.commit
    found = yield from between(target, given, head.ref, scope, own_task)
    if not isinstance(found, Done):
        return found
    commits = found.value.commits
    if commits is not None:
        if not any(each.touched for each in commits):
            return Done(given)
        claims = yield from call(Store.claims, target, own_task)
        if not isinstance(claims, Done):
            return claims
        if any(published_by(each.commit, claim) for each in commits for claim in claims.value):
            return Done(given)
    return (yield from newest_accepted(target, head, own_task))


def newest_accepted(target: Target, head: Commit, own_task: str = "") -> Talk[CommitRef]:
    """Return the newest commit with nothing unaccepted at or below it: where a workflow on such a branch is pinned.

    Counterexample to the head: v starts from what u has published; u is terminated, and what it published undone; v is
    accepted on what never was.
    """
    at = head
    for _ in range(FARTHEST):
        judged = yield from publication(target, at, own_task)
        if not isinstance(judged, Done):
            return judged
        kind, _task = judged.value
        if kind is Publication.UNACCEPTED:
            return Done(at.parents[0])
        if kind is not Publication.STRANGERS or not at.parents:
            break
        below = yield from call(Store.look, target.repository, at.parents[0])
        if not isinstance(below, Done):
            return below
        if below.value is None:
            break
        at = below.value
    return Done(head.ref)


def publication(target: Target, commit: Commit, own_task: str) -> Talk[tuple[Publication, str]]:
    """Say whose a commit is, and of which task."""
    message = commit.message
    if len(commit.parents) > 1:
        staged = yield from call(Store.look, target.repository, commit.parents[1])
        if not isinstance(staged, Done):
            return staged
        message = "" if staged.value is None else staged.value.message
    task = task_in(message)
    if task is None:
        return Done((Publication.STRANGERS, ""))
    if task == own_task:
        return Done((Publication.OWN, task))
    claims = yield from call(Store.claims, target, task)
    if not isinstance(claims, Done):
        return claims
    known = False
    for workflow_id, task_id in sorted({(claim.workflow_id, claim.task_id) for claim in claims.value}):
        reloaded = yield from call(Orchestrator.reload, workflow_id, task_id)
        if not isinstance(reloaded, Done):
            return reloaded
        snapshot = reloaded.value
        if snapshot is not None and snapshot.status is TaskStatus.COMPLETED and snapshot.result_ref == commit.ref:
            return Done((Publication.ACCEPTED, task))
        known = known or snapshot is not None
    return Done((Publication.UNACCEPTED if known else Publication.STRANGERS, task))
