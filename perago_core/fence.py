"""The publish fence: the only place that decides a publication, and the only producer of a ``PublishPlan``.

The head rule of the seeds never changes:

=====================  ======================================  =================================
the target's head      the attempt changed something           the attempt changed nothing
=====================  ======================================  =================================
is the input           merge the staged commit                 nothing to do, output is the input
its only parent is     replace it by the staged commit,        return the target to the input
the input              history A -> C, never A -> H -> C
anything else          refuse                                  refuse
=====================  ======================================  =================================

Outside ``soft`` an attempt that adopts takes over a child of the input that an earlier attempt of its task published:
it reports that commit with the result on record, and nothing is replaced. Only where no result is on record, or the
task wants its abandoned publications replaced, a child may be replaced, if the owner rule proves it abandoned. Nothing
is published past the attempt's own deadline, and under ``locked`` the lease must outlast the request. ``decide`` is
total and deterministic, and it never reads a message or metadata: permission does not come from what anybody wrote
there.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, TypeAlias, assert_never

from attrs import frozen

from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.results import Classification, Refusal
from perago_core.value import Value
from perago_core.values import (
    Attempt,
    Backing,
    Claim,
    Commit,
    CommitRef,
    Head,
    Maintained,
    Operation,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
    claim_of,
)


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
    """Return the reason why this head must not be replaced, or ``None`` if it is proven abandoned.

    Whoever may adopt it counts too, not only who may have made it. Counterexample: t1 publishes and times out; its twin
    finds that, claims, and is going to report it; t2 outranks the twin, truthfully sees t1 ended and unaccepted, and
    plans the replacement; the twin reports t1's commit and is accepted; the replacement lands.
    """
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
    for claim in others:
        state = known.get(claim.task_id, Standing.DEAD)
        if state in {Standing.ACCEPTED, Standing.LIVE}:
            found = f"task {claim.task_id}, which may have adopted it, is {state.value}"
            return _refusal(head, found, "Wait until the orchestrator has ended that task, or ask an operator.")
    return None


def adoptable(head: Commit, attempt: Attempt, claims: tuple[Claim, ...]) -> Claim | None:
    """Give the claim by which this head was published for the attempt's own task with a known result, if there is one.

    A no-op publishes nothing: its claim is all it leaves, and while the head is its input, the claim says what its
    result is. Counterexample to leaving that out: of two twins one changes nothing, looks at the head and is about to
    report its input; the other one publishes; both are accepted, with different results.

    Whether its owner lives, died, was accepted or is forgotten makes no difference: the commit is this task's, and
    whoever reports it reports the same commit. Several claims to one tree on one input have published the same data;
    the newest one's result is taken.
    """
    if not attempt.adopts:
        return None
    matching = (
        claim
        for claim in claims
        if claim.execution != attempt.execution
        and claim.result is not None
        and claim.parent == attempt.input
        and (
            head.ref == claim.parent
            if claim.tree is None
            else head.parents == (claim.parent,) and head.tree == claim.tree
        )
    )
    return max(matching, key=lambda claim: claim.number, default=None)


def _refusal(head: Commit, actual: str, next_action: str) -> Refusal:
    return Refusal(
        Classification.HEAD_NOT_REPLACEABLE,
        f"head {head.ref} to belong to an older attempt of this task that ended unaccepted",
        actual,
        next_action,
    )


@frozen(cache_hash=True, repr=False)
class Allowed(Value):
    """Carry out this plan."""

    plan: PublishPlan
    refusal: ClassVar[None] = None

    @property
    def verdict(self) -> str:
        """Name the decision by the movement it allows."""
        return self.plan.kind.value


@frozen(cache_hash=True, repr=False)
class Unneeded(Value):
    """The target already is what the attempt wants; report this ref."""

    output: CommitRef
    refusal: ClassVar[None] = None
    verdict: ClassVar[str] = "nothing"


@frozen(cache_hash=True, repr=False)
class Adopted(Value):
    """The target already is what an earlier attempt of the task published: report that commit with that result."""

    ref: CommitRef
    tree: str
    output: str
    refusal: ClassVar[None] = None
    verdict: ClassVar[str] = "adopt"


@frozen(cache_hash=True, repr=False)
class Refused(Value):
    """Leave the target alone and fail."""

    refusal: Refusal
    verdict: ClassVar[str] = "refuse"


@frozen(cache_hash=True, repr=False)
class Late(Value):
    """The attempt's own deadline has passed: it may belong to somebody else by now, so do not even report."""

    refusal: Refusal
    verdict: ClassVar[str] = "late"


Decision: TypeAlias = Allowed | Unneeded | Adopted | Refused | Late


