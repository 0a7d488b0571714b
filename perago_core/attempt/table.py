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

from perago_core.attempt import asks as ask
from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.attempt.phases import BEYOND_SOFT
from perago_core.attempt.phases import Phase as P
from perago_core.rows import ALWAYS, Ask, Event, Row, when

#: Every backing but the seed's own.
STRONG = ("atomic", "conditional", "locked")
#: The backings that act by a revocable name.
BY_NAME = ("conditional", "locked")


def refused(prefix: str, phase: P, *failures: type[Event]) -> tuple[Row, ...]:
    """Rows for answers that end the attempt with a reported failure."""
    return tuple(
        Row(f"{prefix}{number}", phase, failure, ALWAYS, P.REPORT, ask.report_failed)
        for number, failure in enumerate(failures, start=1)
    )


def failed_fence(prefix: str, phase: P) -> tuple[Row, ...]:
    """Rows for an attempt fence that does not pass.

    The seed reports FAILED. Outside ``soft`` a stale attempt is silent: the task may belong to a successor by now, and
    our FAILED would be taken for its. An unreadable task is FAILED only while our own deadline has not passed.
    """
    if phase in BEYOND_SOFT:
        return (
            Row(f"{prefix}1", phase, e.TaskReloaded, when(attempt="stale"), P.CLEAN_UP, ask.clean_up),
            Row(f"{prefix}2", phase, f.TaskReloadUnknown, when(time="left"), P.REPORT, ask.report_failed),
            Row(f"{prefix}3", phase, f.TaskReloadUnknown, when(time="over"), P.CLEAN_UP, ask.clean_up),
        )
    return (
        Row(f"{prefix}1", phase, e.TaskReloaded, when(attempt="stale", backing=STRONG), P.CLEAN_UP, ask.clean_up),
        Row(f"{prefix}2", phase, f.TaskReloadUnknown, when(backing=STRONG, time="left"), P.REPORT, ask.report_failed),
        Row(f"{prefix}3", phase, f.TaskReloadUnknown, when(backing=STRONG, time="over"), P.CLEAN_UP, ask.clean_up),
        Row(f"{prefix}4", phase, e.TaskReloaded, when(attempt="stale", backing="soft"), P.REPORT, ask.report_failed),
        Row(f"{prefix}5", phase, f.TaskReloadUnknown, when(backing="soft"), P.REPORT, ask.report_failed),
    )


def guarded(prefix: str, phase: P, event: type[Event], **also: str) -> tuple[Row, ...]:
    """Rows to the next safeguard once the claims are judged and, with a ledger, the intents are clear."""
    ledger = event is e.IntentsSettled
    observe: tuple[P, Ask] = (P.INTENT, ask.arm_intent) if ledger else (P.HEAD, ask.read_head)
    return (
        Row(f"{prefix}1", phase, event, when(guarded_by="lease", **also), P.LEASE, ask.acquire_lease),
        Row(f"{prefix}2", phase, event, when(guarded_by="revocation", **also), P.REVOCATION, ask.revoke_older),
        Row(f"{prefix}3", phase, event, when(guarded_by=("claim", "nothing"), **also), *observe),
    )


