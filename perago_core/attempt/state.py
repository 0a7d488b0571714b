"""Where an attempt stands: its phases, what it knows, what each event teaches it, and how a refusal is explained.

No row is chosen here. What is recorded decides rows later, through facts: ``staging``, ``armed`` and ``uncertain`` are
set by what happened in which phase.

Every answer that is not *done* also leaves a ``refusal``: what was expected, what was found, what to do next. If the
table turns it into a report, that is the reported reason; if it turns it into silence, that is the reason for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve, field, frozen

from perago_core import fence
from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import messages as m
from perago_core.attempt.messages import Report
from perago_core.fence import Standing, standing
from perago_core.machine.rows import Command, State, Waiting
from perago_core.plan import PublishPlan
from perago_core.results import Acceptance, Classification, Refusal, Result
from perago_core.value import DECLARED, Value
from perago_core.values import Attempt, Backing, Claim, CommitRef, Maintained, StagedRef, TaskSnapshot, TaskStatus


class Phase(Waiting):
    """A phase is named after what is awaited, never after what was done."""

    EARLIER_CLAIMS = "the claims an earlier attempt may have left"
    EARLIER_OWNERS = "the orchestrator's word on the earlier attempts"
    EARLIER_HEAD = "the head, which may show what an earlier attempt published"
    WORKSPACE = "the workspace"
    BODY = "the body"
    FENCE_0 = "the attempt fence before a running body may stage"
    STAGING_0 = "the staging name a running body asked for"
    FENCE_1 = "the attempt fence before staging"
    STAGING = "the staging name"
    UPLOAD = "the changes on the staging branch"
    COMMIT = "the staged commit"
    FENCE_2 = "the attempt fence before publishing"
    CLAIM = "the claim"
    CLAIM_CHECK = "the claim, read back after an unknown answer"
    CLAIMS = "the claim records of the task"
    OWNERS = "the orchestrator's word on their attempts"
    INTENTS = "the open intents of the target"
    LEASE = "the lease"
    TAKEOVER = "the end of the takeover interval"
    FENCE_3 = "the attempt fence under the lease"
    REVOCATION = "the end of older names"
    BARRIER = "the end of older requests"
    INTENT = "the durable intent"
    HEAD = "the head to decide on"
    PUBLICATION = "the movement of the target"
    RIVALS = "the claims once more, after the store refused to move the target"
    OWN_REVOCATION = "the end of our own name after an unknown publication"
    OWN_BARRIER = "the end of our own request"
    OWN_HEAD = "the head that shows what became of it"
    OWN_FENCE = "the attempt fence before calling it ours"
    READ_BACK = "the published commit"
    REPORT = "the report"
    CONFIRMATION = "the confirmed intent"
    ACCEPTANCE = "the orchestrator's word on the result"
    SETTLEMENT = "the settled intent"
    CLEAN_UP = "the end of what is left"
    DONE = "nothing more"


#: Looking for what an earlier attempt has left. It only saves work: whoever learns nothing here learns it at the head.
EARLIER = (Phase.EARLIER_CLAIMS, Phase.EARLIER_OWNERS, Phase.EARLIER_HEAD)

#: From here on the target may have moved.
FROM_PUBLICATION = (
    Phase.PUBLICATION,
    Phase.OWN_REVOCATION,
    Phase.OWN_BARRIER,
    Phase.OWN_HEAD,
    Phase.OWN_FENCE,
    Phase.READ_BACK,
)

#: From here on the result is on its way, or there is none to give; no outside event changes it.
AFTER_REPORT = (Phase.REPORT, Phase.CONFIRMATION, Phase.ACCEPTANCE, Phase.SETTLEMENT, Phase.CLEAN_UP)

#: Phases ``soft`` never comes to: the seed protocol has no claims, no lease, no names to revoke, nothing to resolve.
BEYOND_SOFT = (
    Phase.CLAIM,
    Phase.CLAIM_CHECK,
    Phase.CLAIMS,
    Phase.OWNERS,
    Phase.LEASE,
    Phase.TAKEOVER,
    Phase.FENCE_3,
    Phase.REVOCATION,
    Phase.BARRIER,
    Phase.OWN_REVOCATION,
    Phase.OWN_BARRIER,
    Phase.OWN_HEAD,
    Phase.OWN_FENCE,
    Phase.READ_BACK,
    *EARLIER,
    Phase.RIVALS,
)

#: The lease is held and nothing was published under it yet.
UNDER_LEASE = (Phase.TAKEOVER, Phase.FENCE_3, Phase.REVOCATION, Phase.BARRIER, Phase.INTENT, Phase.HEAD)


Explanation: TypeAlias = Callable[[Attempt, Any], Refusal]

_RETRY = "Nothing was published; let the orchestrator retry."
_NONE = "Nothing to do: the task belongs to another attempt, or to none."
_SWEEP = "Run `perago recover`: it names what is open and what may be done about it."
LOOK = "Look at the target's head; the next attempt adopts it, replaces what proves abandoned, or refuses and names it."


def stale(attempt: Attempt, snapshot: TaskSnapshot | None) -> Refusal:
    """Explain a failed attempt fence."""
    expected = (
        f"task {attempt.task_id} of {attempt.workflow_id} IN_PROGRESS, retry {attempt.retry_count}, "
        f"started {attempt.started_at}, poll {attempt.poll_count}, worker {attempt.worker_id or '-'}"
    )
    if snapshot is None:
        return Refusal(Classification.ATTEMPT_STALE, expected, "no such task", _NONE)
    actual = (
        f"task {snapshot.task_id} of {snapshot.workflow_id} {snapshot.status.value}, retry {snapshot.retry_count}, "
        f"started {snapshot.started_at}, poll {snapshot.poll_count}, worker {snapshot.worker_id or '-'}, "
        f"workflow {'running' if snapshot.workflow_running else 'not running'}"
    )
    return Refusal(Classification.ATTEMPT_STALE, expected, actual, _NONE)


def _because(classification: Classification, expected: str, next_action: str = _RETRY) -> Explanation:
    def explain(_attempt: Attempt, event: Any) -> Refusal:  # noqa: ANN401  any event with a reason
        return Refusal(classification, expected, event.reason or "no reason given", next_action)

    return explain


def _explain_staging_wanted(attempt: Attempt, _event: m.StagingWanted) -> Refusal:
    return Refusal(
        Classification.READ_ONLY_WROTE,
        f"task {attempt.task_id} to read only",
        "its body asked for a place to write",
        "Declare the workspace writable, or take the write out of the body.",
    )


def _claim_lost(attempt: Attempt, event: m.ClaimStands | m.ClaimRead) -> Refusal:
    holder = "no claim yet" if event.claim is None else f"claimed by execution {event.claim.execution}"
    return Refusal(
        Classification.CLAIM_LOST,
        f"the claim of attempt {attempt.number} by execution {attempt.execution}",
        holder,
        _NONE,
    )


def _intents(attempt: Attempt, event: m.IntentsSettled) -> Refusal:
    if event.epoch != attempt.epoch:
        return Refusal(
            Classification.POLICY_CHANGED,
            f"fence policy of epoch {attempt.epoch}",
            f"epoch {event.epoch}",
            "Let the orchestrator retry: workers that mix two fence policies are not safe beside each other.",
        )
    open_intents = ", ".join(event.unresolved) or "none"
    return Refusal(
        Classification.RECOVERY_REQUIRED, f"no open intent on {attempt.target}", f"open: {open_intents}", _SWEEP
    )


def _elsewhere(attempt: Attempt, event: m.CommitSeen) -> Refusal:
    found = "no such commit" if event.commit is None else f"{event.commit.ref} on {list(event.commit.parents)}"
    return Refusal(
        Classification.PUBLISHED_ELSEWHERE,
        f"the publication to stand on the head that was decided on, with the staged content, on {attempt.target}",
        found,
        "A stranger moved the branch in between; have an operator decide what the branch should be.",
    )


def _explain_body_failed(_attempt: Attempt, event: m.BodyFailed) -> Refusal:
    action = "Correct the task or its input; a retry cannot help." if event.terminal else _RETRY
    return Refusal(Classification.BODY_FAILED, "checks and body to succeed", event.reason, action)


#: Why a command that was not done, or whose fate is unknown, ends the attempt.
_FAILURES: Mapping[tuple[type[Command], type[Event]], Explanation] = {
    (m.PrepareWorkspace, NotDone): _because(Classification.WORKSPACE_FAILED, "the input to be made available"),
    (m.PrepareWorkspace, Unknown): _because(Classification.WORKSPACE_FAILED, "the input to be made available"),
    (m.RunBody, Unknown): _because(Classification.BODY_LOST, "the body to end with a result"),
    (m.ResumeBody, Unknown): _because(Classification.BODY_LOST, "the body to end with a result"),
    (m.ReloadTask, Unknown): _because(Classification.ATTEMPT_UNKNOWN, "the orchestrator to confirm the attempt"),
    (m.OpenStaging, NotDone): _because(Classification.STAGING_FAILED, "a fresh staging name at the input"),
    (m.OpenStaging, Unknown): _because(Classification.STAGING_UNKNOWN, "a fresh staging name at the input"),
    (m.Upload, NotDone): _because(Classification.STAGING_FAILED, "the changes to be uploaded"),
    (m.Upload, Unknown): _because(Classification.STAGING_UNKNOWN, "the changes to be uploaded"),
    (m.CommitStaging, NotDone): _because(Classification.STAGING_FAILED, "the staging branch to be committed"),
    (m.CommitStaging, Unknown): _because(Classification.STAGING_UNKNOWN, "the staging branch to be committed"),
    (m.MakeClaim, NotDone): _because(Classification.CLAIM_FAILED, "the store to take the claim"),
    (m.MakeClaim, Unknown): _because(Classification.CLAIM_FAILED, "the store to confirm the claim", _NONE),
    (m.ReadClaim, Unknown): _because(Classification.CLAIM_FAILED, "the claim to be read back", _NONE),
    (m.ListClaims, Unknown): _because(Classification.CLAIMS_UNREADABLE, "the claim records of the task"),
    (m.ReadOwners, Unknown): _because(Classification.CLAIMS_UNREADABLE, "the orchestrator's word on earlier attempts"),
    (m.SettleIntents, Unknown): _because(Classification.LEDGER_UNAVAILABLE, "the ledger to show the open intents"),
    (m.AcquireLease, NotDone): _because(Classification.LEASE_BUSY, "the lease of the target to be free"),
    (m.AcquireLease, Unknown): _because(Classification.LEASE_BUSY, "the lease of the target to be confirmed"),
    (m.RevokeOlder, NotDone): _because(Classification.REVOCATION_FAILED, "older staging names to be deleted"),
    (m.RevokeOlder, Unknown): _because(Classification.REVOCATION_FAILED, "older staging names to be deleted"),
    (m.PassBarrier, NotDone): _because(
        Classification.BARRIER_FAILED, "the store to confirm the barrier", "Clean the target, then retry."
    ),
    (m.PassBarrier, Unknown): _because(Classification.BARRIER_FAILED, "the store to confirm the barrier"),
    (m.ArmIntent, NotDone): _because(Classification.LEDGER_UNAVAILABLE, "the ledger to take the intent"),
    (m.ArmIntent, Unknown): _because(Classification.LEDGER_UNAVAILABLE, "the ledger to confirm the intent"),
    (m.ReadHead, Unknown): _because(Classification.TARGET_UNREADABLE, "to read the target's head"),
    (m.Publish, NotDone): _because(Classification.PUBLISH_REFUSED, "the store to move the target"),
    (m.Publish, Unknown): _because(Classification.PUBLISH_UNKNOWN, "the store to say whether the target moved", LOOK),
    (m.DropStaging, NotDone): _because(
        Classification.PUBLISH_UNKNOWN, "our own name to be revoked after an unknown publication", LOOK
    ),
    (m.DropStaging, Unknown): _because(
        Classification.PUBLISH_UNKNOWN, "our own name to be revoked after an unknown publication", LOOK
    ),
    (m.ReadCommit, Unknown): _because(Classification.PUBLISH_UNKNOWN, "to read the published commit back", LOOK),
}

#: Why an answer that was given, or something from outside, ends the attempt.
_OBJECTIONS: Mapping[type[Event], Explanation] = {
    m.BodyFailed: _explain_body_failed,
    m.StagingWanted: _explain_staging_wanted,
    m.ClaimStands: _claim_lost,
    m.ClaimRead: _claim_lost,
    m.IntentsSettled: _intents,
    m.CommitSeen: _elsewhere,
    m.AttemptLost: _because(Classification.ATTEMPT_STALE, "to hold the attempt until the end", _NONE),
    m.LeaseLost: _because(Classification.LEASE_LOST, "to hold the lease until the publication"),
    m.DeadlineExceeded: _because(Classification.DEADLINE_EXCEEDED, "to finish in the time allowed"),
}


@frozen(cache_hash=True, repr=False, slots=False, getstate_setstate=True)
class Known(Value):
    """Everything learnt since the attempt was polled."""

    changed: bool = False
    preserved: bool = False
    output: str = "{}"
    staging: bool = False
    staged: StagedRef | None = None
    adopting: bool = False
    found: StagedRef | None = None
    accepted: tuple[CommitRef, str] | None = None
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
    #: The head that the store refused to move from: of a task with a scope, which looks again where it has moved to.
    refused_on: CommitRef | None = field(default=None, metadata=DECLARED)


if TYPE_CHECKING:
    from attrs import evolve as learn  # so that mypy checks names and types of what is learnt
else:

    def learn(known: Known, **changes: object) -> Known:
        """Return what is known once this is known too.

        Most events teach something, so this is the hot path of ``step``. ``attrs.evolve`` reads and sets every field
        one by one; copying the dictionary takes a quarter of its time.
        """
        more = object.__new__(Known)
        more.__dict__.update(known.__dict__)
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
    """Whether the orchestrator took this execution's result, by its nonce and never by its status alone (T-F3)."""
    return (
        snapshot is not None
        and snapshot.status is TaskStatus.COMPLETED
        and snapshot.result_execution == attempt.execution
    )


