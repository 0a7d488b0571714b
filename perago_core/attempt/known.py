"""What an attempt has learnt, and what each event teaches it. Records only: nothing here chooses a way.

Every answer that is not *done* also leaves a ``refusal``: what was expected, what was found, what to do next. If the
table turns it into a report, that is the reported reason; if it turns it into silence, that is the reason for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict, Unpack

from attrs import evolve, frozen

from perago_core import fence
from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.attempt.commands import Report
from perago_core.attempt.phases import AFTER_REPORT, FROM_PUBLICATION, Phase
from perago_core.attempt.refusals import EXPLANATIONS, LOOK, stale
from perago_core.owner import Standing, standing
from perago_core.plan import PublishPlan
from perago_core.results import Acceptance, Refusal, Result
from perago_core.rows import Event, State
from perago_core.value import Value
from perago_core.values import Attempt, Backing, Claim, CommitRef, Maintained, StagedRef, TaskSnapshot, TaskStatus


class Learnt(TypedDict, total=False):
    """What may be learnt: the fields of ``Known``, for the type checkers, so that no name can be misspelt."""

    changed: bool
    output: str
    staging: bool
    staged: StagedRef | None
    claims: tuple[Claim, ...]
    standings: tuple[tuple[str, Standing], ...]
    maintained: tuple[Maintained, ...]
    token: int | None
    armed: bool
    decision: fence.Decision | None
    published: CommitRef | None
    uncertain: bool
    refusal: Refusal | None
    result: Result | None
    acceptance: Acceptance
    left_behind: tuple[str, ...]


@frozen(cache_hash=True, repr=False, slots=False, getstate_setstate=True)
class Known(Value):
    """Everything learnt since the attempt was polled."""

    changed: bool = False
    output: str = "{}"
    staging: bool = False
    staged: StagedRef | None = None
    claims: tuple[Claim, ...] = ()
    standings: tuple[tuple[str, Standing], ...] = ()
    maintained: tuple[Maintained, ...] = ()
    token: int | None = None
    armed: bool = False
    decision: fence.Decision | None = None
    published: CommitRef | None = None
    uncertain: bool = False
    refusal: Refusal | None = None
    result: Result | None = None
    acceptance: Acceptance = Acceptance.UNREAD
    left_behind: tuple[str, ...] = ()

    def learn(self, **changes: Unpack[Learnt]) -> Known:
        """Give what is known once this is known too.

        Most events teach something, so this is the hot path of ``step``. ``attrs.evolve`` reads and sets every field
        one by one; copying the dictionary takes a quarter of its time.
        """
        more = object.__new__(Known)
        more.__dict__.update(self.__dict__)
        more.__dict__.update(changes, _attrs_cached_hash=None)
        return more


AttemptState: TypeAlias = State[Attempt, Known]


def is_current(attempt: Attempt, snapshot: TaskSnapshot | None) -> bool:
    """The attempt fence. ``soft`` compares the seed's four fields; the others all that tells two deliveries apart.

    Counterexample for the four: a task is requeued after its worker stalled, and polled again. Status, workflow, task
    id and retry count are equal for both workers; only start time, poll count and worker differ.
    """
    if snapshot is None:
        return False
    same = (
        snapshot.status is TaskStatus.IN_PROGRESS
        and snapshot.workflow_id == attempt.workflow_id
        and snapshot.task_id == attempt.task_id
        and snapshot.retry_count == attempt.retry_count
    )
    if attempt.backing is Backing.SOFT:
        return same
    return (
        same
        and snapshot.started_at == attempt.started_at
        and snapshot.poll_count == attempt.poll_count
        and snapshot.worker_id == attempt.worker_id
        and snapshot.workflow_running
    )


def is_accepted(attempt: Attempt, snapshot: TaskSnapshot | None) -> bool:
    """Say whether the orchestrator took this execution's result, by its nonce and never by its status alone (T-F3)."""
    return (
        snapshot is not None
        and snapshot.status is TaskStatus.COMPLETED
        and snapshot.result_execution == attempt.execution
    )


def is_ours(attempt: Attempt, claim: Claim | None) -> bool:
    """Say whether a claim is this execution's, by its nonce: existence proves nothing (T-W9)."""
    return claim is not None and claim.execution == attempt.execution


def intents_are_clear(attempt: Attempt, event: e.IntentsSettled) -> bool:
    """Say whether no intent of the target is open and the cluster still uses the policy the attempt started with."""
    return not event.unresolved and event.epoch == attempt.epoch


def plan_of(known: Known) -> PublishPlan:
    """Give the plan that was decided on."""
    assert isinstance(known.decision, fence.Allowed)
    return known.decision.plan


def _body_done(state: AttemptState, event: e.BodyDone) -> Known:
    if event.execution != state.subject.execution:
        return state.known
    return state.known.learn(changed=event.changed, output=event.output)


def _body_failed(state: AttemptState, event: e.BodyFailed) -> Known:
    return _refused(state, event) if event.execution == state.subject.execution else state.known


def _staging_wanted(state: AttemptState, event: e.StagingWanted) -> Known:
    ours = event.execution == state.subject.execution
    return _refused(state, event) if ours and state.subject.read_only else state.known


def _task_reloaded(state: AttemptState, event: e.TaskReloaded) -> Known:
    attempt, known = state.subject, state.known
    if state.phase is Phase.ACCEPTANCE:
        accepted = is_accepted(attempt, event.snapshot)
        return known.learn(acceptance=Acceptance.ACCEPTED if accepted else Acceptance.NOT_ACCEPTED)
    if is_current(attempt, event.snapshot):
        return known
    return known.learn(refusal=stale(attempt, event.snapshot))


