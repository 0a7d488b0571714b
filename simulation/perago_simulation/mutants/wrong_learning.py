"""What an attempt may wrongly learn from what it is told: one half of the parts from which bugs are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import evolve

from perago_core import fence
from perago_core.answers import Event, Unknown
from perago_core.attempt import ATTEMPT, Known
from perago_core.attempt import messages as m
from perago_core.attempt.state import AttemptState, Phase
from perago_core.fence import Standing
from perago_core.plan import PlanKind
from perago_core.values import Attempt, Between, Claim, Head, Landed, claim_of
from perago_simulation.world.history import chain, commit

Before: TypeAlias = Callable[[AttemptState, m.HeadSeen], tuple[AttemptState, m.HeadSeen]]

_REMEMBER = ATTEMPT.definition.remember


def _learnt(state: AttemptState, event: Event) -> Known:
    """What production learns from an event, or what is decided on it, in the phase the state is in."""
    lesson = ATTEMPT.definition.lesson(state.phase, type(event))
    assert lesson is not None
    return lesson(state, event)


def head_seen(
    before: Before | None = None,
    plan: Mapping[str, Any] | None = None,
    kinds: tuple[PlanKind, ...] = tuple(PlanKind),
) -> Callable[[AttemptState, m.HeadSeen], Known]:
    """Decide on another case than the one seen, or change the plan that was decided on."""

    def remember(state: AttemptState, event: m.HeadSeen) -> Known:
        if state.phase is not Phase.HEAD:
            return _learnt(state, event)
        seen = (state, event) if before is None else before(state, event)
        decision = _learnt(*seen).decision
        assert decision is not None
        if plan is not None and isinstance(decision, fence.Allowed) and decision.plan.kind in kinds:
            decision = fence.Allowed(evolve(decision.plan, **plan))
        return evolve(state.known, decision=decision, refusal=decision.refusal or state.known.refusal)

    return remember


def claims(change: Callable[[Attempt, tuple[Claim, ...]], tuple[Claim, ...]]) -> Before:
    """Decide on other claim records than those that were listed."""

    def before(state: AttemptState, event: m.HeadSeen) -> tuple[AttemptState, m.HeadSeen]:
        known = evolve(state.known, claims=change(state.subject, state.known.claims))
        return evolve(state, known=known), event

    return before


def between(change: Callable[[Attempt, Between], Between]) -> Before:
    """Decide on something else than what lies between the input and the head."""

    def before(state: AttemptState, event: m.HeadSeen) -> tuple[AttemptState, m.HeadSeen]:
        if event.between is None:
            return state, event
        return state, evolve(event, between=change(state.subject, event.between))

    return before


def reads_not_counted(attempt: Attempt, between: Between) -> Between:
    """Look for changes of what is written, and not of what is read."""
    assert attempt.scope is not None
    return _only(between, attempt.scope.writes)


def nothing_counted(_attempt: Attempt, between: Between) -> Between:
    """Look for no changes."""
    return _only(between, ())


def _only(between: Between, kept: tuple[str, ...]) -> Between:
    if between.commits is None:
        return between
    return evolve(
        between,
        commits=tuple(
            Landed(each.commit, tuple(path for path in each.touched if path.startswith(kept)))
            for each in between.commits
        ),
    )


def all_accepted(_attempt: Attempt, between: Between) -> Between:
    """Take whatever lies between for accepted."""
    return evolve(between, unaccepted=None)


def below_the_head(_attempt: Attempt, between: Between) -> Between:
    """Take an input that is not below the head for one that is."""
    return between if between.commits is not None else evolve(between, commits=())


def own_counts(attempt: Attempt, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Let the attempt's own record pass for somebody else's."""
    return tuple(evolve(each, execution="x") if each.execution == attempt.execution else each for each in claims)