def accepted_by(claims: Iterable[Claim], snapshot: TaskSnapshot | None) -> tuple[CommitRef, str] | None:
    """Return what the orchestrator took as the result of a task, if it did and the claims leave no doubt what it was.

    The result of every attempt of the logical task, and of every twin, is this one: it is accepted, and it stays.

    Its own claim says what an execution was going to report, and not what it did if it then adopted what another had
    published. Counterexample: t1 publishes with result 1 and dies; t2 looks too early, comes to result 2, claims, finds
    t1's commit at the head, reports it with result 1 and is accepted; its twin reads result 2 in t2's claim. So every
    claim whose result it may have been must say the same. Where they differ, the head tells whose commit it is.
    """
    if snapshot is None or snapshot.status is not TaskStatus.COMPLETED or snapshot.result_ref is None:
        return None
    known = tuple(claim for claim in claims if claim.reverts is None)
    own = next((claim for claim in known if claim.execution == snapshot.result_execution), None)
    if own is None or own.result is None:
        return None
    unchanged = snapshot.result_ref == own.parent
    possible = {claim.result for claim in known if (claim.tree is None) == unchanged}
    return (snapshot.result_ref, own.result) if possible <= {own.result} else None


def rival(attempt: Attempt, claims: Iterable[Claim]) -> Claim | None:
    """Return the newest claim of another execution, if it is as new as this attempt: that one publishes, not we."""
    above = (claim for claim in claims if claim.number >= attempt.number and claim.execution != attempt.execution)
    return max(above, key=lambda claim: claim.number, default=None)


