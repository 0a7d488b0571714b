"""Carrying out a plan: the only code that moves a head.

Everything the plan is conditioned on is in the record that is swapped, so the movement happens in the very state in
which the conditions were checked, or not at all. Nothing is decided here: a plan whose conditions do not hold is
refused with what was expected and what was found.
"""

from __future__ import annotations

from functools import partial

from attrs import evolve

from perago_bucket import claims, commits, manifest, record, together
from perago_bucket.layout import Place, place_of
from perago_bucket.record import Record
from perago_core.answers import NotDoneError
from perago_core.names import over_message
from perago_core.plan import Along, Condition, PlanKind, PublishPlan
from perago_core.values import CommitRef, Target


def publish(place: Place, plan: PublishPlan) -> CommitRef:
    """Move the target as the plan says, and give the published commit."""

    def judge(found: Record) -> CommitRef:
        _check(place, found, plan)
        return _merged(place, found, plan) if plan.kind is PlanKind.MERGE else commits.needed(place, plan.commit).ref

    def move(found: Record) -> tuple[Record | None, CommitRef]:
        to = judge(found)
        return evolve(found, head=to), to

    if not plan.along:
        return record.change(place, plan.target.branch, move)
    moves = {(place, plan.target.branch): judge}
    for each in plan.along:
        beside = place_of(place.bucket, each.target.repository)
        moves[beside, each.target.branch] = partial(_along, beside, each)
    return together.move(place, moves)[0]


def _along(place: Place, along: Along, found: Record) -> CommitRef:
    """Judge a further target: it goes to a commit that was made on the head the plan expects."""
    _check_head(found, along.target, along.expected)
    _check_name(found, along.name, along.commit)
    return commits.needed(place, along.commit).ref


def _check(place: Place, found: Record, plan: PublishPlan) -> None:
    if plan.condition is not Condition.NONE:
        _check_head(found, plan.target, plan.expected)
    if plan.condition is Condition.HEAD_AND_CLAIM:
        _check_claim(place, found, plan)
    if plan.name is not None:
        _check_name(found, plan.name, plan.commit)


def _check_head(found: Record, target: Target, expected: CommitRef) -> None:
    if found.head != expected:
        message = f"expected head {expected} on {target}, found {found.head}: somebody moved it since it was read"
        raise NotDoneError(message)


def _check_name(found: Record, name: str, commit: CommitRef) -> None:
    at = found.names.get(name)
    if at is None or at.at != commit:
        seen = "no such name" if at is None else at.at
        message = f"expected staging name {name} at {commit}, found {seen}: it was revoked, or is not this attempt's"
        raise NotDoneError(message)


def _check_claim(place: Place, found: Record, plan: PublishPlan) -> None:
    claim = plan.claim
    if claim is None:
        raise NotDoneError("expected a plan that carries the claim it is conditioned on, found none")
    if not claims.is_highest(found, claim):
        standing = claims.highest(place, found, claim)
        seen = "none" if standing is None else f"attempt {standing.number}, execution {standing.execution}"
        message = (
            f"expected the claim of attempt {claim.number}, execution {claim.execution}, found {seen}: "
            "the task belongs to somebody else now"
        )
        raise NotDoneError(message)


def _merged(place: Place, found: Record, plan: PublishPlan) -> CommitRef:
    """Return the commit to move forward to: its only parent is the head (ST-4), or its first one, if it joins."""
    staged = commits.needed(place, plan.commit)
    if staged.parents == (found.head,) and not plan.over:
        return staged.ref
    # The head is not what was staged on: other writers of a shared branch or maintenance came between, or under
    # ``soft`` anybody.
    base, ours = commits.needed(place, staged.parents[0]).tree, commits.needed(place, found.head).tree
    tree = manifest.merged(place, base, ours, staged.tree)
    if tree == ours:
        message = f"expected {plan.commit} to change {plan.target}, found nothing to merge"
        raise NotDoneError(message)
    by = dict(staged.metadata)["committer"]
    parents = (found.head, staged.ref) if plan.joins else (found.head,)
    return commits.write(place, tree, parents, over_message(staged.message, plan.over), by)
