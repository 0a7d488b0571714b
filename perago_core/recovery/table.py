"""The recovery machine: what became of an intent nobody finished, and what may be done about it.

Theory of operation
-------------------
1. The authority decides success, the store does not. A publication the orchestrator did not accept is dead and stays
   dead; recovery never reports (K-01, S-07). The only roll-forward is the bookkeeping of a result already accepted, so
   the authority is asked before anything is classed (D-6, T-O3).
2. Nothing is guessed. Identity is parent and tree, or the confirmed ref. What cannot be read, shown or reached is kept.
3. Settlement, audit, close: in this order, each at most once, each found again after a crash. The first settlement
   stands; losing that race is success, because the goal is met (D-9, L-07).
4. Moving a branch needs exclusive mode, a dead attempt, a head that is provably the dead attempt's and no one else's,
   and a durable plan written first. Afterwards the heads look as if nothing had ever been published.
5. So a plan that stands while nothing is published means that the move happened: settle *rolled back* from the plan,
   not *not published* from the observation (CW-29). The plan is read after the targets. The other way round: we find
   no plan; another recovery writes one and moves; we observe no movement and settle *not published*.
6. All targets of an intent share one settlement (S-20). One doubtful target keeps the whole intent open.

What does not fit: an intent whose task the orchestrator has forgotten can never be decided here. It blocks its own
targets and no others (L-08) until a person settles it.
"""

from __future__ import annotations

from perago_core.engine import Table
from perago_core.recovery import asks as ask
from perago_core.recovery import commands as c
from perago_core.recovery import events as e
from perago_core.recovery.classify import LOST
from perago_core.recovery.known import FACTS, REMEMBER, Mode, Recovery, RecoveryKnown, RecoveryState
from perago_core.recovery.phases import Phase as P
from perago_core.rows import ALWAYS, Ask, Definition, Event, Guard, Row, Step, when

_PROBE, _SETTLE_ONLY, _EXCLUSIVE = (mode.value for mode in Mode)
_ACTS = (_SETTLE_ONLY, _EXCLUSIVE)

#: A dead attempt's effects that are the heads of their targets, and no effect that is anything else.
_TIP = ("ours", "partial")


def decided_by(*decisions: tuple[str, Guard, P, Ask | None]) -> tuple[Row, ...]:
    """Rows for the moment when all is known: the authority's word, the targets, and whether a plan stands."""
    return tuple(Row(name, P.EARLIER_PLAN, e.PlanRead, guard, then, wanted) for name, guard, then, wanted in decisions)


