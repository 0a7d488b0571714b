"""``perago verify``: the main promise, proved on a real branch from what the servers say.

The store shows the history, the orchestrator says what it accepted, the ledger remembers what the orchestrator has
forgotten, and the claims say whose commit one is that nobody accepted. The core judges (``perago_core.verification``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from attrs import evolve

from perago_core.answers import Answer, Done
from perago_core.fence import published_by
from perago_core.ledger.records import Audit, SettlementKind, Unreadable
from perago_core.pipelines import Pipelines
from perago_core.recovery import WALK_LIMIT
from perago_core.values import Claim, Commit, CommitRef, Target, TaskStatus
from perago_core.verification import Accepted, Facts, Verdict, judge
from perago_worker.ops.recover import ON_GROUNDS, audits
from perago_worker.stack import Stack, StackError

T = TypeVar("T")


def verify(stack: Stack, pipelines: Pipelines, target: Target) -> Verdict:
    """Ask orchestrator, ledger and store, in this order, and judge; what cannot be read is a ``StackError``.

    What is accepted and published meanwhile is on the branch when the branch is read, and is then *under way*.
    """
    accepted, logical_tasks = _accepted(pipelines, target)
    settled = _settled(stack)
    moves = [(each, move) for each in settled for move in each.movements if move.target == target]
    known = {each.ref for each in accepted}
    accepted += [
        Accepted(each.task_id, f"task {each.task_id}", move.after, each.at)
        for each, move in moves
        if each.kind.accepts and move.after is not None and move.after not in known
    ]
    claims = tuple(
        claim for task in sorted(logical_tasks) for claim in _done(stack.store.claims(target, task), "the claims")
    )
    snapshots = {each: _done(stack.orchestrator.reload(each[0], each[1]), "a task") for each in _tasks(claims)}
    commits, bases, whole = _walk(stack, target, {each.ref for each in accepted})
    trees = {commit.ref: commit.tree for commit in commits}
    written = {(each.task_id, move.after) for each, move in moves if move.moves}
    written |= {(claim.task_id, ref) for claim in claims for ref, tree in trees.items() if claim.tree == tree}
    written |= _joined(accepted, claims, commits)
    return judge(
        Facts(
            target,
            commits,
            whole,
            tuple(
                evolve(each, made=(each.task_id, each.ref) in written)
                for each in sorted(accepted, key=lambda result: result.at)
            ),
            claims,
            frozenset(task for (_, task), seen in snapshots.items() if seen is not None and seen.status.is_open),
            frozenset(
                move.after
                for each, move in moves
                if each.kind is SettlementKind.ABANDONED and ON_GROUNDS in each.actor and move.after is not None
            ),
            bases,
        )
    )


def _joined(
    accepted: Iterable[Accepted], claims: Iterable[Claim], commits: Iterable[Commit]
) -> set[tuple[str, CommitRef | None]]:
    """Return who was the first to be accepted with a commit that a task with a scope has published.

    Known by the staged commit in a claim of any attempt: who adopted it has not published it, and its tree is that of
    no claim where it was joined onto what others have published.
    """
    published = {(claim.logical_task, each.ref) for each in commits for claim in claims if published_by(each, claim)}
    first: dict[CommitRef, Accepted] = {}
    for each in sorted(accepted, key=lambda result: result.at):
        if (each.logical_task, each.ref) in published:
            first.setdefault(each.ref, each)
    return {(each.task_id, ref) for ref, each in first.items()}


def _settled(stack: Stack) -> tuple[Audit, ...]:
    """Read how every publication was settled; one record nobody can read might tell of an accepted result."""
    records = _done(audits(stack), "the ledger")
    unread = [each for each in records if isinstance(each, Unreadable)]
    if unread:
        raise StackError(f"{unread[0]}, so nothing is proved. Verify with a program that can read it")
    return tuple(each for each in records if isinstance(each, Audit))


def _tasks(claims: Iterable[Claim]) -> set[tuple[str, str]]:
    return {(claim.workflow_id, claim.task_id) for claim in claims}


def _accepted(pipelines: Pipelines, target: Target) -> tuple[list[Accepted], set[str]]:
    """Read what the orchestrator accepted on a target, and every task that may have published to it."""
    accepted: list[Accepted] = []
    logical_tasks: set[str] = set()
    for view in pipelines.everything():
        for each in view.attempts:
            place = pipelines.find(each.task_id)
            if place is None or place.target != target:
                continue
            logical_tasks.add(place.logical_task)
            if each.status is TaskStatus.COMPLETED and each.ref is not None:
                accepted.append(Accepted(each.task_id, place.logical_task, CommitRef(each.ref), each.ended_at))
    return accepted, logical_tasks


def _walk(
    stack: Stack, target: Target, wanted: set[CommitRef]
) -> tuple[tuple[Commit, ...], tuple[tuple[CommitRef, CommitRef], ...], bool]:
    """Read the branch from its head down until everything wanted was met, at the root, or at the limit.

    Wanted is also what an accepted commit that joins was made from: the parent of its staged commit, which is its
    second parent.
    """
    head = _done(stack.store.head(target), str(target))
    if head is None:
        raise StackError(
            f"{target} cannot be verified: there is no such branch. Correct its name, or let `perago run` make it"
        )
    commits: list[Commit] = []
    bases: list[tuple[CommitRef, CommitRef]] = []
    missing, at = set(wanted), head.commit
    while True:
        commits.append(at)
        missing.discard(at.ref)
        if at.ref in wanted and len(at.parents) > 1:
            staged = _done(stack.store.look(target.repository, at.parents[1]), f"the history of {target}")
            if staged is not None and staged.parents:
                bases.append((at.ref, staged.parents[0]))
                missing.add(staged.parents[0])
        if not at.parents or (not missing and len(commits) > 1):
            return tuple(commits), tuple(bases), True
        found = _done(stack.store.look(target.repository, at.parents[0]), f"the history of {target}")
        if found is None or len(commits) == WALK_LIMIT:
            return tuple(commits), tuple(bases), False
        at = found


def _done(answer: Answer[T], what: str) -> T:
    if isinstance(answer, Done):
        return answer.value
    raise StackError(f"{what} cannot be read, so nothing is proved: {answer.reason}. Try again once it answers")