def is_ours(attempt: Attempt, claim: Claim | None) -> bool:
    """Return whether a claim is this execution's, by its nonce: existence proves nothing (T-W9)."""
    return claim is not None and claim.execution == attempt.execution


def intents_are_clear(attempt: Attempt, event: m.IntentsSettled) -> bool:
    """Return whether no intent of the target is open and the cluster still uses the policy the attempt started with."""
    return not event.unresolved and event.epoch == attempt.epoch


def work_of(known: Known) -> StagedRef | None:
    """Return the commit the attempt stands up for: its own, or the earlier attempt's it is about to adopt."""
    return known.staged or known.found


def plan_of(known: Known) -> PublishPlan:
    """Return the plan that was decided on."""
    assert isinstance(known.decision, fence.Allowed)
    return known.decision.plan


def _body_done(state: AttemptState, event: m.BodyDone) -> Known:
    if event.execution != state.subject.execution:
        return state.known
    preserved = event.content is not None and event.content.is_preserved
    return learn(state.known, changed=event.changed, preserved=preserved, output=event.output)


def _body_failed(state: AttemptState, event: m.BodyFailed) -> Known:
    return _refused(state, event) if event.execution == state.subject.execution else state.known


def _staging_wanted(state: AttemptState, event: m.StagingWanted) -> Known:
    ours = event.execution == state.subject.execution
    return _refused(state, event) if ours and state.subject.read_only else state.known