def _task_reload_unknown(state: AttemptState, event: f.TaskReloadUnknown) -> Known:
    if state.phase is Phase.ACCEPTANCE:
        return state.known.learn(acceptance=Acceptance.UNKNOWN)
    return _refused(state, event)


def _claim_answered(state: AttemptState, event: e.ClaimStands | e.ClaimRead) -> Known:
    return state.known if is_ours(state.subject, event.claim) else _refused(state, event)


def _intents_settled(state: AttemptState, event: e.IntentsSettled) -> Known:
    known = state.known.learn(maintained=event.maintained)
    if intents_are_clear(state.subject, event):
        return known
    return known.learn(refusal=EXPLANATIONS[e.IntentsSettled](state.subject, event))


def _head_seen(state: AttemptState, event: e.HeadSeen) -> Known:
    if state.phase is Phase.OWN_HEAD:
        return _own_head_seen(state, event)
    attempt, known = state.subject, state.known
    decision = fence.decide(
        fence.Case(
            attempt=attempt,
            staged=known.staged,
            head=event.head,
            claims=known.claims,
            standings=known.standings,
            maintained=known.maintained,
            token=known.token,
            now=event.now,
            attempt_until=event.attempt_until,
            lease_until=event.lease_until,
        ),
    )
    return known.learn(decision=decision, refusal=decision.refusal or known.refusal)


def _own_head_seen(state: AttemptState, event: e.HeadSeen) -> Known:
    known = state.known
    if event.head is not None and fence.provably_ours(plan_of(known), event.head.commit):
        return known.learn(published=event.head.commit.ref, uncertain=False)
    return known


def _commit_seen(state: AttemptState, event: e.CommitSeen) -> Known:
    known, commit = state.known, event.commit
    if commit is not None and commit.ref == known.published and fence.verified(plan_of(known), commit):
        return known
    return known.learn(uncertain=True, refusal=EXPLANATIONS[e.CommitSeen](state.subject, event))


def _report_answered(acceptance: Acceptance) -> Callable[[AttemptState, Event], Known]:
    def remember(state: AttemptState, _event: Event) -> Known:
        (sent,) = state.pending
        assert isinstance(sent, Report)
        return state.known.learn(result=sent.result, acceptance=acceptance)

    return remember


def _refused(state: AttemptState, event: Event) -> Known:
    """Keep the reason. Once a publication is on its way, also that the target may have moved or may still move.

    Only the store's own refusal to publish says that nothing did. Whatever else fails from there on, the reason must
    not tell people that nothing was published, nor may the intent be settled as if nothing were.
    """
    refusal = EXPLANATIONS[type(event)](state.subject, event)
    if state.phase not in FROM_PUBLICATION or isinstance(event, f.PublishRefused):
        return state.known.learn(refusal=refusal)
    return state.known.learn(refusal=evolve(refusal, next_action=LOOK), uncertain=True)


def _staging_in_doubt(state: AttemptState, event: Event) -> Known:
    """The name may exist although nobody confirmed it; from here on clean-up must try to remove it (rule 3, T-P2)."""
    return _refused(state, event).learn(staging=True)


def _interrupted(state: AttemptState, event: Event) -> Known:
    """Outside events refuse, and leave open whether what is on its way happens: a name, a publication (rule 4)."""
    if state.phase in AFTER_REPORT:
        return state.known
    return _staging_in_doubt(state, event) if state.phase in _OPENING else _refused(state, event)


def _lease_lost(state: AttemptState, event: f.LeaseLost) -> Known:
    """Once the publication has answered, the lease has done its work and its loss teaches nothing."""
    if state.phase in FROM_PUBLICATION and state.phase is not Phase.PUBLICATION:
        return state.known
    return _interrupted(state, event)


_OPENING = (Phase.STAGING_0, Phase.STAGING)

REMEMBER: Mapping[type[Event], Callable[[AttemptState, Any], Known]] = {
    **dict.fromkeys(EXPLANATIONS, _refused),
    e.BodyDone: _body_done,
    e.BodyFailed: _body_failed,
    e.TaskReloaded: _task_reloaded,
    f.TaskReloadUnknown: _task_reload_unknown,
    e.StagingOpened: lambda state, _: state.known.learn(staging=True),
    f.StagingUnknown: _staging_in_doubt,
    e.Staged: lambda state, event: state.known.learn(staged=event.staged),
    e.NothingStaged: lambda state, _: state.known.learn(changed=False),
    e.ClaimsListed: lambda state, event: state.known.learn(claims=event.claims),
    e.OwnersRead: lambda state, event: state.known.learn(
        standings=tuple((task, standing(snapshot)) for task, snapshot in event.snapshots),
    ),
    e.StagingWanted: _staging_wanted,
    e.ClaimStands: _claim_answered,
    e.ClaimRead: _claim_answered,
    e.IntentsSettled: _intents_settled,
    e.LeaseHeld: lambda state, event: state.known.learn(token=event.token),
    e.Armed: lambda state, _: state.known.learn(armed=True),
    e.HeadSeen: _head_seen,
    e.Published: lambda state, event: state.known.learn(published=event.ref),
    e.CommitSeen: _commit_seen,
    e.Reported: _report_answered(Acceptance.UNREAD),
    f.ReportUnknown: _report_answered(Acceptance.UNKNOWN),
    f.ReportRefused: _report_answered(Acceptance.NOT_ACCEPTED),
    f.CleanUpRefused: lambda state, event: state.known.learn(left_behind=event.left_behind),
    f.CleanUpUnknown: lambda state, event: state.known.learn(left_behind=event.left_behind),
    f.AttemptLost: _interrupted,
    f.LeaseLost: _lease_lost,
    f.DeadlineExceeded: _interrupted,
}