def numbers_ignored(_attempt: Attempt, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Let every record look older than the attempt."""
    return tuple(evolve(each, number=0) for each in claims)


def only_one_owner(_attempt: Attempt, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Keep one record of those with the same parent and tree."""
    return tuple({(each.parent, each.tree): each for each in reversed(claims)}.values())


def anybody_is_abandoned(state: AttemptState, event: m.HeadSeen) -> tuple[AttemptState, m.HeadSeen]:
    """Make up an owner who is dead, whoever made the head."""
    if event.head is None or not event.head.commit.parents:
        return state, event
    attempt, head = state.subject, event.head.commit
    owner = Claim(attempt.target, "x", "x", "x", 0, "x", head.parents[0], head.tree)
    known = evolve(state.known, claims=(owner,), standings=(("x", Standing.DEAD),))
    return evolve(state, known=known), event


def any_descendant(state: AttemptState, event: m.HeadSeen) -> tuple[AttemptState, m.HeadSeen]:
    """Take every descendant of the input for a child of it, owned by whoever made the child."""
    if event.head is None or state.subject.input not in chain(event.head.commit.ref)[1:]:
        return state, event
    branch = chain(event.head.commit.ref)
    child = commit(branch[branch.index(state.subject.input) - 1])
    head = evolve(event.head.commit, parents=(state.subject.input,), tree=child.tree)
    return state, evolve(event, head=Head(head))


def first_parent_only(state: AttemptState, event: m.HeadSeen) -> tuple[AttemptState, m.HeadSeen]:
    """Forget the head's other parents."""
    if event.head is None:
        return state, event
    return state, evolve(event, head=Head(evolve(event.head.commit, parents=event.head.commit.parents[:1])))


def always_ours(state: AttemptState, event: m.HeadSeen) -> Known:
    """Take whatever is at the head for the own publication."""
    if state.phase is not Phase.OWN_HEAD or event.head is None:
        return _learnt(state, event)
    return evolve(state.known, published=event.head.commit.ref, uncertain=False)


def doubt_kept(state: AttemptState, event: m.TaskReloaded) -> Known:
    """Doubt the own publication again after it was found."""
    known = _learnt(state, event)
    return evolve(known, uncertain=True) if state.phase is Phase.OWN_FENCE else known


def ours_by_tree(state: AttemptState, event: m.HeadSeen) -> Known:
    """Take an equal tree at the head for the own publication."""
    known, staged = state.known, state.known.staged
    if state.phase is not Phase.OWN_HEAD or event.head is None or staged is None:
        return _learnt(state, event)
    same = event.head.commit.tree == staged.tree
    return evolve(known, published=event.head.commit.ref, uncertain=False) if same else known


def adoptable_by(before: Before) -> Callable[[AttemptState, m.HeadSeen], Known]:
    """Look for what may be adopted in another case than the one seen, before the body and again at the head."""

    def remember(state: AttemptState, event: m.HeadSeen) -> Known:
        if state.phase is Phase.OWN_HEAD:
            return _learnt(state, event)
        return evolve(_learnt(*before(state, event)), claims=state.known.claims)

    return remember


def anything_is_ours(state: AttemptState, event: m.HeadSeen) -> tuple[AttemptState, m.HeadSeen]:
    """Make up a claim of the own task, whoever made the head."""
    if event.head is None or not event.head.commit.parents:
        return state, event
    head = event.head.commit
    made_up = evolve(_claim(state), execution="x", number=0, parent=head.parents[0], tree=head.tree)
    return evolve(state, known=evolve(state.known, claims=(*state.known.claims, made_up))), event


def word_unread(state: AttemptState, event: m.HeadSeen) -> Known:
    """Judge a head as if it said nothing of itself."""
    if event.head is None:
        return _learnt(state, event)
    silent = evolve(event.head, commit=evolve(event.head.commit, message=""))
    return _learnt(state, evolve(event, head=silent))


def _claim(state: AttemptState) -> Claim:
    return claim_of(state.subject, state.known.staged, state.known.output)


def no_ops_unseen(_attempt: Attempt, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Overlook the claims of those who changed nothing."""
    return tuple(each for each in claims if each.tree is not None)


def still_there(state: AttemptState, event: m.HeadSeen) -> Known:
    """Take what was seen before the claim for what is there now."""
    known = _learnt(state, event)
    if state.phase is not Phase.HEAD or known.found is None:
        return known
    seen = known.found
    return evolve(known, decision=fence.Adopted(seen.commit, seen.tree, known.output), refusal=None)


def only_its_makers(state: AttemptState, event: m.HeadSeen) -> tuple[AttemptState, m.HeadSeen]:
    """Ask only whether those live who may have made the head, not those who may be about to report it."""
    if event.head is None or event.head.commit.ref == state.subject.input:
        return state, event
    tree = event.head.commit.tree
    kept = tuple(each for each in state.known.claims if each.tree == tree)
    return evolve(state, known=evolve(state.known, claims=kept)), event


def owners_all_dead(state: AttemptState, event: m.OwnersRead) -> Known:
    """Take every owner for dead."""
    dead = tuple((task, Standing.DEAD) for task, _ in event.snapshots)
    return evolve(_learnt(state, event), standings=dead)


def staging_refused(state: AttemptState, event: Unknown) -> Known:
    """Take a name in doubt for one that was refused."""
    known = _learnt(state, event)
    return evolve(known, staging=state.known.staging) if isinstance(state.pending[0], m.OpenStaging) else known
