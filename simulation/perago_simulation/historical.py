"""Bugs that teams have had, written as mutants: the lessons T-O, T-W, T-P, T-F and the peer's C1 to C11.

Each changes what an attempt learns, asks for or relies on, in the smallest way that gives the old bug back.
"""

# ruff: noqa: E501  one bug, one line
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import evolve, frozen

from perago_core import fence
from perago_core.attempt import ATTEMPT, Known
from perago_core.attempt import asks as ask
from perago_core.attempt import commands as c
from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.attempt.known import AttemptState
from perago_core.attempt.phases import Phase
from perago_core.owner import Standing
from perago_core.plan import Condition, PlanKind
from perago_core.results import Completed
from perago_core.rows import Ask, Command, Event, asks
from perago_core.value import Value
from perago_core.values import Attempt, Backing, Claim, Head
from perago_simulation.history import chain, commit
from perago_simulation.model import Model, Moves
from perago_simulation.mutations import Attempts, attempts, leads, row, skip, with_rows
from perago_simulation.settings import Setting
from perago_simulation.world import NOBODY, Run, World

Before: TypeAlias = Callable[[AttemptState, e.HeadSeen], tuple[AttemptState, e.HeadSeen]]
Make: TypeAlias = Callable[[Setting], Model]

_REMEMBER = ATTEMPT.definition.remember
_STRONG = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED)
_BY_NAME = (Backing.CONDITIONAL, Backing.LOCKED)
_ALL = tuple(Backing)


@frozen(repr=False)
class Bug(Value):
    """One bug: where it comes from, what it changes, the backings it concerns, and how to get a model that has it."""

    id: str
    lesson: str
    says: str
    backings: tuple[Backing, ...]
    make: Make


# ---------------------------------------------------------------------------------------------------------------------
# What an attempt learns


def _head_seen(
    before: Before | None = None,
    plan: Mapping[str, Any] | None = None,
    kinds: tuple[PlanKind, ...] = tuple(PlanKind),
) -> Callable[[AttemptState, e.HeadSeen], Known]:
    """Decide on another case than the one seen, or change the plan that was decided on."""

    def remember(state: AttemptState, event: e.HeadSeen) -> Known:
        if state.phase is Phase.OWN_HEAD:
            return _REMEMBER[e.HeadSeen](state, event)
        seen = (state, event) if before is None else before(state, event)
        decision = _REMEMBER[e.HeadSeen](*seen).decision
        assert decision is not None
        if plan is not None and isinstance(decision, fence.Allowed) and decision.plan.kind in kinds:
            decision = fence.Allowed(evolve(decision.plan, **plan))
        return state.known.learn(decision=decision, refusal=decision.refusal or state.known.refusal)

    return remember


def _claims(change: Callable[[Attempt, tuple[Claim, ...]], tuple[Claim, ...]]) -> Before:
    def before(state: AttemptState, event: e.HeadSeen) -> tuple[AttemptState, e.HeadSeen]:
        known = state.known.learn(claims=change(state.subject, state.known.claims))
        return evolve(state, known=known), event

    return before


