"""Carrying out a plan: the only code that moves a target. One function merges, one relocates.

Everything the plan is conditioned on is read while nobody else can change it, and the movement is one rename. Nothing
is decided here: a plan whose conditions do not hold is refused with what was expected and what was found.
"""

from __future__ import annotations

import pygit2

from perago_core.answers import NotDoneError
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.values import CommitRef
from perago_local.git import claims, trees
from perago_local.git.repository import head_ref, needed, new_commit, raised_ref, staging_ref
from perago_local.git.tickets import Moves, exclusively


def publish(repository: pygit2.Repository, plan: PublishPlan, patience: float) -> CommitRef:
    """Move the target as the plan says, and give the published commit."""
    refs = [head_ref(plan.target.branch)]
    if plan.claim is not None:
        refs.append(raised_ref(plan.claim.target, plan.claim.logical_task))
    if plan.name is not None:
        refs.append(staging_ref(plan.name))

    def work(moves: Moves) -> CommitRef:
        head = _checked(moves, plan)
        move = _merge if plan.kind is PlanKind.MERGE else _relocate
        return CommitRef(str(move(moves, plan, head)))

    return exclusively(repository, refs, work, patience)


def _checked(moves: Moves, plan: PublishPlan) -> pygit2.Oid:
    """Return the head if the plan's conditions hold."""
    head = moves.read(head_ref(plan.target.branch))
    if head is None:
        message = f"expected branch {plan.target}, found none: create it at the input, or correct the target"
        raise NotDoneError(message)
    if plan.condition is not Condition.NONE and str(head) != plan.expected:
        message = f"expected head {plan.expected} on {plan.target}, found {head}: somebody moved it since it was read"
        raise NotDoneError(message)
    if plan.condition is Condition.HEAD_AND_CLAIM:
        _check_claim(moves, plan)
    if plan.name is not None:
        _check_name(moves, plan.name, plan.commit)
    return head


def _check_claim(moves: Moves, plan: PublishPlan) -> None:
    claim = plan.claim
    if claim is None:
        raise NotDoneError("expected a plan that carries the claim it is conditioned on, found none")
    standing = claims.highest(moves.repository, claim.target, claim.logical_task)
    if standing != claim:
        found = "none" if standing is None else f"attempt {standing.number}, execution {standing.execution}"
        message = (
            f"expected the claim of attempt {claim.number}, execution {claim.execution}, found {found}: "
            "the task belongs to somebody else now"
        )
        raise NotDoneError(message)


def _check_name(moves: Moves, name: str, commit: CommitRef) -> None:
    at = moves.read(staging_ref(name))
    if at is None or str(at) != commit:
        found = "no such name" if at is None else str(at)
        message = f"expected staging name {name} at {commit}, found {found}: it was revoked, or is not this attempt's"
        raise NotDoneError(message)


def _merge(moves: Moves, plan: PublishPlan, head: pygit2.Oid) -> pygit2.Oid:
    """Move the target forward to one commit whose only parent is its head (ST-4)."""
    repository = moves.repository
    staged = needed(repository, plan.commit)
    if staged.parent_ids == [head]:
        published = staged.id
    else:
        # The head is not what was staged on: maintenance came between, or under ``soft`` anybody.
        base, ours = staged.parents[0].tree_id, needed(repository, str(head)).tree_id
        tree = trees.merged(repository, (base, ours, staged.tree_id))
        if tree == ours:
            message = f"expected {plan.commit} to change {plan.target}, found nothing to merge"
            raise NotDoneError(message)
        published = new_commit(repository, tree, [head], staged.message, staged.committer.name)
    moves.move(head_ref(plan.target.branch), published)
    return published


def _relocate(moves: Moves, plan: PublishPlan, _head: pygit2.Oid) -> pygit2.Oid:
    """Move the target to a commit, wherever it was."""
    to = needed(moves.repository, plan.commit).id
    moves.move(head_ref(plan.target.branch), to)
    return to
