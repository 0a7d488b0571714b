"""The attempt machine: what does one attempt do next, given what just happened.

Read it top to bottom; it is one publication. One line is one row:

    id | waiting for | when | if | then wait for | and ask for

How to read it
--------------
* ``soft`` is the seed protocol, step for step: two attempt fences, one look at the head, one movement.
* The ledger is a switch of its own: with it on, open intents are settled and an intent is armed before the head is read,
  and confirmed and settled after the report. It adds evidence and changes no verdict.
* The other backings add claim and owner rule for all, revocation and barrier for ``conditional`` and ``locked``, the
  lease, a third fence and the takeover wait for ``locked``. They change which rows are reachable, not who decides.
* Two partial orders carry the weight: *name before last fence before send*, and *revoke before barrier before observe
  before send* (with a lease also *lease before fence 3*, *lease before observe*). No row puts anything between
  observing the head and sending the plan: HEAD leads to PUBLICATION and nowhere in between.
* Any answer that is not *done* leads to a report of failure, to silence, or, for a publication outside ``soft``, to
  finding out. Going to CLEAN_UP without a report is silence: the attempt is not ours to speak for.
* Then: publish, report, clean up. Whatever the ledger wants (confirm, settle) comes after the report, because everything
  between publish and report only widens the one window that matters.

What is not here: events from outside, which may come at any time, are in ``interrupts``. Bodies, heartbeats, polling and
shutdown belong to the runtime; they reach the machine as events.
"""

from __future__ import annotations

from perago_core import fence
from perago_core.attempt import messages as m
from perago_core.attempt.state import (
    AFTER_REPORT,
    BEFORE_PUBLICATION,
    BEYOND_SOFT,
    FROM_PUBLICATION,
    REMEMBER,
    UNDER_LEASE,
    AttemptState,
    Known,
    Phase,
    intents_are_clear,
    is_accepted,
    is_current,
    is_ours,
    plan_of,
)
from perago_core.attempt.state import Phase as P
from perago_core.errors import ProtocolError
from perago_core.ledger.records import SettlementKind
from perago_core.machine.engine import Table
from perago_core.machine.rows import ALWAYS, Ask, Command, Definition, Event, Fact, Row, Step, asks, when
from perago_core.plan import PlanKind
from perago_core.results import Completed, Failed, FailedTerminally, Outcome, Refusal
from perago_core.values import Attempt, Backing, CommitRef, claim_of


def _mode(attempt: Attempt, _known: Known, _event: object) -> str:
    return "read only" if attempt.read_only else "writable"


def _backing(attempt: Attempt, _known: Known, _event: object) -> str:
    return attempt.backing.value


def _guarded_by(attempt: Attempt, _known: Known, _event: object) -> str:
    return _GUARDED_BY[attempt.backing]


#: What keeps older attempts from acting once we have observed the head. ``soft`` has nothing and never asks.
_GUARDED_BY = {
    Backing.SOFT: "nothing",
    Backing.ATOMIC: "claim",
    Backing.CONDITIONAL: "revocation",
    Backing.LOCKED: "lease",
}


def _ledger(attempt: Attempt, _known: Known, _event: object) -> str:
    return "on" if attempt.ledger else "off"


def _sender(attempt: Attempt, _known: Known, event: m.BodyEvent) -> str:
    return "ours" if event.execution == attempt.execution else "foreign"


def _failure(_attempt: Attempt, _known: Known, event: m.BodyFailed) -> str:
    return "terminal" if event.terminal else "plain"


def _diff(_attempt: Attempt, known: Known, _event: object) -> str:
    return "changed" if known.changed else "unchanged"


def _staging(_attempt: Attempt, known: Known, _event: object) -> str:
    return "open" if known.staging else "none"


def _attempt(attempt: Attempt, _known: Known, event: m.TaskReloaded) -> str:
    return "current" if is_current(attempt, event.snapshot) else "stale"


def _time(_attempt: Attempt, _known: Known, event: m.TaskReloadUnknown) -> str:
    return "left" if event.now < event.attempt_until else "over"


def _claim(attempt: Attempt, _known: Known, event: m.ClaimStands | m.ClaimRead) -> str:
    return "ours" if is_ours(attempt, event.claim) else "not ours"


def _others(attempt: Attempt, known: Known, _event: object) -> str:
    return "some" if any(claim.execution != attempt.execution for claim in known.claims) else "none"