def _task_reloaded(state: AttemptState, event: m.TaskReloaded) -> Known:
    attempt, known = state.subject, state.known
    if state.phase is Phase.ACCEPTANCE:
        accepted = is_accepted(attempt, event.snapshot)
        return learn(known, acceptance=Acceptance.ACCEPTED if accepted else Acceptance.NOT_ACCEPTED)
    if is_current(attempt, event.snapshot):
        return known
    return learn(known, refusal=stale(attempt, event.snapshot))


def _task_reload_unknown(state: AttemptState, event: Unknown) -> Known:
    if state.phase is Phase.ACCEPTANCE:
        return learn(state.known, acceptance=Acceptance.UNKNOWN)
    return _refused(state, event)


def _claim_answered(state: AttemptState, event: m.ClaimStands | m.ClaimRead) -> Known:
    return state.known if is_ours(state.subject, event.claim) else _refused(state, event)


def _intents_settled(state: AttemptState, event: m.IntentsSettled) -> Known:
    known = learn(state.known, maintained=event.maintained)
    if intents_are_clear(state.subject, event):
        return known
    return learn(known, refusal=_intents(state.subject, event))


def _claims_listed(state: AttemptState, event: m.ClaimsListed) -> Known:
    known = learn(state.known, claims=event.claims)
    return learn(known, refusal=_outranked(state.subject, known)) if state.phase is Phase.RIVALS else known


