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
is published past the attempt's own deadline, and under ``locked`` the lease must outlast the request.

A task that declares what it reads and writes (``Scope``) has a rule of its own, where the store checks the head in its
own update: any head above its input will do, if nothing of what it declared differs and the newest publication between
is accepted. It never replaces anything, and what its task has published is adopted wherever it lies.

An attempt with further targets moves all of them from their inputs in one step. What an earlier attempt published to
several it adopts or refuses, and never replaces: whose the commits on the further ones are, no claim says.

``decide`` is total and deterministic, and permission never comes from what anybody wrote into a message or metadata.
What a commit says of itself can only take one away: a head that says it is another logical task's is not ours to adopt,
to replace or to report, however equal its tree (``is_anothers``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import ClassVar, TypeAlias, assert_never

from attrs import evolve, frozen

from perago_core.names import over_in, says_another
from perago_core.plan import Along, Condition, PlanKind, PublishPlan
from perago_core.results import Classification, Refusal
from perago_core.value import Value
from perago_core.values import (
    Attempt,
    Backing,
    Between,
    Claim,
    Commit,
    CommitRef,
    Head,
    Maintained,
    OnConflict,
    Operation,
    StagedBeside,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
    claim_of,
    staged_for,
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


def is_anothers(head: Commit, attempt: Attempt) -> bool:
    """Return whether a head says that it is another logical task's; ``soft`` does not ask, being the seed's protocol.

    Parent and tree do not tell whose a commit is where tasks write the same. Counterexample: an attempt claims a tree
    and is given up before it publishes; its retry changes nothing and is accepted with the input; the next step, or a
    workflow beside, publishes that very tree on that input. A twin, or a retry, takes the commit for its own task's.

    Whoever lies about it keeps a commit from being adopted or replaced, which is an attempt that fails, and gains
    nothing. One that says nothing is judged by parent, tree and claims alone.
    """
    return attempt.backing is not Backing.SOFT and says_another(head.message, attempt.logical_task)


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
    if is_anothers(head, attempt):
        return _refusal(head, "it says it is another task's", "Start a new workflow from the current head.")
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
    the newest one's result is taken. A head that says it is another task's is none of theirs.
    """
    if not attempt.adopts:
        return None
    anothers = is_anothers(head, attempt)
    matching = (
        claim
        for claim in claims
        if claim.execution != attempt.execution
        and claim.result is not None
        and claim.parent == attempt.input
        and (
            head.ref == claim.parent
            if claim.tree is None
            else head.parents == (claim.parent,) and head.tree == claim.tree and not anothers
        )
    )
    return max(matching, key=lambda claim: claim.number, default=None)


def published_by(commit: Commit, claim: Claim) -> bool:
    """Return whether a commit is what a claim of a task with a scope was about to publish, by commit facts alone."""
    return claim.staged is not None and claim.staged in {commit.ref, *commit.parents[1:]}


def reverted(commits: Iterable[Commit], claims: Iterable[Claim]) -> frozenset[CommitRef]:
    """Name what was published by these claims' task and undone again by a commit among these: it counts as absent.

    By commit facts alone, as what was published is: the commit carries what a recovery's claim says it undoes it with.
    """
    undoing = {claim.staged: claim.reverts for claim in claims if claim.reverts is not None}
    carried = {ref for commit in commits for ref in (commit.ref, *commit.parents[1:])}
    return frozenset(ref for staged, ref in undoing.items() if staged in carried)


def adoptable_between(attempt: Attempt, claims: tuple[Claim, ...], between: Between | None) -> Adopted | None:
    """Give what the attempt's own task has left above its input, wherever that lies now, if its result is on record.

    Not what was reverted: it is there no more, though its commit is. A no-op leaves nothing but its claim, and its
    place is its input, whatever came onto the branch since.
    """
    others = [claim for claim in claims if claim.execution != attempt.execution and claim.result is not None]
    others.sort(key=lambda claim: claim.number, reverse=True)
    commits = () if between is None else between.commits or ()
    gone = reverted((landed.commit for landed in commits), claims)
    for landed in commits:
        for claim in others if landed.commit.ref not in gone else ():
            if published_by(landed.commit, claim):
                assert claim.result is not None
                return Adopted(landed.commit.ref, landed.commit.tree, claim.result)
    for claim in others:
        if claim.tree is None:
            assert claim.result is not None
            return Adopted(claim.parent, None, claim.result)
    return None


def is_in_the_way(attempt: Attempt, staged: StagedRef | None, claims: tuple[Claim, ...], between: Between) -> bool:
    """Return whether an attempt has to wait for somebody else: for a publication to be accepted that may yet be undone.

    Not if it has nothing to publish, and not if it adopts.
    """
    if between.unaccepted is None or staged is None:
        return False
    return adoptable_between(attempt, claims, between) is None


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
    tree: str | None
    output: str
    refusal: ClassVar[None] = None
    verdict: ClassVar[str] = "adopt"


@frozen(cache_hash=True, repr=False)
class Refused(Value):
    """Leave the target alone and fail."""

    refusal: Refusal
    verdict: ClassVar[str] = "refuse"


@frozen(cache_hash=True, repr=False)
class Conflicting(Value):
    """Leave the target alone and fail for good: somebody has changed what the task declared, and it says to fail."""

    refusal: Refusal
    verdict: ClassVar[str] = "conflict"


@frozen(cache_hash=True, repr=False)
class Late(Value):
    """The attempt's own deadline has passed: it may belong to somebody else by now, so do not even report."""

    refusal: Refusal
    verdict: ClassVar[str] = "late"


Decision: TypeAlias = Allowed | Unneeded | Adopted | Refused | Conflicting | Late


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
    #: What lies between the input and the head, if a scope is declared.
    between: Between | None = None
    #: The head that the store has refused to move from already, and why it said so.
    refused: tuple[CommitRef, Refusal] | None = None
    #: The heads of the attempt's further targets, in their order.
    beside: tuple[Head | None, ...] = ()


def decide(case: Case) -> Decision:
    """Give exactly one decision for every case; anything not allowed below is refused."""
    too_late = _out_of_time(case)
    if too_late is not None:
        return too_late
    if case.head is None or case.head.dirty:
        return _unusable(case.attempt.target, case.head)
    if case.attempt.operation is Operation.MAINTENANCE and case.staged is not None and not case.preserved:
        # What it calls itself proves nothing, and a logical writer is going to trust the record of it (H-15).
        return _refuse(
            Classification.CONTENT_NOT_PRESERVED,
            "maintenance with the logical content of its input, compared by the workspace",
            "other content, or a workspace that cannot compare it",
            "Declare the task as logical, or change the layout only, such as `ws.compact` does.",
        )
    if case.attempt.shares:
        return _by_the_scope(case, case.head.commit)
    head = case.head.commit
    return _adopt(case, head) or _held_up(case, head) or _by_the_head(case, head)


def _unusable(target: Target, head: Head | None) -> Decision:
    if head is None:
        return _refuse(
            Classification.TARGET_MISSING,
            f"branch {target}",
            "no such branch",
            "Create the branch at the input ref or correct the target, then start a new workflow.",
        )
    return _refuse(
        Classification.TARGET_DIRTY,
        f"{target} without uncommitted objects",
        "uncommitted objects on the target",
        "Commit or discard them, then let the orchestrator retry; relocation would mix them into the result.",
    )


def _by_the_scope(case: Case, head: Commit) -> Decision:
    """Apply the rule of a branch that several workflows write to."""
    attempt, staged = case.attempt, case.staged
    found = adoptable_between(attempt, case.claims, case.between)
    if found is not None:
        return found
    if case.adopting:
        return _adopted_gone(case, head)
    if staged is None:
        return Unneeded(attempt.input)
    if head.ref != attempt.input or attempt.stacks:
        objecting = _against_joining(case, head)
        if objecting is not None:
            return objecting
    if case.refused is not None and case.refused[0] == head.ref:
        # It is not that somebody was faster: the head is the same, and so would the answer be.
        return Refused(case.refused[1])
    return Allowed(
        _plan(case, PlanKind.MERGE, head.ref, staged.commit, staged.tree if head.ref == attempt.input else None)
    )


def _against_joining(case: Case, head: Commit) -> Decision | None:
    """Say why work that began at the input must not be published onto a head above it; ``None``: it may.

    The input must be below the head: else a merge brings back what was taken off the branch. What is read counts as
    well as what is written. Counterexample: u reads ``b`` and writes ``a``, v reads ``a`` and writes ``b``, both from
    one input; their writes are disjoint, and no order of the two gives both results.
    """
    attempt = case.attempt
    between = case.between
    if between is None or between.commits is None:
        return _refuse(
            Classification.HEAD_ELSEWHERE,
            f"head of {attempt.target} to be above {attempt.input}, not too far",
            f"head {head.ref} with parents {_list(head.parents)}",
            "Let the orchestrator retry: the next attempt begins at the newest accepted commit.",
        )
    if between.unaccepted is not None:
        return _refuse(
            Classification.UNACCEPTED_IN_THE_WAY,
            f"what lies on {attempt.target} above {attempt.input} to be accepted",
            f"{between.unaccepted}, published by {between.owner} and not accepted after {between.waited:.0f} s",
            f"See what became of {between.owner}: `perago retry` lets it finish and adopt what it has published; once "
            "its run has ended, `perago recover` reverts that.",
        )
    touched = [(path, landed.commit) for landed in between.commits for path in landed.touched]
    if not touched:
        return None
    named = "; ".join(f"{path} by {_first_line(commit)} in {commit.ref}" for path, commit in touched[:_NAMED])
    refusal = Refusal(
        Classification.CONFLICT,
        f"nobody to change what {attempt.logical_task} reads or writes since {attempt.input}",
        named if len(touched) <= _NAMED else f"{named}; and more",
        "Let the orchestrator retry: the next attempt begins at the newest accepted commit."
        if attempt.on_conflict is OnConflict.RERUN
        else "Start a new workflow from the current head; the task is declared to fail on a conflict.",
    )
    return Refused(refusal) if attempt.on_conflict is OnConflict.RERUN else Conflicting(refusal)


def _first_line(commit: Commit) -> str:
    return commit.message.partition("\n")[0] or "somebody"


#: How many changed paths a conflict names.
_NAMED = 5


def _adopt(case: Case, head: Commit) -> Decision | None:
    """Take over what an earlier attempt has published; ``None``: nothing of the kind is there, nor was looked for."""
    published = adoptable(head, case.attempt, case.claims)
    if published is not None:
        assert published.result is not None
        return Adopted(head.ref, head.tree, published.result)
    return _adopted_gone(case, head) if case.adopting else None


def _adopted_gone(case: Case, head: Commit) -> Decision:
    return _refuse(
        Classification.ADOPTED_GONE,
        f"what an earlier attempt published at the head of {case.attempt.target}, as it was when this one began",
        f"head {head.ref} with parents {_list(head.parents)}",
        "Let the orchestrator retry: the next attempt runs the body, or refuses what it finds.",
    )


def _held_up(case: Case, head: Commit) -> Decision | None:
    """Say what keeps several targets from moving together; ``None``: nothing does, or there is only one."""
    attempt = case.attempt
    if not attempt.beside:
        return None
    if head.ref != attempt.input and head.parents == (attempt.input,):
        # An earlier attempt's, whose result no claim keeps. It may have left a further target as it was, where a child
        # of the input is then a stranger's: taking all of them back is for recovery, whose intent names every commit.
        return _refuse(
            Classification.HEAD_NOT_REPLACEABLE,
            f"head of {attempt.target} to be {attempt.input}: what was published to several targets is not replaced",
            f"head {head.ref}, whose result is not on record",
            f"Take it back on all its targets with `perago recover {attempt.target} --roll-back`, then retry.",
        )
    seen = dict(zip((each.target for each in attempt.beside), case.beside, strict=False))
    for each in attempt.beside:
        found = seen.get(each.target)
        if found is None or found.dirty:
            return _unusable(each.target, found)
        if found.commit.ref != each.input:
            return _refuse(
                Classification.HEAD_ELSEWHERE,
                f"head of {each.target} to be {each.input}, as it was when this attempt began",
                f"head {found.commit.ref}",
                "Let the orchestrator retry: the next attempt begins from what is there then.",
            )
    return None


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
        joins=attempt.shares,
        over=case.between.over if attempt.stacks and case.between is not None else (),
        along=tuple(_along(part, staged_for(part, case.staged)) for part in attempt.parts[1:]),
    )


def _along(part: Attempt, staged: StagedRef | StagedBeside | None) -> Along:
    to = part.input if staged is None else staged.commit
    return Along(part.target, part.input, to, part.staging_name)


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


def together(plans: Sequence[PublishPlan]) -> PublishPlan:
    """Make one plan of several that go back to their parents: in one step, by the anchor of each."""
    first, *others = plans
    along = tuple(Along(each.target, each.expected, each.commit, each.name) for each in others if each.name is not None)
    if len(along) != len(others):
        raise ValueError("targets go back in one step by the anchor of each, and one has none")
    return evolve(first, along=along) if along else first


def against_reverting(
    commit: Commit, claims: Iterable[Claim], tasks: Mapping[tuple[str, str], TaskSnapshot | None]
) -> str | None:
    """Say why a publication on a branch that several write to must stay; ``None``: nobody has accepted it, nor will.

    Every attempt of its task counts, whoever published it: any of them may have adopted it. One that runs may yet.
    """
    if not any(published_by(commit, claim) for claim in claims if claim.reverts is None):
        return "no claim says whose it is"
    for (_, task_id), snapshot in tasks.items():
        if snapshot is None:
            return f"task {task_id} is forgotten, and nobody can say whether it was accepted"
        if snapshot.status is TaskStatus.COMPLETED and snapshot.result_ref == commit.ref:
            return f"it was accepted for task {task_id}"
        if snapshot.status.is_open or snapshot.workflow_running:
            return f"workflow {snapshot.workflow_id} goes on, and may adopt it"
    return None


def revert(claim: Claim, head: Head, name: str, over: tuple[CommitRef, ...] = ()) -> PublishPlan:
    """Plan what a recovery may do to a branch that several write to: join, onto its head, what undoes a publication.

    Conditioned on the claim wherever a store knows claims: the next attempt of the task, which may adopt what is to be
    undone, raises it. Elsewhere that attempt drops the name. ``over``: what else nobody has accepted; a run may
    begin at the revert, which must say so like every other commit that one may begin at.
    """
    assert claim.staged is not None
    return PublishPlan(
        kind=PlanKind.MERGE,
        target=claim.target,
        expected=head.commit.ref,
        commit=claim.staged,
        condition=Condition.HEAD_AND_CLAIM,
        name=name,
        tree=claim.tree if head.commit.ref == claim.reverts else None,
        claim=claim,
        joins=True,
        over=over,
    )


def verified(plan: PublishPlan, published: Commit) -> bool:
    """Return whether the commit the store says it published is where and what the plan wanted (S-04)."""
    if plan.kind is PlanKind.RETURN:
        return published.ref == plan.commit
    if plan.joins:
        placed = published.parents[:1] == (plan.expected,) and _carries(plan, published)
        # A store that leaves this out lets everybody take what lies below for accepted.
        placed = placed and over_in(published.message) == plan.over
        return placed and plan.tree in {None, published.tree}
    if plan.kind is PlanKind.REPLACE and published.ref != plan.commit:
        return False
    # A replacement takes the head's place, so its parent is the head's parent; decide() only replaces a head whose only
    # parent is the input, and the staged commit was made on the input.
    placed = len(published.parents) == 1 and (plan.kind is not PlanKind.MERGE or published.parents[0] == plan.expected)
    return placed and plan.tree in {None, published.tree}


def _carries(plan: PublishPlan, commit: Commit) -> bool:
    """Return whether a commit is the staged one, or joins it to what it stands on."""
    return plan.commit in {commit.ref, *commit.parents[1:]}


def own_effect(attempt: Attempt, plan: PublishPlan, head: Commit, between: Between | None) -> CommitRef | None:
    """Return the commit that is certainly this plan's, of which nobody has confirmed that it landed.

    Where others publish too, it may lie below what they have published since: it is known by the staged commit.
    """
    if not plan.joins:
        return head.ref if provably_ours(plan, head) and not is_anothers(head, attempt) else None
    above = () if between is None else between.commits or ()
    return next((each.commit.ref for each in above if _carries(plan, each.commit)), None)


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