@frozen(repr=False, slots=False, getstate_setstate=True)
class Case(Value):
    """Everything a decision may look at: what was pinned, what was staged, and the named fresh reads."""

    attempt: Attempt
    staged: StagedRef | None
    head: Head | None
    claims: tuple[Claim, ...] = ()
    standings: tuple[tuple[str, Standing], ...] = ()
    maintained: tuple[Maintained, ...] = ()
    preserved: bool = False
    token: int | None = None
    now: float = 0.0
    attempt_until: float = float("inf")
    lease_until: float = float("inf")
    #: What the body returned, which is part of the claim.
    output: str = "{}"
    #: The body has not run, because an earlier attempt's publication was found.
    adopting: bool = False


def decide(case: Case) -> Decision:
    """Give exactly one decision for every case; anything not allowed below is refused."""
    too_late = _out_of_time(case)
    if too_late is not None:
        return too_late
    if case.head is None:
        return _refuse(
            Classification.TARGET_MISSING,
            f"branch {case.attempt.target}",
            "no such branch",
            "Create the branch at the input ref or correct the target, then start a new workflow.",
        )
    if case.head.dirty:
        return _refuse(
            Classification.TARGET_DIRTY,
            f"{case.attempt.target} without uncommitted objects",
            "uncommitted objects on the target",
            "Commit or discard them, then let the orchestrator retry; relocation would mix them into the result.",
        )
    if case.attempt.operation is Operation.MAINTENANCE and case.staged is not None and not case.preserved:
        # What it calls itself proves nothing, and a logical writer is going to trust the record of it (H-15).
        return _refuse(
            Classification.CONTENT_NOT_PRESERVED,
            "maintenance with the logical content of its input, compared by the workspace",
            "other content, or a workspace that cannot compare it",
            "Declare the task as logical, or change the layout only, such as `ws.compact` does.",
        )
    return _adopt(case, case.head.commit) or _by_the_head(case, case.head.commit)


def _adopt(case: Case, head: Commit) -> Decision | None:
    """Take over what an earlier attempt has published; ``None``: nothing of the kind is there, nor was looked for."""
    published = adoptable(head, case.attempt, case.claims)
    if published is not None:
        assert published.result is not None
        return Adopted(head.ref, head.tree, published.result)
    if not case.adopting:
        return None
    return _refuse(
        Classification.ADOPTED_GONE,
        f"what an earlier attempt published at the head of {case.attempt.target}, as it was when this one began",
        f"head {head.ref} with parents {_list(head.parents)}",
        "Let the orchestrator retry: the next attempt runs the body, or refuses what it finds.",
    )


def _by_the_head(case: Case, head: Commit) -> Decision:
    """Apply the rule of the seeds."""
    if head.ref == case.attempt.input:
        return _on_input(case)
    if case.attempt.operation is Operation.MAINTENANCE:
        return _maintenance(case, head)
    if case.attempt.over_maintenance and _only_maintenance(case, head.ref):
        return _on_maintained(case, head.ref)
    if head.parents == (case.attempt.input,):
        return _on_child(case, head)
    return _elsewhere(case, head)


def _out_of_time(case: Case) -> Decision | None:
    """Judge the clocks. ``soft`` has none: the seed protocol knows no local deadline."""
    attempt = case.attempt
    if attempt.backing is Backing.SOFT:
        return None
    if case.now >= case.attempt_until:
        # A read that looks fine proves nothing here: paused since the read, we may wake after the orchestrator has
        # handed the task to somebody else. Past the deadline counted from our last good heartbeat, nothing is sent.
        refusal = Refusal(
            Classification.ATTEMPT_LATE,
            "to act before the attempt's deadline",
            f"the deadline passed {case.now - case.attempt_until:.3f} s ago",
            "Nothing to do: the orchestrator gives the task to a new attempt.",
        )
        return Late(refusal)
    if attempt.backing is Backing.LOCKED and case.lease_until - case.now <= attempt.budget.publish_timeout:
        return _refuse(
            Classification.LEASE_TOO_SHORT,
            f"more than {attempt.budget.publish_timeout:g} s of lease left for the publish request",
            f"{case.lease_until - case.now:.3f} s",
            "Let the orchestrator retry; if this repeats, raise lease_ttl or lower publish_timeout.",
        )
    return None


def _on_input(case: Case) -> Decision:
    if case.staged is None:
        return Unneeded(case.attempt.input)
    return Allowed(_plan(case, PlanKind.MERGE, case.attempt.input, case.staged.commit, case.staged.tree))


def _on_child(case: Case, head: Commit) -> Decision:
    """Replace or remove a direct child of the input: in ``soft`` any, otherwise only a proven abandoned sibling."""
    if case.attempt.backing is not Backing.SOFT:
        refusal = objection(head, case.attempt, case.claims, case.standings)
        if refusal is not None:
            return Refused(refusal)
    if case.staged is None:
        return Allowed(_plan(case, PlanKind.RETURN, head.ref, case.attempt.input, None))
    return Allowed(_plan(case, PlanKind.REPLACE, head.ref, case.staged.commit, case.staged.tree))


