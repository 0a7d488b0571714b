"""Carrying out a plan: the only code that moves a target. One function merges, one relocates.

Both act by the staging name where the plan has one, because a deleted name stops a request that is late (F-06), and
both are sent once: a squash merge that is sent again makes another commit. Nothing is decided here.

What is checked first takes its time from the same ``publish_timeout``. Counterexample: a lease outlasts the time-out of
a reset, but the check before it is held up for a minute. By then somebody else holds the lease and has published, and
the reset undoes that.
"""

from __future__ import annotations

from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.values import CommitRef, Target
from perago_lakefs import hook
from perago_lakefs.answers import Problem, Refused, Uncertain, body_of, described, status_of, words
from perago_lakefs.client import Wire

_BAD_REQUEST, _FORBIDDEN, _CONFLICT, _PRECONDITION = 400, 403, 409, 412


def publish(wire: Wire, plan: PublishPlan) -> CommitRef:
    """Move the target as the plan says, and give the published commit. The wire says how long that may take."""
    _check(wire, plan)
    move = _merge if plan.kind is PlanKind.MERGE else _relocate
    try:
        return move(wire, plan)
    except Problem as problem:
        taught = _taught(problem, plan)
        if taught is None:
            raise
        raise Refused(taught) from problem


def _merge(wire: Wire, plan: PublishPlan) -> CommitRef:
    """Add one commit to the target whose only parent is its head (S-04)."""
    source = plan.name or plan.commit
    said = {hook.EXPECTED: plan.expected, hook.STAGED: plan.commit}
    return wire.merge(plan.target.repository, source, plan.target.branch, f"Publish {source}", said)


def _relocate(wire: Wire, plan: PublishPlan) -> CommitRef:
    """Move the target to a commit, wherever it was."""
    wire.hard_reset(plan.target.repository, plan.target.branch, plan.name or plan.commit)
    return plan.commit


def _check(wire: Wire, plan: PublishPlan) -> None:
    """Refuse what must not be sent, and what nobody could say of whether it may be: nothing was sent yet."""
    try:
        if plan.kind is PlanKind.MERGE and plan.condition is not Condition.NONE and plan.token is None:
            check_hook(wire, plan.target.repository, plan.commit)
        else:
            _check_name(wire, plan)  # under a lease, and without one, the hook is welcome and not needed
    except Problem as problem:
        message = (
            f"expected to see first whether {plan.target} may be moved, found {described(problem)}. Nothing was moved: "
            "try again"
        )
        raise Refused(message) from problem


def _check_name(wire: Wire, plan: PublishPlan) -> None:
    """Refuse early what acts by a name that is not where the plan says; the hook, where there is one, is never late."""
    at = None if plan.name is None else wire.branch(plan.target.repository, plan.name)
    if plan.name is not None and at != plan.commit:
        message = (
            f"expected staging name {plan.name} at {plan.commit}, found {at or 'no such name'}: it was revoked, or is "
            "not this attempt's"
        )
        raise Refused(message)


def check_hook(wire: Wire, repository: str, ref: str) -> None:
    """Refuse a commit that does not bring the hook: lakeFS would merge it onto any head."""
    found = wire.checksum(repository, ref, hook.PATH)
    if found != hook.CHECKSUM:
        what = "none" if found is None else "another text"
        message = (
            f"expected the hook {hook.PATH} of this release in {ref}, found {what}: run 'perago init-repo {repository}'"
            " and start again from the new head"
        )
        raise Refused(message)


def barrier(wire: Wire, target: Target, first: CommitRef) -> None:
    """Make lakeFS take a turn on the branch: requests that began before fail, or have ended.

    Only ``no changes`` says that it did. On a dirty branch lakeFS turns back before its turn, and a late request lands.
    """
    try:
        made = wire.merge(target.repository, first, target.branch, "Barrier", {})
    except Problem as problem:
        if status_of(problem) == _BAD_REQUEST and "no changes" in body_of(problem):
            return
        if _is_dirty(problem):
            raise Refused(_dirty(target)) from problem
        raise
    message = f"expected that merging the first commit {first} changes nothing on {target}, found that it made {made}"
    raise Uncertain(message)


def _taught(problem: Exception, plan: PublishPlan) -> str | None:
    """Say what a refusal means here and what to do; ``None``: nothing better than lakeFS's own words."""
    status = status_of(problem)
    if status == _PRECONDITION:
        found = hook.found_by(words(body_of(problem)))
        if found is None:
            return f"a hook of the repository refused the merge into {plan.target}: {described(problem)}"
        kind, ref = found
        wanted = plan.expected if kind == "head" else plan.commit
        return f"expected {kind} {wanted} on {plan.target}, found {ref}: somebody moved it since it was read"
    if status == _FORBIDDEN:
        return (
            f"{plan.target} may not be relocated: {described(problem)}. Take it out of the branch protection rules, "
            "or return it to the input by hand"
        )
    if status == _CONFLICT:
        return f"expected {plan.target} at {plan.expected}, found that somebody changed the same objects meanwhile"
    return _dirty(plan.target) if _is_dirty(problem) else None


def _is_dirty(problem: Exception) -> bool:
    return status_of(problem) == _BAD_REQUEST and "dirty branch" in body_of(problem)


def _dirty(target: Target) -> str:
    return f"expected {target} without uncommitted objects, found some: commit or discard them"
