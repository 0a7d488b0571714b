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

from collections.abc import Callable

from perago_core.ledger.records import Movement, Prepared, Settlement, SettlementKind
from perago_core.machine.engine import Table
from perago_core.machine.rows import ALWAYS, Ask, Definition, Event, Guard, Row, Step, asks, when
from perago_core.recovery import messages as m
from perago_core.recovery.classify import LOST
from perago_core.recovery.state import (
    FACTS,
    REMEMBER,
    Mode,
    Recovery,
    RecoveryKnown,
    RecoveryState,
    planned,
    sightings,
    the_intent,
    the_plan,
    the_settlement,
)
from perago_core.recovery.state import Phase as P


@asks(m.ReadRecord)
def read_record(subject: Recovery, _known: RecoveryKnown, _event: Event) -> m.ReadRecord:
    return m.ReadRecord(subject.operation_id)


@asks(m.ReadSettlement)
def read_settlement(subject: Recovery, _known: RecoveryKnown, _event: Event) -> m.ReadSettlement:
    return m.ReadSettlement(subject.operation_id)


@asks(m.AskAuthority)
def ask_authority(_subject: Recovery, known: RecoveryKnown, _event: Event) -> m.AskAuthority:
    intent = the_intent(known)
    return m.AskAuthority(intent.workflow_id, intent.task_id)


@asks(m.ReadPlan)
def read_plan(subject: Recovery, _known: RecoveryKnown, _event: Event) -> m.ReadPlan:
    return m.ReadPlan(subject.operation_id)


@asks(m.ReadOwners)
def read_owners(_subject: Recovery, known: RecoveryKnown, _event: Event) -> m.ReadOwners:
    return m.ReadOwners(the_intent(known))


@asks(m.Observe)
def observe(_subject: Recovery, known: RecoveryKnown, _event: Event) -> m.Observe:
    """Look at every target of the intent, not only at the one it was found under."""
    return m.Observe(the_intent(known).targets)


@asks(m.WritePlan)
def write_plan(subject: Recovery, known: RecoveryKnown, _event: Event) -> m.WritePlan:
    return m.WritePlan(Prepared(subject.operation_id, subject.actor, subject.grounds, planned(known)))


@asks(m.Relocate)
def relocate(_subject: Recovery, known: RecoveryKnown, _event: Event) -> m.Relocate:
    return m.Relocate(the_intent(known), the_plan(known))


def _settling(kind: SettlementKind, movements: Callable[[RecoveryKnown], tuple[Movement, ...]]) -> Ask:
    def build(subject: Recovery, known: RecoveryKnown, _event: Event) -> m.Settle:
        return m.Settle(Settlement(subject.operation_id, kind, movements(known)))

    return Ask(m.Settle, build, f"settle_{kind.name.lower()}")


def _seen(known: RecoveryKnown) -> tuple[Movement, ...]:
    """From the input to whatever is there now."""
    return tuple(
        Movement(each.intent.target, each.intent.parent, None if each.head is None else each.head.commit.ref)
        for each in sightings(known)
    )


def _published(known: RecoveryKnown) -> tuple[Movement, ...]:
    """From what the own commit was published on to the own commit; a no-op stays where it was."""
    moved: list[Movement] = []
    for each in sightings(known):
        parent, own = each.intent.parent, each.own
        before = (parent,) if own is None else (*own.parents, parent)
        moved.append(Movement(each.intent.target, before[0], parent if own is None else own.ref))
    return tuple(moved)


settle_rolled_forward = _settling(SettlementKind.ROLLED_FORWARD, _published)
settle_accepted_lost = _settling(SettlementKind.ACCEPTED_LOST, _seen)
settle_suppressed = _settling(SettlementKind.SUPPRESSED, _seen)
settle_not_published = _settling(SettlementKind.NOT_PUBLISHED, _seen)
settle_abandoned = _settling(SettlementKind.ABANDONED, _seen)
settle_superseded = _settling(SettlementKind.SUPERSEDED, _seen)
settle_rolled_back = _settling(SettlementKind.ROLLED_BACK, lambda known: the_plan(known).movements)


@asks(m.RecordAudit)
def record_audit(_subject: Recovery, known: RecoveryKnown, _event: Event) -> m.RecordAudit:
    return m.RecordAudit(the_intent(known), the_settlement(known))


