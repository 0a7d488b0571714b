"""The owner rule: whose commit is this head, and may it be replaced? Holds for every backing but ``soft``.

Pure over the claim records listed *before* the head was observed. A head may be replaced only if every record that
could be its owner (same parent, same tree; deterministic tasks give equal trees) is an older attempt of the same
logical task that has ended without being accepted. A head with no record is a stranger's and is never replaced.

The rule does not replace revocation. It judges what was true when the records were listed; only the barrier makes sure
that nobody older acts afterwards.
"""

from __future__ import annotations

from enum import Enum

from perago_core.results import Classification, Refusal
from perago_core.values import Attempt, Claim, Commit, TaskSnapshot, TaskStatus


class Standing(Enum):
    """What the orchestrator's word makes of the attempt behind a claim."""

    DEAD = "dead"
    LIVE = "live"
    ACCEPTED = "accepted"
    UNPROVEN = "unproven"


def standing(snapshot: TaskSnapshot | None) -> Standing:
    """Judge an attempt by its task. Acceptance belongs to the task id, whichever execution ran it.

    A task that is gone proves nothing. A completed one counts as accepted even if another execution's result was taken:
    its logical task is settled, and whoever wants its commit gone is an operator, not a retry.
    """
    if snapshot is None:
        return Standing.UNPROVEN
    if snapshot.status is TaskStatus.COMPLETED:
        return Standing.ACCEPTED
    return Standing.LIVE if snapshot.status.is_open else Standing.DEAD


def objection(
    head: Commit,
    attempt: Attempt,
    claims: tuple[Claim, ...],
    standings: tuple[tuple[str, Standing], ...],
) -> Refusal | None:
    """Give the reason why this head must not be replaced, or ``None`` if it is proven abandoned."""
    # Our own record never owns the head: nothing was sent for it yet. Counting it would keep a deterministic retry,
    # whose tree equals that of the publication it finds, from ever replacing it (L-03).
    others = [claim for claim in claims if claim.execution != attempt.execution]
    possible = [claim for claim in others if head.parents == (claim.parent,) and claim.tree == head.tree]
    if not possible:
        return _refusal(head, "no claim record: a stranger's commit", "Start a new workflow from the current head.")
    known = dict(standings)
    for claim in possible:
        if claim.number >= attempt.number:
            found = f"attempt {claim.number} may own it, and this is attempt {attempt.number}"
            return _refusal(head, found, "Nothing to do: a newer attempt, or this one, has published already.")
        state = known.get(claim.task_id, Standing.UNPROVEN)
        if state is not Standing.DEAD:
            found = f"its owner, task {claim.task_id}, is {state.value}"
            return _refusal(head, found, "Wait until the orchestrator has ended that task, or ask an operator.")
    return None


def _refusal(head: Commit, actual: str, next_action: str) -> Refusal:
    return Refusal(
        Classification.HEAD_NOT_REPLACEABLE,
        f"head {head.ref} to belong to an older attempt of this task that ended unaccepted",
        actual,
        next_action,
    )
