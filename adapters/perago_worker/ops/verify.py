"""``perago verify``: the main promise, proved on a real branch from what the servers say.

Every result the orchestrator accepted is on the branch, in the order of acceptance, once; nothing that nobody accepted
lies between. The store shows the history, the orchestrator says what it accepted, the ledger remembers what the
orchestrator has forgotten, and the claims say whose commit one is that nobody accepted. No message of a commit is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import pairwise
from typing import TypeVar

from attrs import evolve, frozen

from perago_core.answers import Answer, Done
from perago_core.ledger.records import Audit, SettlementKind
from perago_core.recovery import WALK_LIMIT
from perago_core.values import Claim, Commit, CommitRef, Target, TaskStatus
from perago_worker.ops.recover import ON_GROUNDS, audits
from perago_worker.pipelines.protocol import Pipelines
from perago_worker.stack import Stack, StackError

T = TypeVar("T")


class Kind(Enum):
    """What a commit of the branch is."""

    ACCEPTED = "accepted"
    UNDER_WAY = "under way"
    KEPT = "never accepted, and kept by a person"
    UNACCEPTED = "never accepted"
    STRANGER = "a stranger's"
    EARLIER = "before the first accepted result"


@frozen
class Accepted:
    """A result that counts: of which task, with which commit, and when.

    ``made``: the task made that commit. One that changed nothing is accepted with its input, which may be any older
    commit, and any number of tasks may be.
    """

    task_id: str
    logical_task: str
    ref: CommitRef
    at: int
    made: bool = True


@frozen
class Facts:
    """What the servers said. ``commits`` begin with the head; ``whole``: the walk did not end at its limit.

    ``accepted`` are in the order of acceptance. ``open_tasks`` are those of the claims that are not over. ``kept`` are
    commits which nobody accepted and a person keeps.
    """

    target: Target
    commits: tuple[Commit, ...]
    whole: bool
    accepted: tuple[Accepted, ...]
    claims: tuple[Claim, ...] = ()
    open_tasks: frozenset[str] = frozenset()
    kept: frozenset[CommitRef] = frozenset()


@frozen
class Finding:
    """One commit, what it is, and whose."""

    commit: Commit
    kind: Kind
    whose: str = ""


@frozen
class Verdict:
    """Every commit that was judged, the head first, and one sentence for each broken promise."""

    findings: tuple[Finding, ...]
    broken: tuple[str, ...]


def judge(facts: Facts) -> Verdict:
    """Compare what was accepted with what is there."""
    places = {commit.ref: number for number, commit in enumerate(facts.commits)}
    broken: list[str] = []
    for each in facts.accepted:
        if each.ref not in places:
            unread = "" if facts.whole else f" within the {len(facts.commits)} commits that were read"
            broken.append(
                f"lost: task {each.task_id} was accepted with {each.ref}, which is not on {facts.target}{unread}"
            )
    there = [each for each in facts.accepted if each.ref in places]
    made = [each for each in there if each.made]
    for before, after in pairwise(made):
        if places[after.ref] > places[before.ref]:
            broken.append(f"out of order: {after.ref} was accepted after {before.ref} and lies before it")
    oldest = max((places[each.ref] for each in there), default=-1)
    refs = {each.ref: each for each in (*there, *made)}
    findings = tuple(_judged(facts, commit, refs, older=number > oldest) for number, commit in enumerate(facts.commits))
    broken += [_unaccepted(facts, each, made) for each in findings if each.kind is Kind.UNACCEPTED]
    return Verdict(findings, (*broken, *_twice(made)))


def _judged(facts: Facts, commit: Commit, accepted: Mapping[CommitRef, Accepted], *, older: bool) -> Finding:
    found = accepted.get(commit.ref)
    if found is not None:
        return Finding(commit, Kind.ACCEPTED, found.logical_task)
    if commit.ref in facts.kept:
        return Finding(commit, Kind.KEPT)
    for claim in facts.claims:
        # A publication that landed a second time has the tree of the first and another parent.
        if claim.tree == commit.tree and (claim.parent in commit.parents or not older):
            kind = Kind.UNDER_WAY if claim.task_id in facts.open_tasks else Kind.UNACCEPTED
            return Finding(commit, kind, claim.logical_task)
    return Finding(commit, Kind.EARLIER if older else Kind.STRANGER)


def _unaccepted(facts: Facts, finding: Finding, made: Iterable[Accepted]) -> str:
    twice = [each.ref for each in made if each.logical_task == finding.whose]
    also = f"; the result that was accepted is there as well, so {finding.whose} is there twice" if twice else ""
    return f"never accepted: {finding.commit.ref} on {facts.target} was made for {finding.whose}{also}"


def _twice(made: Iterable[Accepted]) -> tuple[str, ...]:
    """Name tasks of which two results count."""
    found: dict[str, CommitRef] = {}
    broken: list[str] = []
    for each in made:
        first = found.setdefault(each.logical_task, each.ref)
        if first != each.ref:
            broken.append(f"twice: {each.logical_task} was accepted with {first} and with {each.ref}")
    return tuple(broken)


# ---------------------------------------------------------------------------------------------------------------------
# Asking the servers


def verify(stack: Stack, pipelines: Pipelines, target: Target) -> Verdict:
    """Ask orchestrator, ledger and store, in this order, and judge; what cannot be read is a ``StackError``.

    What is accepted and published meanwhile is on the branch when the branch is read, and is then *under way*.
    """
    accepted, logical_tasks = _accepted(pipelines, target)
    settled = [each for each in _done(audits(stack), "the ledger") if isinstance(each, Audit)]
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
    commits, whole = _walk(stack, target, {each.ref for each in accepted})
    trees = {commit.ref: commit.tree for commit in commits}
    written = {(each.task_id, move.after) for each, move in moves if move.moves}
    written |= {(claim.task_id, ref) for claim in claims for ref, tree in trees.items() if claim.tree == tree}
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
        )
    )


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


def _walk(stack: Stack, target: Target, wanted: set[CommitRef]) -> tuple[tuple[Commit, ...], bool]:
    """Read the branch from its head down until everything wanted was met, at the root, or at the limit."""
    head = _done(stack.store.head(target), str(target))
    if head is None:
        raise StackError(f"{target} cannot be verified: there is no such branch")
    commits = [head.commit]
    missing = wanted - {head.commit.ref}
    while commits[-1].parents and (missing or len(commits) == 1):
        if len(commits) == WALK_LIMIT:
            return tuple(commits), False
        found = _done(stack.store.look(target.repository, commits[-1].parents[0]), f"the history of {target}")
        if found is None:
            return tuple(commits), False
        commits.append(found)
        missing.discard(found.ref)
    return tuple(commits), True


def _done(answer: Answer[T], what: str) -> T:
    if isinstance(answer, Done):
        return answer.value
    raise StackError(f"{what} cannot be read, so nothing is proved: {answer.reason}. Try again once it answers")