def _own_counts(attempt: Attempt, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    return tuple(evolve(each, execution="x") if each.execution == attempt.execution else each for each in claims)


def _numbers_ignored(_attempt: Attempt, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    return tuple(evolve(each, number=0) for each in claims)


def _only_one_owner(_attempt: Attempt, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    return tuple({(each.parent, each.tree): each for each in reversed(claims)}.values())


def _anybody_is_abandoned(state: AttemptState, event: e.HeadSeen) -> tuple[AttemptState, e.HeadSeen]:
    """Make up an owner who is dead, whoever made the head."""
    if event.head is None or not event.head.commit.parents:
        return state, event
    attempt, head = state.subject, event.head.commit
    owner = Claim(attempt.target, "x", "x", "x", 0, "x", head.parents[0], head.tree)
    known = state.known.learn(claims=(owner,), standings=(("x", Standing.DEAD),))
    return evolve(state, known=known), event


def _any_descendant(state: AttemptState, event: e.HeadSeen) -> tuple[AttemptState, e.HeadSeen]:
    """Take every descendant of the input for a child of it, owned by whoever made the child."""
    if event.head is None or state.subject.input not in chain(event.head.commit.ref)[1:]:
        return state, event
    branch = chain(event.head.commit.ref)
    child = commit(branch[branch.index(state.subject.input) - 1])
    head = evolve(event.head.commit, parents=(state.subject.input,), tree=child.tree)
    return state, evolve(event, head=Head(head))


def _first_parent_only(state: AttemptState, event: e.HeadSeen) -> tuple[AttemptState, e.HeadSeen]:
    if event.head is None:
        return state, event
    return state, evolve(event, head=Head(evolve(event.head.commit, parents=event.head.commit.parents[:1])))


def _always_ours(state: AttemptState, event: e.HeadSeen) -> Known:
    if state.phase is not Phase.OWN_HEAD or event.head is None:
        return _REMEMBER[e.HeadSeen](state, event)
    return state.known.learn(published=event.head.commit.ref, uncertain=False)


def _ours_by_tree(state: AttemptState, event: e.HeadSeen) -> Known:
    known, staged = state.known, state.known.staged
    if state.phase is not Phase.OWN_HEAD or event.head is None or staged is None:
        return _REMEMBER[e.HeadSeen](state, event)
    same = event.head.commit.tree == staged.tree
    return known.learn(published=event.head.commit.ref, uncertain=False) if same else known


def _owners_all_dead(state: AttemptState, event: e.OwnersRead) -> Known:
    return state.known.learn(standings=tuple((task, Standing.DEAD) for task, _ in event.snapshots))


def _staging_refused(state: AttemptState, event: f.StagingUnknown) -> Known:
    return _REMEMBER[f.StagingUnknown](state, event).learn(staging=state.known.staging)


# ---------------------------------------------------------------------------------------------------------------------
# What an attempt asks for


@asks(c.RevokeOlder)
def _revoke_everything(attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.RevokeOlder(attempt.number + 100)


@asks(c.RevokeOlder)
def _revoke_nothing(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.RevokeOlder(0)


@asks(c.Report)
def _report_staged(attempt: Attempt, known: Known, _event: object) -> Command:
    ref = attempt.input if known.staged is None else known.staged.commit
    return c.Report(Completed(ref, known.output, attempt.execution))


@asks(c.CleanUp)
def _release_always(attempt: Attempt, known: Known, _event: object) -> Command:
    return c.CleanUp(attempt.staging_name if known.staging else None, release_lease=known.token is not None)


@asks(c.CleanUp)
def _release_never(attempt: Attempt, known: Known, _event: object) -> Command:
    return c.CleanUp(attempt.staging_name if known.staging else None, release_lease=False)


def _asking(old: Ask, new: Ask) -> Attempts:
    return attempts(evolve(each, ask=new) if each.ask is old else each for each in ATTEMPT.definition.rows)


def _reported_first() -> Attempts:
    """Report what was staged, then publish it, then clean up."""
    first = [leads(each, Phase.REPORT, _report_staged) for each in ("H1", "H2")]
    then = [leads(each, Phase.PUBLICATION, ask.publish) for each in ("Z1", "Z2", "ZU1", "ZU2")]
    last = [leads(each, Phase.CLEAN_UP, ask.clean_up) for each in ("P1", "P2", "P4", "P5", "P6", "PX1")]
    return attempts(with_rows(*first, *then, *last))


# ---------------------------------------------------------------------------------------------------------------------
# What an attempt relies on


class _ClaimsReleased(Model):
    """Clean-up takes the claim away."""

    def _work(self, world: World, index: int, run: Run) -> Moves:
        for label, after in super()._work(world, index, run):
            kept = tuple(claim for claim in after.claims if claim.execution != f"e{index}")
            yield label, after._replace(claims=kept) if label[1] == "CleanUp" else after


class _OlderClaimsRaise(Model):
    """The claim register lets an older attempt take over from a newer one."""

    def _work(self, world: World, index: int, run: Run) -> Moves:
        assert run.state is not None
        claiming = isinstance(run.state.pending[0], c.MakeClaim)
        seen = world._replace(raised=(NOBODY,) * len(world.raised)) if claiming else world
        yield from super()._work(seen, index, run)


def _on(table: Callable[[], Attempts]) -> Make:
    made: list[Attempts] = []

    def make(setting: Setting) -> Model:
        if not made:
            made.append(table())
        return Model(setting, made[0])

    return make


def _learning(event: type[Event], remember: Callable[..., Known]) -> Make:
    return _on(lambda: attempts(remember={event: remember}))


def _store(**able: bool) -> Make:
    return lambda setting: Model(evolve(setting, store=evolve(setting.store, **able)))


def _cas_only() -> Attempts:
    """Expected head, but neither claim nor owner rule: compare-and-swap and nothing else."""
    seen = _head_seen(_anybody_is_abandoned, {"condition": Condition.HEAD, "claim": None})
    return attempts(skip(Phase.CLAIM), {e.HeadSeen: seen})


def _no_anchor() -> Attempts:
    """A no-op goes on without a name, and relocates by commit id because it has none."""
    rows = with_rows(leads("F6", Phase.FENCE_2, ask.reload_task))
    return attempts(rows, {e.HeadSeen: _head_seen(plan={"name": None}, kinds=(PlanKind.RETURN,))})


def _existence_is_ours() -> Attempts:
    onward = row("K1")
    assert isinstance(onward.next, Phase)
    return attempts(with_rows(*(leads(each, onward.next, onward.ask) for each in ("K2", "Q2"))))


def _sent_again() -> Attempts:
    return attempts(with_rows(*(leads(each, Phase.PUBLICATION, ask.publish) for each in ("P4", "P5", "P6"))))


_RELOCATIONS = (PlanKind.REPLACE, PlanKind.RETURN)
_BY_ID = {"name": None}

# fmt: off
BUGS = (
    Bug("no anchor", "T-P10", "a no-op has no name and relocates by commit id", _BY_NAME, _on(_no_anchor)),
    Bug("relocate by id", "T-P11, C5", "a relocation names a commit, not the staging name", _BY_NAME, _learning(e.HeadSeen, _head_seen(plan=_BY_ID, kinds=_RELOCATIONS))),
    Bug("merge by id", "T-P11, C9", "a merge names a commit, not the staging name", _BY_NAME, _learning(e.HeadSeen, _head_seen(plan=_BY_ID, kinds=(PlanKind.MERGE,)))),
    Bug("owners all dead", "C6, T-O9", "the owner rule does not ask whether the owner has ended", _STRONG, _learning(e.OwnersRead, _owners_all_dead)),
    Bug("one owner", "T-O1", "the owner rule looks at one of several records with the same tree", _STRONG, _learning(e.HeadSeen, _head_seen(_claims(_only_one_owner)))),
    Bug("own claim counts", "L-03", "the owner rule counts the attempt's own record", _STRONG, _learning(e.HeadSeen, _head_seen(_claims(_own_counts)))),
    Bug("numbers ignored", "T-W5", "the owner rule lets an older attempt replace a newer one", _STRONG, _learning(e.HeadSeen, _head_seen(_claims(_numbers_ignored)))),
    Bug("no owner rule", "C1, C3", "any child of the input is taken for abandoned", _STRONG, _learning(e.HeadSeen, _head_seen(_anybody_is_abandoned))),
    Bug("any descendant", "C5, T-O14", "the head rule accepts any descendant of the input", _ALL, _learning(e.HeadSeen, _head_seen(_any_descendant))),
    Bug("first parent only", "C2, T-P9", "the head rule looks at the first parent and not at their number", _ALL, _learning(e.HeadSeen, _head_seen(_first_parent_only))),
    Bug("claim only", "2.6", "a soft fence with claim and owner rule: the store checks nothing", _BY_NAME, _store(revocable_names=False, barrier=False, conditional_merge=False)),
    Bug("always ours", "T-W9, S-05", "whatever is at the head after an unknown publication is called ours", _STRONG, _learning(e.HeadSeen, _always_ours)),
    Bug("ours by tree", "T-O1", "an equal tree is called ours, wherever it stands", _STRONG, _learning(e.HeadSeen, _ours_by_tree)),
    Bug("head only", "C.4", "compare-and-swap on the head, without the claim", (Backing.ATOMIC,), _learning(e.HeadSeen, _head_seen(plan={"condition": Condition.HEAD}))),
    Bug("compare-and-swap only", "C.4", "compare-and-swap on the head, without claim and owner rule", (Backing.ATOMIC,), _on(_cas_only)),
    Bug("sent again", "T-O5, N-02", "a publication without an answer is sent again", _ALL, _on(_sent_again)),
    Bug("claims released", "T-W10", "clean-up takes the claim away", _STRONG, _ClaimsReleased),
    Bug("older claims raise", "T-W5", "the store lets an older attempt raise its claim over a newer one", (Backing.ATOMIC,), _OlderClaimsRaise),
    Bug("claim by existence", "T-W9", "a claim that exists is taken for ours", _STRONG, _on(_existence_is_ours)),
    Bug("revoke everything", "T-O22", "newer names are revoked too, and our own", _BY_NAME, _on(lambda: _asking(ask.revoke_older, _revoke_everything))),
    Bug("revoke nothing", "C9", "the revocation names nobody", _BY_NAME, _on(lambda: _asking(ask.revoke_older, _revoke_nothing))),
    Bug("names not revocable", "T-F6, C9", "the store carries out requests whose name is gone", _BY_NAME, _store(revocable_names=False)),
    Bug("hollow barrier", "T-F6, C9", "updates the store had begun outlive the barrier", _BY_NAME, _store(barrier=False)),
    Bug("head not checked", "T-O16, C4", "the store does not check the expected head of a merge", (Backing.ATOMIC, Backing.CONDITIONAL), _store(conditional_merge=False)),
    Bug("relocation not checked", "C5", "the store does not check the expected head of a relocation", (Backing.ATOMIC,), _store(conditional_relocate=False)),
    Bug("claim not checked", "C6", "the store does not check the claim", (Backing.ATOMIC,), _store(conditional_claim=False)),
    Bug("forgotten name", "T-P2", "a name whose making is in doubt is not cleaned up", _ALL, _learning(f.StagingUnknown, _staging_refused)),
    Bug("reported first", "T-F3", "the result is reported before it is published", _ALL, _on(_reported_first)),
    Bug("lease always released", "T-W14", "the lease is released although the publication's fate is open", (Backing.LOCKED,), _on(lambda: _asking(ask.clean_up, _release_always))),
    Bug("lease kept", "T-W16", "the lease is never released", (Backing.LOCKED,), _on(lambda: _asking(ask.clean_up, _release_never))),
)
# fmt: on