def _outranked(attempt: Attempt, known: Known) -> Refusal | None:
    """Explain who is above us; if nobody is, what there was to explain stays."""
    above = rival(attempt, known.claims)
    if above is None:
        return known.refusal
    return Refusal(
        Classification.CLAIM_LOST,
        f"attempt {attempt.number} to be the newest that claims task {attempt.logical_task}",
        f"attempt {above.number}, task {above.task_id}, claimed by execution {above.execution}",
        _NONE,
    )


def _owners_read(state: AttemptState, event: m.OwnersRead) -> Known:
    known = learn(state.known, standings=tuple((task, standing(snapshot)) for task, snapshot in event.snapshots))
    if not state.subject.adopts:
        return known
    # Not our own task's: a rerun has taken back what was accepted for it, and an earlier delivery must not restore it.
    others = (snapshot for task, snapshot in event.snapshots if task != state.subject.task_id)
    results = (accepted_by(known.claims, snapshot) for snapshot in others)
    return learn(
        known,
        refusal=_outranked(state.subject, known),
        accepted=next((each for each in results if each is not None), None),
    )


def earlier_head_seen(state: AttemptState, event: m.HeadSeen) -> Known:
    """Learn whether the head is what an earlier attempt published, or left as it was.

    A claim for it is made like one for own work: to publish that commit, or nothing.
    """
    attempt, known = state.subject, state.known
    if event.head is None or event.head.dirty:
        return known
    commit = event.head.commit
    if attempt.shares:
        return _earlier_between(state, event)
    found = fence.adoptable(commit, attempt, known.claims)
    if found is None:
        return known
    assert found.result is not None
    published = StagedRef(attempt.target.repository, attempt.staging_name, commit.ref, commit.tree)
    return learn(known, adopting=True, found=None if found.tree is None else published, output=found.result)


