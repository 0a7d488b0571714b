"""Carrying out a plan: the only code that moves a target. One function merges, one relocates.

Both act by the staging name where the plan has one, because a deleted name stops a request that is late (F-06), and
both are sent once: a squash merge that is sent again makes another commit. Nothing is decided here.

What is checked first takes its time from the same ``publish_timeout``. Counterexample: a lease outlasts the time-out of
a reset, but the check before it is held up for a minute. By then somebody else holds the lease and has published, and
the reset undoes that.
"""

from __future__ import annotations

from perago_core.answers import NotDoneError
from perago_core.names import merge_message, over_message
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.values import CommitRef
from perago_lakefs import hook
from perago_lakefs.answers import (
    Problem,
    body_of,
    described,
    is_conflict,
    is_dirty,
    is_forbidden,
    is_refused_by_hook,
    message_of,
)
from perago_lakefs.barrier import refused_as_dirty
from perago_lakefs.client import Client


def publish(client: Client, plan: PublishPlan) -> CommitRef:
    """Move the target as the plan says, and give the published commit. The client says how long that may take."""
    if plan.along:
        further = ", ".join(str(each.target) for each in plan.along)
        message = (
            f"expected a plan of one target, found {further} beside {plan.target}: lakeFS moves one branch at a time. "
            "Use a bucket as the store, or publish by tasks of one target each"
        )
        raise NotDoneError(message)
    _check(client, plan)
    move = _merge if plan.kind is PlanKind.MERGE else _relocate
    try:
        return move(client, plan)
    except Problem as problem:
        taught = _taught(problem, plan)
        if taught is None:
            raise
        raise NotDoneError(taught) from problem


def _merge(client: Client, plan: PublishPlan) -> CommitRef:
    """Add one commit to the target whose only parent is its head (S-04), or whose first one, if it joins."""
    source = plan.name or plan.commit
    metadata = {hook.EXPECTED: plan.expected, hook.STAGED: plan.commit}
    message = over_message(merge_message(source), plan.over)
    return client.merge(plan.target.repository, source, plan.target.branch, message, metadata, squash=not plan.joins)


def _relocate(client: Client, plan: PublishPlan) -> CommitRef:
    """Move the target to a commit, wherever it was."""
    client.hard_reset(plan.target.repository, plan.target.branch, plan.name or plan.commit)
    return plan.commit


def _check(client: Client, plan: PublishPlan) -> None:
    """Refuse what must not be sent, and what nobody could say of whether it may be: nothing was sent yet."""
    try:
        if plan.kind is PlanKind.MERGE and plan.condition is not Condition.NONE and plan.token is None:
            check_hook(client, plan.target.repository, plan.commit)
        else:
            _check_name(client, plan)  # under a lease, and without one, the hook is welcome and not needed
    except Problem as problem:
        message = (
            f"expected to see first whether {plan.target} may be moved, found {described(problem)}. Nothing was moved: "
            "try again"
        )
        raise NotDoneError(message) from problem


def _check_name(client: Client, plan: PublishPlan) -> None:
    """Refuse early what acts by a name that is not where the plan says; the hook, where there is one, is never late."""
    at = None if plan.name is None else client.branch(plan.target.repository, plan.name)
    if plan.name is not None and at != plan.commit:
        message = (
            f"expected staging name {plan.name} at {plan.commit}, found {at or 'no such name'}: it was revoked, or is "
            "not this attempt's"
        )
        raise NotDoneError(message)


def check_hook(client: Client, repository: str, ref: str) -> None:
    """Refuse a commit that does not bring the hook: lakeFS would merge it onto any head."""
    found = client.checksum(repository, ref, hook.PATH)
    if found not in hook.TEXTS:
        what = "none" if found is None else "another text"
        message = (
            f"expected the hook {hook.PATH} of this release in {ref}, found {what}: run 'perago init-repo {repository}'"
            " and start again from the new head"
        )
        raise NotDoneError(message)


def _taught(problem: Exception, plan: PublishPlan) -> str | None:
    """Say what a refusal means here and what to do; ``None``: nothing better than lakeFS's own words."""
    if is_refused_by_hook(problem):
        found = hook.found_by(message_of(body_of(problem)))
        if found is None:
            return f"a hook of the repository refused the merge into {plan.target}: {described(problem)}"
        kind, ref = found
        wanted = plan.expected if kind == "head" else plan.commit
        return f"expected {kind} {wanted} on {plan.target}, found {ref}: somebody moved it since it was read"
    if is_forbidden(problem):
        return (
            f"{plan.target} may not be relocated: {described(problem)}. Take it out of the branch protection rules, "
            "or return it to the input by hand"
        )
    if is_conflict(problem):
        return f"expected {plan.target} at {plan.expected}, found that somebody changed the same objects meanwhile"
    return refused_as_dirty(plan.target) if is_dirty(problem) else None
