"""A branch that several workflows write to: what lies between an input and the head, and where a task may begin.

Asked only for tasks that declare what they read and write (``Scope``). Facts are gathered here; what follows from them
``fence`` decides.

A commit on the branch is a stranger's, or a publication of a task that was accepted, or one that was not, yet. Whose it
is its staged commit says, in words that give nobody a right: they say whose claims to read, and the tasks behind those
claims are asked about. Accepted is the *commit*, for any attempt or twin of its task: who adopted it reports it too,
while the record of its publisher says for ever that it timed out. A commit of whom nobody has heard any more, because
claims and tasks of settled workflows are collected, is like a stranger's.

Only the newest publication needs to be asked about. Whoever published it had all that lies below it accepted, or was a
task that began at an accepted commit: so the cost does not grow with the number of other writers. A publication that
was reverted, and the commit that reverts it, count as absent, both of them: what lies below is asked about instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from attrs import field, frozen

from perago_core.answers import Done
from perago_core.calls import Talk, call
from perago_core.fence import published_by, reverted
from perago_core.names import task_in
from perago_core.ports import FARTHEST, Orchestrator, Store
from perago_core.value import Value, a, line, maybe, text
from perago_core.values import Between, Claim, Commit, CommitRef, Scope, Target, TaskStatus


class Publication(Enum):
    """Whose a commit on the branch is."""

    STRANGERS = "a stranger's"
    OWN = "of the own task"
    ACCEPTED = "accepted"
    UNACCEPTED = "not accepted"
    REVERT = "what reverts another one"


@frozen(repr=False)
class Judged(Value):
    """Whose a commit is, of which task, and which publication it reverts, if it does."""

    kind: Publication = field(validator=a(Publication))
    task: str = field(default="", validator=line)
    reverts: CommitRef | None = field(default=None, validator=maybe(text))


def between(target: Target, base: CommitRef, head: CommitRef, scope: Scope, own_task: str) -> Talk[Between]:
    """Gather what a decision about a head above the input needs to know."""
    listed = yield from call(Store.since, target.repository, base, head, scope.prefixes)
    if not isinstance(listed, Done):
        return listed
    gone: set[CommitRef | None] = set()
    for commit in (landed.commit for landed in listed.value or ()):
        if commit.ref in gone:
            continue
        judged = yield from publication(target, commit, own_task)
        if not isinstance(judged, Done):
            return judged
        found = judged.value
        if found.kind is Publication.UNACCEPTED:
            return Done(Between(listed.value, unaccepted=commit.ref, owner=found.task))
        if found.kind not in _PASSED_OVER:
            break
        gone.add(found.reverts)
    return Done(Between(listed.value))


#: What says nothing about what lies below it.
_PASSED_OVER = frozenset({Publication.STRANGERS, Publication.REVERT})


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
        gone = reverted((each.commit for each in commits), claims.value)
        standing = [each.commit for each in commits if each.commit.ref not in gone]
        if any(published_by(commit, claim) for commit in standing for claim in claims.value if claim.reverts is None):
            return Done(given)
    return (yield from newest_accepted(target, head, own_task))


def newest_accepted(target: Target, head: Commit, own_task: str = "") -> Talk[CommitRef]:
    """Return the newest commit with nothing unaccepted at or below it: where a workflow on such a branch is pinned.

    Counterexample to the head: v starts from what u has published; u is terminated, and what it published undone; v is
    accepted on what never was.
    """
    found = yield from newest_publication(target, head, own_task)
    if not isinstance(found, Done):
        return found
    if found.value is not None and found.value[1].kind is Publication.UNACCEPTED:
        return Done(found.value[0].parents[0])
    return Done(head.ref)


def newest_publication(
    target: Target, head: Commit, own_task: str = "", within: int | None = None
) -> Talk[tuple[Commit, Judged] | None]:
    """Find the newest publication at or below a head, past strangers' commits and past what was reverted.

    ``None``: there is none ``within`` so many commits.
    """
    at, gone = head, set[CommitRef | None]()
    for _ in range(FARTHEST if within is None else within):
        if at.ref not in gone:
            judged = yield from publication(target, at, own_task)
            if not isinstance(judged, Done):
                return judged
            if judged.value.kind not in _PASSED_OVER:
                return Done((at, judged.value))
            gone.add(judged.value.reverts)
        if not at.parents:
            break
        below = yield from call(Store.look, target.repository, at.parents[0])
        if not isinstance(below, Done):
            return below
        if below.value is None:
            break
        at = below.value
    return Done(None)


def publication(target: Target, commit: Commit, own_task: str) -> Talk[Judged]:
    """Say whose a commit is, and of which task."""
    message = commit.message
    if len(commit.parents) > 1:
        staged = yield from call(Store.look, target.repository, commit.parents[1])
        if not isinstance(staged, Done):
            return staged
        message = "" if staged.value is None else staged.value.message
    task = task_in(message)
    if task is None:
        return Done(Judged(Publication.STRANGERS))
    if task == own_task:
        return Done(Judged(Publication.OWN, task))
    claims = yield from call(Store.claims, target, task)
    if not isinstance(claims, Done):
        return claims
    for claim in claims.value:
        if claim.reverts is not None and published_by(commit, claim):
            return Done(Judged(Publication.REVERT, task, claim.reverts))
    return (yield from _accepted(commit, task, claims.value))


def _accepted(commit: Commit, task: str, claims: Iterable[Claim]) -> Talk[Judged]:
    """Ask whether a commit was accepted for any attempt that has claimed its task."""
    known = False
    for workflow_id, task_id in sorted({(claim.workflow_id, claim.task_id) for claim in claims}):
        reloaded = yield from call(Orchestrator.reload, workflow_id, task_id)
        if not isinstance(reloaded, Done):
            return reloaded
        snapshot = reloaded.value
        if snapshot is not None and snapshot.status is TaskStatus.COMPLETED and snapshot.result_ref == commit.ref:
            return Done(Judged(Publication.ACCEPTED, task))
        known = known or snapshot is not None
    return Done(Judged(Publication.UNACCEPTED if known else Publication.STRANGERS, task))