def _intents(attempt: Attempt, _known: Known, event: m.IntentsSettled) -> str:
    return "clear" if intents_are_clear(attempt, event) else "open"


def _predecessor(_attempt: Attempt, _known: Known, event: m.LeaseHeld) -> str:
    return "clean" if event.clean else "unclean"


def _verdict(_attempt: Attempt, known: Known, _event: object) -> str:
    assert known.decision is not None
    return known.decision.verdict


def _moves(_attempt: Attempt, known: Known, _event: object) -> str:
    return "to the input" if plan_of(known).kind is PlanKind.RETURN else "to a commit"


def _effect(_attempt: Attempt, known: Known, _event: object) -> str:
    return "ours" if known.published is not None and not known.uncertain else "not ours"


def _result(_attempt: Attempt, known: Known, _event: object) -> str:
    return "completed" if isinstance(known.result, Completed) else "failed"


def _reads_back(attempt: Attempt, _known: Known, _event: object) -> str:
    return "no" if attempt.read_only or (attempt.backing is Backing.SOFT and not attempt.ledger) else "yes"


def _intent(_attempt: Attempt, known: Known, _event: object) -> str:
    if not known.armed:
        return "none"
    return "uncertain" if known.uncertain else "armed"


def _acceptance(attempt: Attempt, _known: Known, event: m.TaskReloaded) -> str:
    return "ours" if is_accepted(attempt, event.snapshot) else "not ours"


FACTS = (
    Fact("mode", ("read only", "writable"), _mode),
    Fact("backing", ("soft", "atomic", "conditional", "locked"), _backing),
    Fact("guarded_by", ("nothing", "claim", "revocation", "lease"), _guarded_by),
    Fact("ledger", ("on", "off"), _ledger),
    Fact("sender", ("ours", "foreign"), _sender),
    Fact("failure", ("plain", "terminal"), _failure),
    Fact("diff", ("changed", "unchanged"), _diff),
    Fact("staging", ("open", "none"), _staging),
    Fact("attempt", ("current", "stale"), _attempt),
    Fact("time", ("left", "over"), _time),
    Fact("claim", ("ours", "not ours"), _claim),
    Fact("others", ("some", "none"), _others),
    Fact("intents", ("open", "clear"), _intents),
    Fact("predecessor", ("clean", "unclean"), _predecessor),
    Fact("verdict", ("merge", "replace", "return", "nothing", "refuse", "late"), _verdict),
    Fact("moves", ("to a commit", "to the input"), _moves),
    Fact("effect", ("ours", "not ours"), _effect),
    Fact("result", ("completed", "failed"), _result),
    Fact("reads_back", ("yes", "no"), _reads_back),
    Fact("intent", ("none", "armed", "uncertain"), _intent),
    Fact("acceptance", ("ours", "not ours"), _acceptance),
)


# Commands without arguments are always the same value.
_PREPARE_WORKSPACE = m.PrepareWorkspace()
_RUN_BODY = m.RunBody()
_RELOAD_TASK = m.ReloadTask()
_LIST_CLAIMS = m.ListClaims()
_SETTLE_INTENTS = m.SettleIntents()
_ACQUIRE_LEASE = m.AcquireLease()
_PASS_BARRIER = m.PassBarrier()
_READ_HEAD = m.ReadHead()