def _earlier_between(state: AttemptState, event: m.HeadSeen) -> Known:
    attempt, known = state.subject, state.known
    found = fence.adoptable_between(attempt, known.claims, event.between)
    if found is None:
        return known
    published = (
        None
        if found.tree is None
        else StagedRef(attempt.target.repository, attempt.staging_name, found.ref, found.tree)
    )
    return learn(known, adopting=True, found=published, output=found.output)


def judged_by(ruling: Callable[[fence.Case], fence.Decision]) -> Callable[[AttemptState, m.HeadSeen], Known]:
    """Make what a head teaches out of a decision: in goes all it may look at, and it stays with its reason."""

    def judge(state: AttemptState, event: m.HeadSeen) -> Known:
        known = state.known
        case = fence.Case(
            attempt=state.subject,
            staged=known.staged,
            output=known.output,
            preserved=known.preserved,
            adopting=known.adopting,
            head=event.head,
            claims=known.claims,
            standings=known.standings,
            maintained=known.maintained,
            token=known.token,
            now=event.now,
            attempt_until=event.attempt_until,
            lease_until=event.lease_until,
            between=event.between,
            refused=_refused_already(known),
            beside=event.beside,
        )
        decision = ruling(case)
        return learn(known, decision=decision, refusal=decision.refusal or known.refusal)

    return judge


def _refused_already(known: Known) -> tuple[CommitRef, Refusal] | None:
    if known.refused_on is None:
        return None
    assert known.refusal is not None
    return known.refused_on, known.refusal


def _own_head_seen(state: AttemptState, event: m.HeadSeen) -> Known:
    known = state.known
    if event.head is None:
        return known
    found = fence.own_effect(state.subject, plan_of(known), event.head.commit, event.between)
    return known if found is None else learn(known, published=found, uncertain=False)


def _commit_seen(state: AttemptState, event: m.CommitSeen) -> Known:
    known, commit = state.known, event.commit
    if commit is not None and commit.ref == known.published and fence.verified(plan_of(known), commit):
        return known
    return learn(known, uncertain=True, refusal=_elsewhere(state.subject, event))


def _report_answered(acceptance: Acceptance) -> Callable[[AttemptState, Event], Known]:
    def remember(state: AttemptState, _event: Event) -> Known:
        (sent,) = state.pending
        assert isinstance(sent, Report)
        return learn(state.known, result=sent.result, acceptance=acceptance)

    return remember


def _refused(state: AttemptState, event: Event) -> Known:
    """Keep the reason. Once a publication is on its way, also that the target may have moved or may still move.

    Only the store's own refusal to publish says that nothing did. Whatever else fails from there on, the reason must
    not tell people that nothing was published, nor may the intent be settled as if nothing were.
    """
    explain = _OBJECTIONS.get(type(event)) or _FAILURES[type(state.pending[0]), type(event)]
    refusal = explain(state.subject, event)
    if state.phase is Phase.PUBLICATION and isinstance(event, NotDone) and state.subject.shares:
        return learn(state.known, refusal=refusal, refused_on=plan_of(state.known).expected)
    if state.phase not in FROM_PUBLICATION or (state.phase is Phase.PUBLICATION and isinstance(event, NotDone)):
        return learn(state.known, refusal=refusal)
    return learn(state.known, refusal=evolve(refusal, next_action=LOOK), uncertain=True)