@asks(m.Close)
def close(_subject: Recovery, known: RecoveryKnown, _event: Event) -> m.Close:
    return m.Close(the_settlement(known), known.intent)


_PROBE, _SETTLE_ONLY, _EXCLUSIVE = (mode.value for mode in Mode)
_ACTS = (_SETTLE_ONLY, _EXCLUSIVE)

#: A dead attempt's effects that are the heads of their targets, and no effect that is anything else.
_TIP = ("ours", "partial")


def decided_by(*decisions: tuple[str, Guard, P, Ask | None]) -> tuple[Row, ...]:
    """Rows for the moment when all is known: the authority's word, the targets, and whether a plan stands."""
    return tuple(Row(name, P.EARLIER_PLAN, m.PlanRead, guard, then, wanted) for name, guard, then, wanted in decisions)


# One row, one line; the blank lines between phases are part of how the table reads.
# fmt: off
ROWS: tuple[Row, ...] = (
    Row("R1", P.RECORD, m.RecordFound, when(listed="yes"), P.EARLIER_SETTLEMENT, read_settlement),
    Row("R2", P.RECORD, m.RecordFound, when(listed="no"), P.REFUSED, note="found under a target it does not name"),
    Row("R3", P.RECORD, m.RecordGone, ALWAYS, P.EARLIER_SETTLEMENT, read_settlement),
    Row("R4", P.RECORD, m.RecordUnreadable, ALWAYS, P.REFUSED),
    Row("R5", P.RECORD, m.RecordUnknown, ALWAYS, P.DEFERRED),

    Row("E1", P.EARLIER_SETTLEMENT, m.SettlementFound, when(mode=_PROBE), P.SETTLED),
    Row("E2", P.EARLIER_SETTLEMENT, m.SettlementFound, when(mode=_ACTS, record="present"), P.AUDIT, record_audit),
    Row("E3", P.EARLIER_SETTLEMENT, m.SettlementFound, when(mode=_ACTS, record="gone"), P.CLOSING, close),
    Row("E4", P.EARLIER_SETTLEMENT, m.SettlementAbsent, when(record="present"), P.AUTHORITY, ask_authority),
    Row("E5", P.EARLIER_SETTLEMENT, m.SettlementAbsent, when(record="gone"), P.REFUSED, note="a pointer to nothing"),
    Row("E6", P.EARLIER_SETTLEMENT, m.SettlementUnreadable, ALWAYS, P.REFUSED),
    Row("E7", P.EARLIER_SETTLEMENT, m.SettlementReadUnknown, ALWAYS, P.DEFERRED),

    Row("A1", P.AUTHORITY, m.TaskSeen, when(claims="needed"), P.OWNERS, read_owners),
    Row("A2", P.AUTHORITY, m.TaskSeen, when(claims="unneeded"), P.TARGETS, observe),
    Row("A3", P.AUTHORITY, m.TaskUnknown, ALWAYS, P.DEFERRED),

    Row("O1", P.OWNERS, m.OwnersRead, ALWAYS, P.TARGETS, observe),
    Row("O2", P.OWNERS, m.OwnersUnknown, ALWAYS, P.DEFERRED),

    Row("T1", P.TARGETS, m.TargetsSeen, ALWAYS, P.EARLIER_PLAN, read_plan),
    Row("T2", P.TARGETS, m.TargetsUnknown, ALWAYS, P.DEFERRED),

    # The decision: how far we may go, what the authority says, what is on the branches.
    *decided_by(
        ("D01", when(mode=_PROBE), P.PROBED, None),

        ("D02", when(mode=_ACTS, authority="running"), P.DEFERRED, None),
        ("D03", when(mode=_ACTS, authority="gone"), P.REFUSED, None),
        ("D04", when(mode=_ACTS, authority="unknown"), P.REFUSED, None),

        ("D05", when(mode=_ACTS, authority="other"), P.SETTLEMENT, settle_suppressed),

        ("D06", when(mode=_ACTS, authority="ours", movement=("ours", "buried")), P.SETTLEMENT, settle_rolled_forward),
        ("D07", when(mode=_ACTS, authority="ours", movement=LOST), P.SETTLEMENT, settle_accepted_lost),
        ("D08", when(mode=_ACTS, authority="ours", movement="unverifiable"), P.REFUSED, None),

        ("D09", when(mode=_ACTS, authority="dead", movement="none", plan="absent"), P.SETTLEMENT, settle_not_published),
        ("D10", when(mode=_ACTS, authority="dead", movement="none", plan="written"), P.SETTLEMENT, settle_rolled_back),
        ("D11", when(mode=_ACTS, authority="dead", movement=("buried", "unexpected")), P.SETTLEMENT, settle_superseded),
        ("D12", when(mode=_ACTS, authority="dead", movement=("violated", "unverifiable")), P.REFUSED, None),

        ("D13", when(mode=_SETTLE_ONLY, authority="dead", movement=_TIP), P.SETTLEMENT, settle_abandoned),
        ("D14", when(mode=_EXCLUSIVE, authority="dead", movement=_TIP, movable="no"), P.SETTLEMENT, settle_abandoned),
        ("D15", when(mode=_EXCLUSIVE, authority="dead", movement=_TIP, movable="yes", plan="absent"), P.PLAN, write_plan),
        ("D16", when(mode=_EXCLUSIVE, authority="dead", movement=_TIP, movable="yes", plan="written"), P.RELOCATION, relocate),
    ),
    Row("D17", P.EARLIER_PLAN, m.PlanUnreadable, ALWAYS, P.REFUSED),
    Row("D18", P.EARLIER_PLAN, m.PlanReadUnknown, ALWAYS, P.DEFERRED),

    Row("W1", P.PLAN, m.PlanStands, ALWAYS, P.RELOCATION, relocate),
    Row("W2", P.PLAN, m.PlanRefused, ALWAYS, P.REFUSED),
    Row("W3", P.PLAN, m.PlanUnknown, ALWAYS, P.DEFERRED),

    Row("M1", P.RELOCATION, m.Relocated, ALWAYS, P.SETTLEMENT, settle_rolled_back),
    Row("M2", P.RELOCATION, m.RelocationRefused, ALWAYS, P.REFUSED),
    Row("M3", P.RELOCATION, m.RelocationUnknown, ALWAYS, P.DEFERRED, note="never sent again from this observation"),

    Row("S1", P.SETTLEMENT, m.SettlementStands, ALWAYS, P.AUDIT, record_audit),
    Row("S2", P.SETTLEMENT, m.SettlementRefused, ALWAYS, P.REFUSED),
    Row("S3", P.SETTLEMENT, m.SettlementUnknown, ALWAYS, P.DEFERRED),

    Row("U1", P.AUDIT, m.AuditStands, ALWAYS, P.CLOSING, close),
    Row("U2", P.AUDIT, m.AuditRefused, ALWAYS, P.REFUSED),
    Row("U3", P.AUDIT, m.AuditUnknown, ALWAYS, P.DEFERRED),

    # Settled and audited is settled; what is still listed the next sweep closes.
    Row("C1", P.CLOSING, m.Closed, ALWAYS, P.SETTLED),
    Row("C2", P.CLOSING, m.ClosingRefused, ALWAYS, P.SETTLED),
    Row("C3", P.CLOSING, m.ClosingUnknown, ALWAYS, P.SETTLED),
)
# fmt: on


def _opening(_subject: Recovery) -> tuple[RecoveryKnown, Ask]:
    return RecoveryKnown(), read_record


RECOVERY: Table[Recovery, RecoveryKnown] = Table(
    Definition(
        name="recovery",
        phases=P,
        initial=P.RECORD,
        terminal=frozenset({P.SETTLED, P.DEFERRED, P.REFUSED, P.PROBED}),
        facts=FACTS,
        rows=ROWS,
        waits={
            P.RECORD: (m.ReadRecord,),
            P.EARLIER_SETTLEMENT: (m.ReadSettlement,),
            P.AUTHORITY: (m.AskAuthority,),
            P.OWNERS: (m.ReadOwners,),
            P.TARGETS: (m.Observe,),
            P.EARLIER_PLAN: (m.ReadPlan,),
            P.PLAN: (m.WritePlan,),
            P.RELOCATION: (m.Relocate,),
            P.SETTLEMENT: (m.Settle,),
            P.AUDIT: (m.RecordAudit,),
            P.CLOSING: (m.Close,),
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