# One row, one line; the blank lines between the phases are part of how the table reads.
# fmt: off
ROWS: tuple[Row, ...] = (
    Row("W1", P.WORKSPACE, e.WorkspaceReady, ALWAYS, P.BODY, ask.run_body),
    *refused("WX", P.WORKSPACE, f.WorkspaceRefused, f.WorkspaceUnknown),

    Row("B1", P.BODY, e.BodyDone, when(sender="ours", mode="read only"), P.REPORT, ask.report_input),
    Row("B2", P.BODY, e.BodyDone, when(sender="ours", mode="writable"), P.FENCE_1, ask.reload_task),
    Row("B3", P.BODY, e.BodyDone, when(sender="foreign"), P.BODY,
        note="another execution's completion is dropped"),
    Row("B4", P.BODY, e.BodyFailed, when(sender="ours", failure="plain"), P.REPORT, ask.report_failed),
    Row("B5", P.BODY, e.BodyFailed, when(sender="ours", failure="terminal"), P.REPORT, ask.report_terminal),
    Row("B6", P.BODY, e.BodyFailed, when(sender="foreign"), P.BODY),
    Row("B7", P.BODY, e.StagingWanted, when(sender="ours", mode="writable", staging="none"), P.FENCE_0, ask.reload_task),
    Row("B8", P.BODY, e.StagingWanted, when(sender="ours", mode="writable", staging="open"), P.BODY, ask.resume_body),
    Row("B9", P.BODY, e.StagingWanted, when(sender="ours", mode="read only"), P.REPORT, ask.report_failed),
    Row("B10", P.BODY, e.StagingWanted, when(sender="foreign"), P.BODY),
    *refused("BX", P.BODY, f.BodyLost),

    Row("E1", P.FENCE_0, e.TaskReloaded, when(attempt="current"), P.STAGING_0, ask.open_staging),
    *failed_fence("EX", P.FENCE_0),

    Row("O1", P.STAGING_0, e.StagingOpened, ALWAYS, P.BODY, ask.resume_body),
    *refused("OX", P.STAGING_0, f.StagingRefused, f.StagingUnknown),

    Row("F1", P.FENCE_1, e.TaskReloaded, when(attempt="current", diff="changed", staging="none"), P.STAGING, ask.open_staging),
    Row("F2", P.FENCE_1, e.TaskReloaded, when(attempt="current", diff="changed", staging="open"), P.UPLOAD, ask.upload),
    Row("F3", P.FENCE_1, e.TaskReloaded, when(attempt="current", diff="unchanged", backing="soft", ledger="off"), P.HEAD, ask.read_head),
    Row("F4", P.FENCE_1, e.TaskReloaded, when(attempt="current", diff="unchanged", backing="soft", ledger="on"), P.INTENTS, ask.settle_intents),
    Row("F5", P.FENCE_1, e.TaskReloaded, when(attempt="current", diff="unchanged", backing="atomic"), P.CLAIM, ask.make_claim),
    Row("F6", P.FENCE_1, e.TaskReloaded, when(attempt="current", diff="unchanged", backing=BY_NAME, staging="none"), P.STAGING, ask.open_staging,
        note="the anchor: a no-op that leaves no mark lets a stalled predecessor land after it"),
    Row("F7", P.FENCE_1, e.TaskReloaded, when(attempt="current", diff="unchanged", backing=BY_NAME, staging="open"), P.FENCE_2, ask.reload_task),
    *failed_fence("FX", P.FENCE_1),

    Row("S1", P.STAGING, e.StagingOpened, when(diff="changed"), P.UPLOAD, ask.upload),
    Row("S2", P.STAGING, e.StagingOpened, when(diff="unchanged"), P.FENCE_2, ask.reload_task),
    *refused("SX", P.STAGING, f.StagingRefused, f.StagingUnknown),

    Row("U1", P.UPLOAD, e.Uploaded, ALWAYS, P.COMMIT, ask.commit_staging),
    *refused("UX", P.UPLOAD, f.UploadRefused, f.UploadUnknown),

    Row("C1", P.COMMIT, e.Staged, ALWAYS, P.FENCE_2, ask.reload_task),
    Row("C2", P.COMMIT, e.NothingStaged, ALWAYS, P.FENCE_2, ask.reload_task,
        note="a no-op after all: no empty commit"),
    *refused("CX", P.COMMIT, f.CommitRefused, f.CommitUnknown),

    Row("G1", P.FENCE_2, e.TaskReloaded, when(attempt="current", backing="soft", ledger="off"), P.HEAD, ask.read_head),
    Row("G2", P.FENCE_2, e.TaskReloaded, when(attempt="current", backing="soft", ledger="on"), P.INTENTS, ask.settle_intents),
    Row("G3", P.FENCE_2, e.TaskReloaded, when(attempt="current", backing=STRONG), P.CLAIM, ask.make_claim),
    *failed_fence("GX", P.FENCE_2),

    Row("K1", P.CLAIM, e.ClaimStands, when(claim="ours"), P.CLAIMS, ask.list_claims),
    Row("K2", P.CLAIM, e.ClaimStands, when(claim="not ours"), P.CLEAN_UP, ask.clean_up,
        note="silent: a FAILED from the duplicate would end the winner's attempt, because both share the task id"),
    Row("K3", P.CLAIM, f.ClaimUnknown, ALWAYS, P.CLAIM_CHECK, ask.read_claim),
    *refused("KX", P.CLAIM, f.ClaimRefused),

    Row("Q1", P.CLAIM_CHECK, e.ClaimRead, when(claim="ours"), P.CLAIMS, ask.list_claims),
    Row("Q2", P.CLAIM_CHECK, e.ClaimRead, when(claim="not ours"), P.CLEAN_UP, ask.clean_up),
    Row("Q3", P.CLAIM_CHECK, f.ClaimReadUnknown, ALWAYS, P.CLEAN_UP, ask.clean_up),

    Row("L1", P.CLAIMS, e.ClaimsListed, when(others="some"), P.OWNERS, ask.read_owners),
    Row("L2", P.CLAIMS, e.ClaimsListed, when(others="none", ledger="on"), P.INTENTS, ask.settle_intents),
    *guarded("LG", P.CLAIMS, e.ClaimsListed, others="none", ledger="off"),
    *refused("LX", P.CLAIMS, f.ClaimsUnknown),

    Row("N1", P.OWNERS, e.OwnersRead, when(ledger="on"), P.INTENTS, ask.settle_intents),
    *guarded("NG", P.OWNERS, e.OwnersRead, ledger="off"),
    *refused("NX", P.OWNERS, f.OwnersUnknown),

    Row("I1", P.INTENTS, e.IntentsSettled, when(intents="open"), P.REPORT, ask.report_failed,
        note="never around an unresolved intent, never beside workers of another policy epoch"),
    *guarded("IG", P.INTENTS, e.IntentsSettled, intents="clear"),
    *refused("IX", P.INTENTS, f.IntentsUnknown),

    Row("T1", P.LEASE, e.LeaseHeld, when(predecessor="clean"), P.FENCE_3, ask.reload_task),
    Row("T2", P.LEASE, e.LeaseHeld, when(predecessor="unclean"), P.TAKEOVER, ask.await_takeover),
    *refused("TX", P.LEASE, f.LeaseBusy, f.LeaseUnknown),

    Row("D1", P.TAKEOVER, e.Waited, ALWAYS, P.FENCE_3, ask.reload_task),

    Row("J1", P.FENCE_3, e.TaskReloaded, when(attempt="current"), P.REVOCATION, ask.revoke_older),
    *failed_fence("JX", P.FENCE_3),

    Row("V1", P.REVOCATION, e.Revoked, ALWAYS, P.BARRIER, ask.pass_barrier),
    *refused("VX", P.REVOCATION, f.RevokeRefused, f.RevokeUnknown),

    Row("A1", P.BARRIER, e.BarrierPassed, when(ledger="on"), P.INTENT, ask.arm_intent),
    Row("A2", P.BARRIER, e.BarrierPassed, when(ledger="off"), P.HEAD, ask.read_head),
    *refused("AX", P.BARRIER, f.BarrierRefused, f.BarrierUnknown),

    Row("M1", P.INTENT, e.Armed, ALWAYS, P.HEAD, ask.read_head),
    *refused("MX", P.INTENT, f.ArmRefused, f.ArmUnknown),

    Row("H1", P.HEAD, e.HeadSeen, when(verdict="merge"), P.PUBLICATION, ask.publish),
    Row("H2", P.HEAD, e.HeadSeen, when(verdict="replace"), P.PUBLICATION, ask.publish),
    Row("H3", P.HEAD, e.HeadSeen, when(verdict="return"), P.PUBLICATION, ask.publish),
    Row("H4", P.HEAD, e.HeadSeen, when(verdict="nothing"), P.REPORT, ask.report_unneeded),
    Row("H5", P.HEAD, e.HeadSeen, when(verdict="refuse"), P.REPORT, ask.report_failed),
    Row("H6", P.HEAD, e.HeadSeen, when(verdict="late"), P.CLEAN_UP, ask.clean_up),
    *refused("HX", P.HEAD, f.HeadUnknown),

    Row("P1", P.PUBLICATION, e.Published, when(moves="to a commit", backing="soft"), P.REPORT, ask.report_published),
    Row("P2", P.PUBLICATION, e.Published, when(moves="to a commit", backing=STRONG), P.READ_BACK, ask.read_commit),
    Row("P3", P.PUBLICATION, e.Published, when(moves="to the input"), P.REPORT, ask.report_input),
    Row("P4", P.PUBLICATION, f.PublishUnknown, when(guarded_by="nothing"), P.REPORT, ask.report_failed,
        note="never sent again, never called success"),
    Row("P5", P.PUBLICATION, f.PublishUnknown, when(guarded_by="claim"), P.OWN_HEAD, ask.read_head),
    Row("P6", P.PUBLICATION, f.PublishUnknown, when(guarded_by=("revocation", "lease")), P.OWN_REVOCATION, ask.drop_staging),
    *refused("PX", P.PUBLICATION, f.PublishRefused),

    Row("R1", P.OWN_REVOCATION, e.Dropped, ALWAYS, P.OWN_BARRIER, ask.pass_barrier),
    *refused("RX", P.OWN_REVOCATION, f.DropRefused, f.DropUnknown),

    Row("R2", P.OWN_BARRIER, e.BarrierPassed, ALWAYS, P.OWN_HEAD, ask.read_head),
    *refused("RB", P.OWN_BARRIER, f.BarrierRefused, f.BarrierUnknown),

    Row("R3", P.OWN_HEAD, e.HeadSeen, when(effect="ours"), P.OWN_FENCE, ask.reload_task),
    Row("R4", P.OWN_HEAD, e.HeadSeen, when(effect="not ours"), P.REPORT, ask.report_failed),
    *refused("RH", P.OWN_HEAD, f.HeadUnknown),

    Row("R5", P.OWN_FENCE, e.TaskReloaded, when(attempt="current"), P.REPORT, ask.report_published),
    *failed_fence("RF", P.OWN_FENCE),

    Row("Y1", P.READ_BACK, e.CommitSeen, when(effect="ours"), P.REPORT, ask.report_published),
    Row("Y2", P.READ_BACK, e.CommitSeen, when(effect="not ours"), P.REPORT, ask.report_failed),
    *refused("YX", P.READ_BACK, f.CommitUnreadable),

    *(
        row
        for prefix, event in (("Z", e.Reported), ("ZU", f.ReportUnknown))
        for row in (
            Row(f"{prefix}1", P.REPORT, event, when(result="completed", reads_back="no"), P.CLEAN_UP, ask.clean_up),
            Row(f"{prefix}2", P.REPORT, event, when(result="completed", reads_back="yes", intent="none"), P.ACCEPTANCE, ask.reload_task),
            Row(f"{prefix}3", P.REPORT, event, when(result="completed", reads_back="yes", intent=("armed", "uncertain")), P.CONFIRMATION, ask.confirm_intent),
            Row(f"{prefix}4", P.REPORT, event, when(result="failed", intent=("none", "uncertain")), P.CLEAN_UP, ask.clean_up),
            Row(f"{prefix}5", P.REPORT, event, when(result="failed", intent="armed"), P.SETTLEMENT, ask.settle_not_published),
        )
    ),
    Row("ZX1", P.REPORT, f.ReportRefused, when(result="completed"), P.CLEAN_UP, ask.clean_up),
    Row("ZX2", P.REPORT, f.ReportRefused, when(result="failed", intent=("none", "uncertain")), P.CLEAN_UP, ask.clean_up),
    Row("ZX3", P.REPORT, f.ReportRefused, when(result="failed", intent="armed"), P.SETTLEMENT, ask.settle_not_published),

    Row("ZC1", P.CONFIRMATION, e.Confirmed, ALWAYS, P.ACCEPTANCE, ask.reload_task),
    Row("ZC2", P.CONFIRMATION, f.ConfirmRefused, ALWAYS, P.ACCEPTANCE, ask.reload_task),
    Row("ZC3", P.CONFIRMATION, f.ConfirmUnknown, ALWAYS, P.ACCEPTANCE, ask.reload_task),

    Row("ZA1", P.ACCEPTANCE, e.TaskReloaded, when(acceptance="ours", intent="none"), P.CLEAN_UP, ask.clean_up),
    Row("ZA2", P.ACCEPTANCE, e.TaskReloaded, when(acceptance="ours", intent=("armed", "uncertain")), P.SETTLEMENT, ask.settle_accepted),
    Row("ZA3", P.ACCEPTANCE, e.TaskReloaded, when(acceptance="not ours"), P.CLEAN_UP, ask.clean_up,
        note="a sweep settles the intent once the authority has spoken"),
    Row("ZA4", P.ACCEPTANCE, f.TaskReloadUnknown, ALWAYS, P.CLEAN_UP, ask.clean_up),

    Row("ZS1", P.SETTLEMENT, e.Settled, ALWAYS, P.CLEAN_UP, ask.clean_up),
    Row("ZS2", P.SETTLEMENT, f.SettleRefused, ALWAYS, P.CLEAN_UP, ask.clean_up),
    Row("ZS3", P.SETTLEMENT, f.SettleUnknown, ALWAYS, P.CLEAN_UP, ask.clean_up),

    Row("X1", P.CLEAN_UP, e.CleanedUp, ALWAYS, P.DONE),
    Row("X2", P.CLEAN_UP, f.CleanUpRefused, ALWAYS, P.DONE, note="logged; the result stands"),
    Row("X3", P.CLEAN_UP, f.CleanUpUnknown, ALWAYS, P.DONE),
)
# fmt: on