# One row, one line; the blank lines between phases are part of how the table reads.
# fmt: off
ROWS: tuple[Row, ...] = (
    Row("R1", P.RECORD, e.RecordFound, when(listed="yes"), P.EARLIER_SETTLEMENT, ask.read_settlement),
    Row("R2", P.RECORD, e.RecordFound, when(listed="no"), P.REFUSED, note="found under a target it does not name"),
    Row("R3", P.RECORD, e.RecordGone, ALWAYS, P.EARLIER_SETTLEMENT, ask.read_settlement),
    Row("R4", P.RECORD, e.RecordUnreadable, ALWAYS, P.REFUSED),
    Row("R5", P.RECORD, e.RecordUnknown, ALWAYS, P.DEFERRED),

    Row("E1", P.EARLIER_SETTLEMENT, e.SettlementFound, when(mode=_PROBE), P.SETTLED),
    Row("E2", P.EARLIER_SETTLEMENT, e.SettlementFound, when(mode=_ACTS, record="present"), P.AUDIT, ask.record_audit),
    Row("E3", P.EARLIER_SETTLEMENT, e.SettlementFound, when(mode=_ACTS, record="gone"), P.CLOSING, ask.close),
    Row("E4", P.EARLIER_SETTLEMENT, e.SettlementAbsent, when(record="present"), P.AUTHORITY, ask.ask_authority),
    Row("E5", P.EARLIER_SETTLEMENT, e.SettlementAbsent, when(record="gone"), P.REFUSED, note="a pointer to nothing"),
    Row("E6", P.EARLIER_SETTLEMENT, e.SettlementUnreadable, ALWAYS, P.REFUSED),
    Row("E7", P.EARLIER_SETTLEMENT, e.SettlementReadUnknown, ALWAYS, P.DEFERRED),

    Row("A1", P.AUTHORITY, e.TaskSeen, when(claims="needed"), P.OWNERS, ask.read_owners),
    Row("A2", P.AUTHORITY, e.TaskSeen, when(claims="unneeded"), P.TARGETS, ask.observe),
    Row("A3", P.AUTHORITY, e.TaskUnknown, ALWAYS, P.DEFERRED),

    Row("O1", P.OWNERS, e.OwnersRead, ALWAYS, P.TARGETS, ask.observe),
    Row("O2", P.OWNERS, e.OwnersUnknown, ALWAYS, P.DEFERRED),

    Row("T1", P.TARGETS, e.TargetsSeen, ALWAYS, P.EARLIER_PLAN, ask.read_plan),
    Row("T2", P.TARGETS, e.TargetsUnknown, ALWAYS, P.DEFERRED),

    # The decision: how far we may go, what the authority says, what is on the branches.
    *decided_by(
        ("D01", when(mode=_PROBE), P.PROBED, None),

        ("D02", when(mode=_ACTS, authority="running"), P.DEFERRED, None),
        ("D03", when(mode=_ACTS, authority="gone"), P.REFUSED, None),
        ("D04", when(mode=_ACTS, authority="unknown"), P.REFUSED, None),

        ("D05", when(mode=_ACTS, authority="other"), P.SETTLEMENT, ask.settle_suppressed),

        ("D06", when(mode=_ACTS, authority="ours", movement=("ours", "buried")), P.SETTLEMENT, ask.settle_rolled_forward),
        ("D07", when(mode=_ACTS, authority="ours", movement=LOST), P.SETTLEMENT, ask.settle_accepted_lost),
        ("D08", when(mode=_ACTS, authority="ours", movement="unverifiable"), P.REFUSED, None),

        ("D09", when(mode=_ACTS, authority="dead", movement="none", plan="absent"), P.SETTLEMENT, ask.settle_not_published),
        ("D10", when(mode=_ACTS, authority="dead", movement="none", plan="written"), P.SETTLEMENT, ask.settle_rolled_back),
        ("D11", when(mode=_ACTS, authority="dead", movement=("buried", "unexpected")), P.SETTLEMENT, ask.settle_superseded),
        ("D12", when(mode=_ACTS, authority="dead", movement=("violated", "unverifiable")), P.REFUSED, None),

        ("D13", when(mode=_SETTLE_ONLY, authority="dead", movement=_TIP), P.SETTLEMENT, ask.settle_abandoned),
        ("D14", when(mode=_EXCLUSIVE, authority="dead", movement=_TIP, movable="no"), P.SETTLEMENT, ask.settle_abandoned),
        ("D15", when(mode=_EXCLUSIVE, authority="dead", movement=_TIP, movable="yes", plan="absent"), P.PLAN, ask.write_plan),
        ("D16", when(mode=_EXCLUSIVE, authority="dead", movement=_TIP, movable="yes", plan="written"), P.RELOCATION, ask.relocate),
    ),
    Row("D17", P.EARLIER_PLAN, e.PlanUnreadable, ALWAYS, P.REFUSED),
    Row("D18", P.EARLIER_PLAN, e.PlanReadUnknown, ALWAYS, P.DEFERRED),

    Row("W1", P.PLAN, e.PlanStands, ALWAYS, P.RELOCATION, ask.relocate),
    Row("W2", P.PLAN, e.PlanRefused, ALWAYS, P.REFUSED),
    Row("W3", P.PLAN, e.PlanUnknown, ALWAYS, P.DEFERRED),

    Row("M1", P.RELOCATION, e.Relocated, ALWAYS, P.SETTLEMENT, ask.settle_rolled_back),
    Row("M2", P.RELOCATION, e.RelocationRefused, ALWAYS, P.REFUSED),
    Row("M3", P.RELOCATION, e.RelocationUnknown, ALWAYS, P.DEFERRED, note="never sent again from this observation"),

    Row("S1", P.SETTLEMENT, e.SettlementStands, ALWAYS, P.AUDIT, ask.record_audit),
    Row("S2", P.SETTLEMENT, e.SettlementRefused, ALWAYS, P.REFUSED),
    Row("S3", P.SETTLEMENT, e.SettlementUnknown, ALWAYS, P.DEFERRED),

    Row("U1", P.AUDIT, e.AuditStands, ALWAYS, P.CLOSING, ask.close),
    Row("U2", P.AUDIT, e.AuditRefused, ALWAYS, P.REFUSED),
    Row("U3", P.AUDIT, e.AuditUnknown, ALWAYS, P.DEFERRED),

    # Settled and audited is settled; what is still listed the next sweep closes.
    Row("C1", P.CLOSING, e.Closed, ALWAYS, P.SETTLED),
    Row("C2", P.CLOSING, e.ClosingRefused, ALWAYS, P.SETTLED),
    Row("C3", P.CLOSING, e.ClosingUnknown, ALWAYS, P.SETTLED),
)
# fmt: on


def _opening(_subject: Recovery) -> tuple[RecoveryKnown, Ask]:
    return RecoveryKnown(), ask.read_record


RECOVERY: Table[Recovery, RecoveryKnown] = Table(
    Definition(
        name="recovery",
        phases=P,
        initial=P.RECORD,
        terminal=frozenset({P.SETTLED, P.DEFERRED, P.REFUSED, P.PROBED}),
        facts=FACTS,
        rows=ROWS,
        waits={
            P.RECORD: (c.ReadRecord,),
            P.EARLIER_SETTLEMENT: (c.ReadSettlement,),
            P.AUTHORITY: (c.AskAuthority,),
            P.OWNERS: (c.ReadOwners,),
            P.TARGETS: (c.Observe,),
            P.EARLIER_PLAN: (c.ReadPlan,),
            P.PLAN: (c.WritePlan,),
            P.RELOCATION: (c.Relocate,),
            P.SETTLEMENT: (c.Settle,),
            P.AUDIT: (c.RecordAudit,),
            P.CLOSING: (c.Close,),
        },
        remember=REMEMBER,
        opening=_opening,
    ),
)


def start(subject: Recovery) -> Step[Recovery, RecoveryKnown]:
    """Begin to recover one intent."""
    return RECOVERY.start(subject)


def step(state: RecoveryState, event: Event) -> Step[Recovery, RecoveryKnown]:
    """Advance by one event, or raise ``ProtocolError`` and leave everything as it was."""
    return RECOVERY.step(state, event)