def _maintenance(case: Case, head: Commit) -> Decision:
    """Advance, or do nothing when the goal is already met; never take a commit off the target (H-12, H-14, S-35)."""
    staged = case.staged
    if staged is not None and head.parents == (case.attempt.input,) and head.tree == staged.tree:
        return Unneeded(head.ref)
    return _refuse(
        Classification.HEAD_ADVANCED,
        f"{case.attempt.target} at {case.attempt.input} or already maintained",
        f"{head.ref} with parents {_list(head.parents)}",
        "Start the maintenance again from the current head; it never replaces or removes a commit.",
    )


def _only_maintenance(case: Case, head: CommitRef) -> bool:
    """Return whether the ledger proves every commit between the input and the head to be maintenance (H-15, H-16).

    The chain is followed through the ledger's own records, so it costs no read of the history (P-14).
    """
    parent_of = {record.ref: record.parent for record in case.maintained}
    at = head
    for _ in range(len(parent_of)):
        if at == case.attempt.input:
            return True
        if at not in parent_of:
            return False
        at = parent_of[at]
    return at == case.attempt.input


def _on_maintained(case: Case, head: CommitRef) -> Decision:
    """Publish on top of maintenance. The store merges three ways, so the resulting tree is not known in advance."""
    if case.staged is None:
        return Unneeded(case.attempt.input)
    return Allowed(_plan(case, PlanKind.MERGE, head, case.staged.commit, None))


def _elsewhere(case: Case, head: Commit) -> Decision:
    merged = case.attempt.input in head.parents
    return _refuse(
        Classification.HEAD_MERGED if merged else Classification.HEAD_ELSEWHERE,
        f"head of {case.attempt.target} to be {case.attempt.input} or its only parent to be {case.attempt.input}",
        f"head {head.ref} with parents {_list(head.parents)}",
        "Start a new workflow from the current head, or have an operator decide what the branch should be.",
    )


def _plan(case: Case, kind: PlanKind, expected: CommitRef, commit: CommitRef, tree: str | None) -> PublishPlan:
    attempt = case.attempt
    backing = attempt.backing
    # On ``atomic`` the claim stops older attempts of the own task; the name anybody can revoke.
    by_name = backing is not Backing.SOFT or kind is PlanKind.MERGE
    return PublishPlan(
        kind=kind,
        target=attempt.target,
        expected=expected,
        commit=commit,
        condition=_CONDITIONS[backing],
        name=attempt.staging_name if by_name else None,
        tree=tree,
        claim=claim_of(attempt, case.staged, case.output) if backing is Backing.ATOMIC else None,
        token=case.token,
        epoch=attempt.epoch,
        operation=attempt.operation,
    )


_CONDITIONS = {
    Backing.SOFT: Condition.NONE,
    Backing.ATOMIC: Condition.HEAD_AND_CLAIM,
    Backing.CONDITIONAL: Condition.HEAD,
    Backing.LOCKED: Condition.HEAD,
}


def compensate(target: Target, parent: CommitRef, head: Head, name: str | None) -> PublishPlan:
    """Plan the one movement recovery may make: back from an abandoned head to its only parent, exclusively (K-02)."""
    if head.commit.parents != (parent,):
        message = f"only a direct, single-parent child of {parent} can be taken back, not {head.commit.ref}"
        raise ValueError(message)
    return PublishPlan(
        kind=PlanKind.RETURN,
        target=target,
        expected=head.commit.ref,
        commit=parent,
        condition=Condition.HEAD,
        name=name,
    )


def verified(plan: PublishPlan, published: Commit) -> bool:
    """Return whether the commit the store says it published is where and what the plan wanted (S-04)."""
    if plan.kind is PlanKind.RETURN:
        return published.ref == plan.commit
    if plan.kind is PlanKind.REPLACE and published.ref != plan.commit:
        return False
    # A replacement takes the head's place, so its parent is the head's parent; decide() only replaces a head whose only
    # parent is the input, and the staged commit was made on the input.
    placed = len(published.parents) == 1 and (plan.kind is not PlanKind.MERGE or published.parents[0] == plan.expected)
    return placed and plan.tree in {None, published.tree}


def provably_ours(plan: PublishPlan, head: Commit) -> bool:
    """Return whether an effect nobody confirmed is certainly this plan's.

    Asked after the own name is dropped and the barrier has answered, by an attempt that is still current: older
    attempts are revoked, duplicates of this attempt have lost the claim, newer ones do not exist. So a commit with our
    parent and our tree is ours. A return to the input proves nothing, since the input was there before us; a merge over
    maintenance has no tree to compare.
    """
    match plan.kind:
        case PlanKind.MERGE:
            return plan.tree is not None and head.parents == (plan.expected,) and head.tree == plan.tree
        case PlanKind.REPLACE:
            return head.ref == plan.commit
        case PlanKind.RETURN:
            return False
        case _:
            assert_never(plan.kind)


def _refuse(classification: Classification, expected: str, actual: str, next_action: str) -> Refused:
    return Refused(Refusal(classification, expected, actual, next_action))


def _list(parents: tuple[CommitRef, ...]) -> str:
    return f"[{', '.join(parents)}]"