def _staging_in_doubt(state: AttemptState, event: Event) -> Known:
    """The name may exist although nobody confirmed it; from here on clean-up must try to remove it (rule 3, T-P2)."""
    return learn(_refused(state, event), staging=True)


def _interrupted(state: AttemptState, event: Event) -> Known:
    """Outside events refuse, and leave open whether what is on its way happens: a name, a publication (rule 4)."""
    if state.phase in AFTER_REPORT:
        return state.known
    return _staging_in_doubt(state, event) if state.phase in _OPENING else _refused(state, event)


def _lease_lost(state: AttemptState, event: m.LeaseLost) -> Known:
    """Once the publication has answered, the lease has done its work and its loss teaches nothing."""
    if state.phase in FROM_PUBLICATION and state.phase is not Phase.PUBLICATION:
        return state.known
    return _interrupted(state, event)


def _failed(state: AttemptState, event: NotDone | Unknown) -> Known:
    """What a command teaches that was not done, or whose fate is unknown: for most, the reason to refuse."""
    if state.phase in EARLIER or state.phase is Phase.RIVALS:
        return state.known
    return _LESSONS.get((type(state.pending[0]), type(event)), _refused)(state, event)


def _left_behind(state: AttemptState, event: NotDone | Unknown) -> Known:
    return learn(state.known, left_behind=event.left)


def _nothing(state: AttemptState, _event: Event) -> Known:
    """The result is on its way; a sweep finds out what became of the intent."""
    return state.known


_OPENING = (Phase.STAGING_0, Phase.STAGING)

_LESSONS: Mapping[tuple[type[Command], type[Event]], Callable[[AttemptState, Any], Known]] = {
    (m.ReloadTask, Unknown): _task_reload_unknown,
    (m.OpenStaging, Unknown): _staging_in_doubt,
    (m.Report, NotDone): _report_answered(Acceptance.NOT_ACCEPTED),
    (m.Report, Unknown): _report_answered(Acceptance.UNKNOWN),
    (m.ConfirmIntent, NotDone): _nothing,
    (m.ConfirmIntent, Unknown): _nothing,
    (m.SettleIntent, NotDone): _nothing,
    (m.SettleIntent, Unknown): _nothing,
    (m.CleanUp, NotDone): _left_behind,
    (m.CleanUp, Unknown): _left_behind,
}

REMEMBER: Mapping[type[Event], Callable[[AttemptState, Any], Known]] = {
    NotDone: _failed,
    Unknown: _failed,
    m.BodyDone: _body_done,
    m.BodyFailed: _body_failed,
    m.TaskReloaded: _task_reloaded,
    m.StagingOpened: lambda state, _: learn(state.known, staging=True),
    m.Staged: lambda state, event: learn(state.known, staged=event.staged),
    m.NothingStaged: lambda state, _: learn(state.known, changed=False),
    m.ClaimsListed: _claims_listed,
    m.OwnersRead: _owners_read,
    m.StagingWanted: _staging_wanted,
    m.ClaimStands: _claim_answered,
    m.ClaimRead: _claim_answered,
    m.IntentsSettled: _intents_settled,
    m.LeaseHeld: lambda state, event: learn(state.known, token=event.token),
    m.Armed: lambda state, _: learn(state.known, armed=True),
    m.HeadSeen: _own_head_seen,
    m.Published: lambda state, event: learn(state.known, published=event.ref),
    m.CommitSeen: _commit_seen,
    m.Reported: _report_answered(Acceptance.UNREAD),
    m.AttemptLost: _interrupted,
    m.LeaseLost: _lease_lost,
    m.DeadlineExceeded: _interrupted,
}