@asks(m.PrepareWorkspace)
def prepare_workspace(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _PREPARE_WORKSPACE


@asks(m.RunBody)
def run_body(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _RUN_BODY


@asks(m.ResumeBody)
def resume_body(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.ResumeBody(attempt.staging_name)


@asks(m.ReloadTask)
def reload_task(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _RELOAD_TASK


@asks(m.OpenStaging)
def open_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.OpenStaging(attempt.staging_name, attempt.input)


@asks(m.Upload)
def upload(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.Upload(attempt.staging_name)


@asks(m.CommitStaging)
def commit_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    message = f"{attempt.logical_task} attempt {attempt.number} ({attempt.task_id})"
    return m.CommitStaging(attempt.staging_name, message)


@asks(m.MakeClaim)
def make_claim(attempt: Attempt, known: Known, _event: object) -> Command:
    return m.MakeClaim(claim_of(attempt, known.staged))


@asks(m.ReadClaim)
def read_claim(attempt: Attempt, known: Known, _event: object) -> Command:
    return m.ReadClaim(claim_of(attempt, known.staged))


@asks(m.ListClaims)
def list_claims(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _LIST_CLAIMS


@asks(m.ReadOwners)
def read_owners(attempt: Attempt, known: Known, _event: object) -> Command:
    others = {(claim.workflow_id, claim.task_id) for claim in known.claims if claim.execution != attempt.execution}
    return m.ReadOwners(tuple(sorted(others)))


@asks(m.SettleIntents)
def settle_intents(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _SETTLE_INTENTS


@asks(m.AcquireLease)
def acquire_lease(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _ACQUIRE_LEASE


@asks(m.AwaitTakeover)
def await_takeover(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.AwaitTakeover(attempt.budget.takeover_wait)


@asks(m.RevokeOlder)
def revoke_older(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.RevokeOlder(attempt.number)


@asks(m.PassBarrier)
def pass_barrier(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _PASS_BARRIER


@asks(m.ArmIntent)
def arm_intent(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.ArmIntent(known.staged, known.token)


@asks(m.ReadHead)
def read_head(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _READ_HEAD


@asks(m.Publish)
def publish(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.Publish(plan_of(known))


@asks(m.DropStaging)
def drop_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.DropStaging(attempt.staging_name)


@asks(m.ReadCommit)
def read_commit(_attempt: Attempt, known: Known, _event: object) -> Command:
    assert known.published is not None
    return m.ReadCommit(known.published)


@asks(m.Report)
def report_input(attempt: Attempt, known: Known, _event: object) -> Command:
    return m.Report(Completed(attempt.input, known.output, attempt.execution))


@asks(m.Report)
def report_unneeded(attempt: Attempt, known: Known, _event: object) -> Command:
    assert isinstance(known.decision, fence.Unneeded)
    return m.Report(Completed(known.decision.output, known.output, attempt.execution))


@asks(m.Report)
def report_published(attempt: Attempt, known: Known, _event: object) -> Command:
    assert known.published is not None
    return m.Report(Completed(known.published, known.output, attempt.execution))


@asks(m.Report)
def report_failed(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.Report(Failed(_the_refusal(known)))


@asks(m.Report)
def report_terminal(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.Report(FailedTerminally(_the_refusal(known)))


def _the_refusal(known: Known) -> Refusal:
    assert known.refusal is not None
    return known.refusal


@asks(m.ConfirmIntent)
def confirm_intent(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.ConfirmIntent(_completed_ref(known))


@asks(m.SettleIntent)
def settle_accepted(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.SettleIntent(SettlementKind.ACCEPTED, _completed_ref(known))


@asks(m.SettleIntent)
def settle_not_published(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.SettleIntent(SettlementKind.NOT_PUBLISHED)


def _completed_ref(known: Known) -> CommitRef:
    assert isinstance(known.result, Completed)
    return known.result.ref


@asks(m.CleanUp)
def clean_up(attempt: Attempt, known: Known, _event: object) -> Command:
    """Release the lease only when the publication's fate is known.

    After an unknown one the next holder must meet an unclean release, so that it waits until our request has ended.
    """
    return m.CleanUp(
        name=attempt.staging_name if known.staging else None,
        release_lease=known.token is not None and not known.uncertain,
    )


#: Every backing but the seed's own.
STRONG = ("atomic", "conditional", "locked")
#: The backings that act by a revocable name.
BY_NAME = ("conditional", "locked")


def refused(prefix: str, phase: P, *failures: type[Event]) -> tuple[Row, ...]:
    """Rows for answers that end the attempt with a reported failure."""
    return tuple(
        Row(f"{prefix}{number}", phase, failure, ALWAYS, P.REPORT, report_failed)
        for number, failure in enumerate(failures, start=1)
    )


def failed_fence(prefix: str, phase: P) -> tuple[Row, ...]:
    """Rows for an attempt fence that does not pass.

    The seed reports FAILED. Outside ``soft`` a stale attempt is silent: the task may belong to a successor by now, and
    our FAILED would be taken for its. An unreadable task is FAILED only while our own deadline has not passed.
    """
    if phase in BEYOND_SOFT:
        return (
            Row(f"{prefix}1", phase, m.TaskReloaded, when(attempt="stale"), P.CLEAN_UP, clean_up),
            Row(f"{prefix}2", phase, m.TaskReloadUnknown, when(time="left"), P.REPORT, report_failed),
            Row(f"{prefix}3", phase, m.TaskReloadUnknown, when(time="over"), P.CLEAN_UP, clean_up),
        )
    return (
        Row(f"{prefix}1", phase, m.TaskReloaded, when(attempt="stale", backing=STRONG), P.CLEAN_UP, clean_up),
        Row(f"{prefix}2", phase, m.TaskReloadUnknown, when(backing=STRONG, time="left"), P.REPORT, report_failed),
        Row(f"{prefix}3", phase, m.TaskReloadUnknown, when(backing=STRONG, time="over"), P.CLEAN_UP, clean_up),
        Row(f"{prefix}4", phase, m.TaskReloaded, when(attempt="stale", backing="soft"), P.REPORT, report_failed),
        Row(f"{prefix}5", phase, m.TaskReloadUnknown, when(backing="soft"), P.REPORT, report_failed),
    )


def guarded(prefix: str, phase: P, event: type[Event], **also: str) -> tuple[Row, ...]:
    """Rows to the next safeguard once the claims are judged and, with a ledger, the intents are clear."""
    ledger = event is m.IntentsSettled
    observe: tuple[P, Ask] = (P.INTENT, arm_intent) if ledger else (P.HEAD, read_head)
    return (
        Row(f"{prefix}1", phase, event, when(guarded_by="lease", **also), P.LEASE, acquire_lease),
        Row(f"{prefix}2", phase, event, when(guarded_by="revocation", **also), P.REVOCATION, revoke_older),
        Row(f"{prefix}3", phase, event, when(guarded_by=("claim", "nothing"), **also), *observe),
    )


# One row, one line; the blank lines between the phases are part of how the table reads.
# fmt: off
ROWS: tuple[Row, ...] = (
    Row("W1", P.WORKSPACE, m.WorkspaceReady, ALWAYS, P.BODY, run_body),
    *refused("WX", P.WORKSPACE, m.WorkspaceRefused, m.WorkspaceUnknown),

    Row("B1", P.BODY, m.BodyDone, when(sender="ours", mode="read only"), P.REPORT, report_input),
    Row("B2", P.BODY, m.BodyDone, when(sender="ours", mode="writable"), P.FENCE_1, reload_task),
    Row("B3", P.BODY, m.BodyDone, when(sender="foreign"), P.BODY,
        note="another execution's completion is dropped"),
    Row("B4", P.BODY, m.BodyFailed, when(sender="ours", failure="plain"), P.REPORT, report_failed),
    Row("B5", P.BODY, m.BodyFailed, when(sender="ours", failure="terminal"), P.REPORT, report_terminal),
    Row("B6", P.BODY, m.BodyFailed, when(sender="foreign"), P.BODY),
    Row("B7", P.BODY, m.StagingWanted, when(sender="ours", mode="writable", staging="none"), P.FENCE_0, reload_task),
    Row("B8", P.BODY, m.StagingWanted, when(sender="ours", mode="writable", staging="open"), P.BODY, resume_body),
    Row("B9", P.BODY, m.StagingWanted, when(sender="ours", mode="read only"), P.REPORT, report_failed),
    Row("B10", P.BODY, m.StagingWanted, when(sender="foreign"), P.BODY),
    *refused("BX", P.BODY, m.BodyLost),

    Row("E1", P.FENCE_0, m.TaskReloaded, when(attempt="current"), P.STAGING_0, open_staging),
    *failed_fence("EX", P.FENCE_0),

    Row("O1", P.STAGING_0, m.StagingOpened, ALWAYS, P.BODY, resume_body),
    *refused("OX", P.STAGING_0, m.StagingRefused, m.StagingUnknown),

    Row("F1", P.FENCE_1, m.TaskReloaded, when(attempt="current", diff="changed", staging="none"), P.STAGING, open_staging),
    Row("F2", P.FENCE_1, m.TaskReloaded, when(attempt="current", diff="changed", staging="open"), P.UPLOAD, upload),
    Row("F3", P.FENCE_1, m.TaskReloaded, when(attempt="current", diff="unchanged", backing="soft", ledger="off"), P.HEAD, read_head),
    Row("F4", P.FENCE_1, m.TaskReloaded, when(attempt="current", diff="unchanged", backing="soft", ledger="on"), P.INTENTS, settle_intents),
    Row("F5", P.FENCE_1, m.TaskReloaded, when(attempt="current", diff="unchanged", backing="atomic"), P.CLAIM, make_claim),
    Row("F6", P.FENCE_1, m.TaskReloaded, when(attempt="current", diff="unchanged", backing=BY_NAME, staging="none"), P.STAGING, open_staging,
        note="the anchor: a no-op that leaves no mark lets a stalled predecessor land after it"),
    Row("F7", P.FENCE_1, m.TaskReloaded, when(attempt="current", diff="unchanged", backing=BY_NAME, staging="open"), P.FENCE_2, reload_task),
    *failed_fence("FX", P.FENCE_1),

    Row("S1", P.STAGING, m.StagingOpened, when(diff="changed"), P.UPLOAD, upload),
    Row("S2", P.STAGING, m.StagingOpened, when(diff="unchanged"), P.FENCE_2, reload_task),
    *refused("SX", P.STAGING, m.StagingRefused, m.StagingUnknown),

    Row("U1", P.UPLOAD, m.Uploaded, ALWAYS, P.COMMIT, commit_staging),
    *refused("UX", P.UPLOAD, m.UploadRefused, m.UploadUnknown),

    Row("C1", P.COMMIT, m.Staged, ALWAYS, P.FENCE_2, reload_task),
    Row("C2", P.COMMIT, m.NothingStaged, ALWAYS, P.FENCE_2, reload_task,
        note="a no-op after all: no empty commit"),
    *refused("CX", P.COMMIT, m.CommitRefused, m.CommitUnknown),

    Row("G1", P.FENCE_2, m.TaskReloaded, when(attempt="current", backing="soft", ledger="off"), P.HEAD, read_head),
    Row("G2", P.FENCE_2, m.TaskReloaded, when(attempt="current", backing="soft", ledger="on"), P.INTENTS, settle_intents),
    Row("G3", P.FENCE_2, m.TaskReloaded, when(attempt="current", backing=STRONG), P.CLAIM, make_claim),
    *failed_fence("GX", P.FENCE_2),

    Row("K1", P.CLAIM, m.ClaimStands, when(claim="ours"), P.CLAIMS, list_claims),
    Row("K2", P.CLAIM, m.ClaimStands, when(claim="not ours"), P.CLEAN_UP, clean_up,
        note="silent: a FAILED from the duplicate would end the winner's attempt, because both share the task id"),
    Row("K3", P.CLAIM, m.ClaimUnknown, ALWAYS, P.CLAIM_CHECK, read_claim),
    *refused("KX", P.CLAIM, m.ClaimRefused),

    Row("Q1", P.CLAIM_CHECK, m.ClaimRead, when(claim="ours"), P.CLAIMS, list_claims),
    Row("Q2", P.CLAIM_CHECK, m.ClaimRead, when(claim="not ours"), P.CLEAN_UP, clean_up),
    Row("Q3", P.CLAIM_CHECK, m.ClaimReadUnknown, ALWAYS, P.CLEAN_UP, clean_up),

    Row("L1", P.CLAIMS, m.ClaimsListed, when(others="some"), P.OWNERS, read_owners),
    Row("L2", P.CLAIMS, m.ClaimsListed, when(others="none", ledger="on"), P.INTENTS, settle_intents),
    *guarded("LG", P.CLAIMS, m.ClaimsListed, others="none", ledger="off"),
    *refused("LX", P.CLAIMS, m.ClaimsUnknown),

    Row("N1", P.OWNERS, m.OwnersRead, when(ledger="on"), P.INTENTS, settle_intents),
    *guarded("NG", P.OWNERS, m.OwnersRead, ledger="off"),
    *refused("NX", P.OWNERS, m.OwnersUnknown),

    Row("I1", P.INTENTS, m.IntentsSettled, when(intents="open"), P.REPORT, report_failed,
        note="never around an unresolved intent, never beside workers of another policy epoch"),
    *guarded("IG", P.INTENTS, m.IntentsSettled, intents="clear"),
    *refused("IX", P.INTENTS, m.IntentsUnknown),

    Row("T1", P.LEASE, m.LeaseHeld, when(predecessor="clean"), P.FENCE_3, reload_task),
    Row("T2", P.LEASE, m.LeaseHeld, when(predecessor="unclean"), P.TAKEOVER, await_takeover),
    *refused("TX", P.LEASE, m.LeaseBusy, m.LeaseUnknown),

    Row("D1", P.TAKEOVER, m.Waited, ALWAYS, P.FENCE_3, reload_task),

    Row("J1", P.FENCE_3, m.TaskReloaded, when(attempt="current"), P.REVOCATION, revoke_older),
    *failed_fence("JX", P.FENCE_3),

    Row("V1", P.REVOCATION, m.Revoked, ALWAYS, P.BARRIER, pass_barrier),
    *refused("VX", P.REVOCATION, m.RevokeRefused, m.RevokeUnknown),

    Row("A1", P.BARRIER, m.BarrierPassed, when(ledger="on"), P.INTENT, arm_intent),
    Row("A2", P.BARRIER, m.BarrierPassed, when(ledger="off"), P.HEAD, read_head),
    *refused("AX", P.BARRIER, m.BarrierRefused, m.BarrierUnknown),

    Row("M1", P.INTENT, m.Armed, ALWAYS, P.HEAD, read_head),
    *refused("MX", P.INTENT, m.ArmRefused, m.ArmUnknown),

    Row("H1", P.HEAD, m.HeadSeen, when(verdict="merge"), P.PUBLICATION, publish),
    Row("H2", P.HEAD, m.HeadSeen, when(verdict="replace"), P.PUBLICATION, publish),
    Row("H3", P.HEAD, m.HeadSeen, when(verdict="return"), P.PUBLICATION, publish),
    Row("H4", P.HEAD, m.HeadSeen, when(verdict="nothing"), P.REPORT, report_unneeded),
    Row("H5", P.HEAD, m.HeadSeen, when(verdict="refuse"), P.REPORT, report_failed),
    Row("H6", P.HEAD, m.HeadSeen, when(verdict="late"), P.CLEAN_UP, clean_up),
    *refused("HX", P.HEAD, m.HeadUnknown),

    Row("P1", P.PUBLICATION, m.Published, when(moves="to a commit", backing="soft"), P.REPORT, report_published),
    Row("P2", P.PUBLICATION, m.Published, when(moves="to a commit", backing=STRONG), P.READ_BACK, read_commit),
    Row("P3", P.PUBLICATION, m.Published, when(moves="to the input"), P.REPORT, report_input),
    Row("P4", P.PUBLICATION, m.PublishUnknown, when(guarded_by="nothing"), P.REPORT, report_failed,
        note="never sent again, never called success"),
    Row("P5", P.PUBLICATION, m.PublishUnknown, when(guarded_by="claim"), P.OWN_HEAD, read_head),
    Row("P6", P.PUBLICATION, m.PublishUnknown, when(guarded_by=("revocation", "lease")), P.OWN_REVOCATION, drop_staging),
    *refused("PX", P.PUBLICATION, m.PublishRefused),

    Row("R1", P.OWN_REVOCATION, m.Dropped, ALWAYS, P.OWN_BARRIER, pass_barrier),
    *refused("RX", P.OWN_REVOCATION, m.DropRefused, m.DropUnknown),

    Row("R2", P.OWN_BARRIER, m.BarrierPassed, ALWAYS, P.OWN_HEAD, read_head),
    *refused("RB", P.OWN_BARRIER, m.BarrierRefused, m.BarrierUnknown),

    Row("R3", P.OWN_HEAD, m.HeadSeen, when(effect="ours"), P.OWN_FENCE, reload_task),
    Row("R4", P.OWN_HEAD, m.HeadSeen, when(effect="not ours"), P.REPORT, report_failed),
    *refused("RH", P.OWN_HEAD, m.HeadUnknown),

    Row("R5", P.OWN_FENCE, m.TaskReloaded, when(attempt="current"), P.REPORT, report_published),
    *failed_fence("RF", P.OWN_FENCE),

    Row("Y1", P.READ_BACK, m.CommitSeen, when(effect="ours"), P.REPORT, report_published),
    Row("Y2", P.READ_BACK, m.CommitSeen, when(effect="not ours"), P.REPORT, report_failed),
    *refused("YX", P.READ_BACK, m.CommitUnreadable),

    *(
        row
        for prefix, event in (("Z", m.Reported), ("ZU", m.ReportUnknown))
        for row in (
            Row(f"{prefix}1", P.REPORT, event, when(result="completed", reads_back="no"), P.CLEAN_UP, clean_up),
            Row(f"{prefix}2", P.REPORT, event, when(result="completed", reads_back="yes", intent="none"), P.ACCEPTANCE, reload_task),
            Row(f"{prefix}3", P.REPORT, event, when(result="completed", reads_back="yes", intent=("armed", "uncertain")), P.CONFIRMATION, confirm_intent),
            Row(f"{prefix}4", P.REPORT, event, when(result="failed", intent=("none", "uncertain")), P.CLEAN_UP, clean_up),
            Row(f"{prefix}5", P.REPORT, event, when(result="failed", intent="armed"), P.SETTLEMENT, settle_not_published),
        )
    ),
    Row("ZX1", P.REPORT, m.ReportRefused, when(result="completed"), P.CLEAN_UP, clean_up),
    Row("ZX2", P.REPORT, m.ReportRefused, when(result="failed", intent=("none", "uncertain")), P.CLEAN_UP, clean_up),
    Row("ZX3", P.REPORT, m.ReportRefused, when(result="failed", intent="armed"), P.SETTLEMENT, settle_not_published),

    Row("ZC1", P.CONFIRMATION, m.Confirmed, ALWAYS, P.ACCEPTANCE, reload_task),
    Row("ZC2", P.CONFIRMATION, m.ConfirmRefused, ALWAYS, P.ACCEPTANCE, reload_task),
    Row("ZC3", P.CONFIRMATION, m.ConfirmUnknown, ALWAYS, P.ACCEPTANCE, reload_task),

    Row("ZA1", P.ACCEPTANCE, m.TaskReloaded, when(acceptance="ours", intent="none"), P.CLEAN_UP, clean_up),
    Row("ZA2", P.ACCEPTANCE, m.TaskReloaded, when(acceptance="ours", intent=("armed", "uncertain")), P.SETTLEMENT, settle_accepted),
    Row("ZA3", P.ACCEPTANCE, m.TaskReloaded, when(acceptance="not ours"), P.CLEAN_UP, clean_up,
        note="a sweep settles the intent once the authority has spoken"),
    Row("ZA4", P.ACCEPTANCE, m.TaskReloadUnknown, ALWAYS, P.CLEAN_UP, clean_up),

    Row("ZS1", P.SETTLEMENT, m.Settled, ALWAYS, P.CLEAN_UP, clean_up),
    Row("ZS2", P.SETTLEMENT, m.SettleRefused, ALWAYS, P.CLEAN_UP, clean_up),
    Row("ZS3", P.SETTLEMENT, m.SettleUnknown, ALWAYS, P.CLEAN_UP, clean_up),

    Row("X1", P.CLEAN_UP, m.CleanedUp, ALWAYS, P.DONE),
    Row("X2", P.CLEAN_UP, m.CleanUpRefused, ALWAYS, P.DONE, note="logged; the result stands"),
    Row("X3", P.CLEAN_UP, m.CleanUpUnknown, ALWAYS, P.DONE),
)
# fmt: on


def _unknown_publication(prefix: str, event: type[Event]) -> tuple[Row, ...]:
    """The interruption takes the same ways as an unknown publication."""
    by_name = ("revocation", "lease")
    return (
        Row(f"{prefix}1", P.PUBLICATION, event, when(guarded_by="nothing"), P.REPORT, report_failed),
        Row(f"{prefix}2", P.PUBLICATION, event, when(guarded_by="claim"), P.OWN_HEAD, read_head),
        Row(f"{prefix}3", P.PUBLICATION, event, when(guarded_by=by_name), P.OWN_REVOCATION, drop_staging),
    )


def _without(phases: tuple[P, ...], *excluded: P) -> tuple[P, ...]:
    return tuple(phase for phase in phases if phase not in excluded)


_RESOLVING = _without(FROM_PUBLICATION, P.PUBLICATION)
_WITH_SOFT = _without((*BEFORE_PUBLICATION, *FROM_PUBLICATION), *BEYOND_SOFT)
#: Nobody knows yet whose the attempt is.
_CLAIMING = (P.CLAIM, P.CLAIM_CHECK)

INTERRUPTS: tuple[Row, ...] = (
    *(
        Row(f"AL-{phase.name}-soft", phase, m.AttemptLost, when(backing="soft"), P.REPORT, report_failed)
        for phase in _WITH_SOFT
    ),
    *(
        Row(f"AL-{phase.name}", phase, m.AttemptLost, when(backing=STRONG), P.CLEAN_UP, clean_up)
        for phase in _WITH_SOFT
    ),
    *(Row(f"AL-{phase.name}", phase, m.AttemptLost, ALWAYS, P.CLEAN_UP, clean_up) for phase in BEYOND_SOFT),
    *(Row(f"AL-{phase.name}", phase, m.AttemptLost, ALWAYS, phase) for phase in AFTER_REPORT),
    *(
        Row(f"DE-{phase.name}", phase, m.DeadlineExceeded, ALWAYS, P.REPORT, report_failed)
        for phase in (*_without(BEFORE_PUBLICATION, *_CLAIMING), *_RESOLVING)
    ),
    *(Row(f"DE-{phase.name}", phase, m.DeadlineExceeded, ALWAYS, P.CLEAN_UP, clean_up) for phase in _CLAIMING),
    *_unknown_publication("DE-PUBLICATION-", m.DeadlineExceeded),
    *(Row(f"DE-{phase.name}", phase, m.DeadlineExceeded, ALWAYS, phase) for phase in AFTER_REPORT),
    *(Row(f"LL-{phase.name}", phase, m.LeaseLost, ALWAYS, P.REPORT, report_failed) for phase in UNDER_LEASE),
    *_unknown_publication("LL-PUBLICATION-", m.LeaseLost),
    *(Row(f"LL-{phase.name}", phase, m.LeaseLost, ALWAYS, phase) for phase in (*_RESOLVING, *AFTER_REPORT)),
)


def _opening(_attempt: Attempt) -> tuple[Known, Ask]:
    return Known(), prepare_workspace


ATTEMPT: Table[Attempt, Known] = Table(
    Definition(
        name="attempt",
        phases=Phase,
        initial=Phase.WORKSPACE,
        terminal=frozenset({Phase.DONE}),
        facts=FACTS,
        rows=(*ROWS, *INTERRUPTS),
        waits={
            Phase.WORKSPACE: (m.PrepareWorkspace,),
            Phase.BODY: (m.RunBody, m.ResumeBody),
            Phase.FENCE_0: (m.ReloadTask,),
            Phase.STAGING_0: (m.OpenStaging,),
            Phase.FENCE_1: (m.ReloadTask,),
            Phase.STAGING: (m.OpenStaging,),
            Phase.UPLOAD: (m.Upload,),
            Phase.COMMIT: (m.CommitStaging,),
            Phase.FENCE_2: (m.ReloadTask,),
            Phase.CLAIM: (m.MakeClaim,),
            Phase.CLAIM_CHECK: (m.ReadClaim,),
            Phase.CLAIMS: (m.ListClaims,),
            Phase.OWNERS: (m.ReadOwners,),
            Phase.INTENTS: (m.SettleIntents,),
            Phase.LEASE: (m.AcquireLease,),
            Phase.TAKEOVER: (m.AwaitTakeover,),
            Phase.FENCE_3: (m.ReloadTask,),
            Phase.REVOCATION: (m.RevokeOlder,),
            Phase.BARRIER: (m.PassBarrier,),
            Phase.INTENT: (m.ArmIntent,),
            Phase.HEAD: (m.ReadHead,),
            Phase.PUBLICATION: (m.Publish,),
            Phase.OWN_REVOCATION: (m.DropStaging,),
            Phase.OWN_BARRIER: (m.PassBarrier,),
            Phase.OWN_HEAD: (m.ReadHead,),
            Phase.OWN_FENCE: (m.ReloadTask,),
            Phase.READ_BACK: (m.ReadCommit,),
            Phase.REPORT: (m.Report,),
            Phase.CONFIRMATION: (m.ConfirmIntent,),
            Phase.ACCEPTANCE: (m.ReloadTask,),
            Phase.SETTLEMENT: (m.SettleIntent,),
            Phase.CLEAN_UP: (m.CleanUp,),
        },
        remember=REMEMBER,
        opening=_opening,
        interrupts=(m.AttemptLost, m.LeaseLost, m.DeadlineExceeded),
    ),
)


def start(attempt: Attempt) -> Step[Attempt, Known]:
    """Begin an attempt: the first state and its first command."""
    return ATTEMPT.start(attempt)


def step(state: AttemptState, event: Event) -> Step[Attempt, Known]:
    """Advance an attempt by one event, or raise ``ProtocolError`` and leave the state as it was."""
    return ATTEMPT.step(state, event)


def outcome(state: AttemptState) -> Outcome:
    """Say what became of an attempt that has ended."""
    if not ATTEMPT.is_terminal(state):
        message = f"the attempt has not ended: it waits for {state.phase.value}"
        raise ProtocolError(message)
    known = state.known
    return Outcome(
        result=known.result,
        acceptance=known.acceptance,
        backing=state.subject.backing,
        silence=known.refusal if known.result is None else None,
        left_behind=known.left_behind,
    )
