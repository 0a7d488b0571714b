"""Carrying out a plan: the only code that moves a target.

Everything the plan is conditioned on is read while nobody else can change it, and the movement is one rename: of the
target, or where there are further ones of a journal that moves all of them. Nothing is decided here: a plan whose
conditions do not hold is refused with what was expected and what was found.
"""

from __future__ import annotations

import pygit2

from perago_core.answers import NotDoneError
from perago_core.names import over_message
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.values import CommitRef, Target
from perago_local.git import claims, trees
from perago_local.git.repository import head_ref, needed, new_commit, raised_ref, staging_ref
from perago_local.git.tickets import Moves, exclusively, journal_name


def publish(repository: pygit2.Repository, plan: PublishPlan, patience: float) -> CommitRef:
    """Move the target as the plan says, and give the published commit."""
    refs = [head_ref(plan.target.branch)]
    if plan.claim is not None:
        refs.append(raised_ref(plan.claim.target, plan.claim.logical_task))
    if plan.name is not None:
        refs.append(staging_ref(plan.name))
    journal = journal_name()
    if plan.along:
        refs += [journal, *(head_ref(each.target.branch) for each in plan.along)]
        refs += [staging_ref(each.name) for each in plan.along]

    def work(moves: Moves) -> CommitRef:
        head = _checked(moves, plan)
        made = _merged(moves, plan, head) if plan.kind is PlanKind.MERGE else needed(repository, plan.commit).id
        if plan.along:
            moves.move_together(journal, {head_ref(plan.target.branch): made, **_along(moves, plan)})
        else:
            moves.move(head_ref(plan.target.branch), made)
        return CommitRef(str(made))

    return exclusively(repository, refs, work, patience)


def _along(moves: Moves, plan: PublishPlan) -> dict[str, pygit2.Oid]:
    """Say where the further targets of a plan go, if its conditions hold for each of them."""
    to: dict[str, pygit2.Oid] = {}
    for each in plan.along:
        ref = head_ref(each.target.branch)
        _check_head(moves, each.target, each.expected)
        _check_name(moves, each.name, each.commit)
        to[ref] = needed(moves.repository, each.commit).id
    return to


def _check_head(moves: Moves, target: Target, expected: CommitRef | None) -> pygit2.Oid:
    head = moves.read(head_ref(target.branch))
    if head is None:
        message = f"expected branch {target}, found none: create it at the input, or correct the target"
        raise NotDoneError(message)
    if expected is not None and str(head) != expected:
        message = f"expected head {expected} on {target}, found {head}: somebody moved it since it was read"
        raise NotDoneError(message)
    return head


def _checked(moves: Moves, plan: PublishPlan) -> pygit2.Oid:
    """Return the head if the plan's conditions hold."""
    head = _check_head(moves, plan.target, None if plan.condition is Condition.NONE else plan.expected)
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


def _merged(moves: Moves, plan: PublishPlan, head: pygit2.Oid) -> pygit2.Oid:
    """Return the commit to move forward to: its only parent is the head (ST-4), or its first one, if it joins."""
    repository = moves.repository
    staged = needed(repository, plan.commit)
    if staged.parent_ids == [head] and not plan.over:
        return staged.id
    # The head is not what was staged on: other writers of a shared branch or maintenance came between, or under
    # ``soft`` anybody.
    base, ours = staged.parents[0].tree_id, needed(repository, str(head)).tree_id
    tree = trees.merged(repository, (base, ours, staged.tree_id))
    if tree == ours:
        message = f"expected {plan.commit} to change {plan.target}, found nothing to merge"
        raise NotDoneError(message)
    parents = [head, staged.id] if plan.joins else [head]
    message = over_message(staged.message, plan.over)
    return new_commit(repository, tree, parents, message, staged.committer.name)
