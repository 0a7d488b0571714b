"""Carrying out a plan: the only code that moves a head. One function merges, one relocates.

Everything the plan is conditioned on is in the record that is swapped, so the movement happens in the very state in
which the conditions were checked, or not at all. Nothing is decided here: a plan whose conditions do not hold is
refused with what was expected and what was found.
"""

from __future__ import annotations

from attrs import evolve

from perago_bucket import claims, commits, manifest, record
from perago_bucket.layout import Place
from perago_bucket.record import Record
from perago_core.answers import NotDoneError
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.values import CommitRef


def publish(place: Place, plan: PublishPlan) -> CommitRef:
    """Move the target as the plan says, and give the published commit."""

    def move(found: Record) -> tuple[Record | None, CommitRef]:
        _check(place, found, plan)
        to = _merged(place, found, plan) if plan.kind is PlanKind.MERGE else commits.needed(place, plan.commit).ref
        return evolve(found, head=to), to

    return record.change(place, plan.target.branch, move)


def _check(place: Place, found: Record, plan: PublishPlan) -> None:
    if plan.condition is not Condition.NONE and found.head != plan.expected:
        message = (
            f"expected head {plan.expected} on {plan.target}, found {found.head}: somebody moved it since it was read"
        )
        raise NotDoneError(message)
    if plan.condition is Condition.HEAD_AND_CLAIM:
        _check_claim(place, found, plan)
    if plan.name is not None:
        at = found.names.get(plan.name)
        if at is None or at.at != plan.commit:
            seen = "no such name" if at is None else at.at
            message = (
                f"expected staging name {plan.name} at {plan.commit}, found {seen}: "
                "it was revoked, or is not this attempt's"
            )
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
    """Return the commit to move forward to: one whose only parent is the head (ST-4)."""
    staged = commits.needed(place, plan.commit)
    if staged.parents == (found.head,):
        return staged.ref
    # The head is not what was staged on: maintenance came between, or under ``soft`` anybody.
    base, ours = commits.needed(place, staged.parents[0]).tree, commits.needed(place, found.head).tree
    tree = manifest.merged(place, base, ours, staged.tree)
    if tree == ours:
        message = f"expected {plan.commit} to change {plan.target}, found nothing to merge"
        raise NotDoneError(message)
    by = dict(staged.metadata)["committer"]
    return commits.write(place, tree, (found.head,), staged.message, by)
