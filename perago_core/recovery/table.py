"""The recovery machine: what became of an intent nobody finished, and what may be done about it.

Theory of operation
-------------------
1. The authority decides success, the store does not. A publication the orchestrator did not accept is dead and stays
   dead; recovery never reports (K-01, S-07). The only roll-forward is the bookkeeping of a result already accepted, so
   the authority is asked before anything is classed (D-6, T-O3).
2. Nothing is guessed. Identity is parent and tree, or the confirmed ref. What cannot be read, shown or reached is kept.
3. Settlement, audit, close: in this order, each at most once, each found again after a crash. The first settlement
   stands; losing that race is success, because the goal is met (D-9, L-07).
4. What became of a publication that nobody will finish is written down only once it cannot land any more: the names of
   everybody who has ended are dropped, a barrier has answered, and the head is looked at after that (S-19).
5. A dead attempt's commit that is the head stays open until somebody has decided: a later attempt replaces it, a
   recovery takes it back, or a person keeps it. Whoever only keeps the books leaves it as it is, and says so.
6. Moving a branch needs leave to, a dead attempt, a head that is provably the dead attempt's and no one else's, and a
   durable plan written first. Afterwards the heads look as if nothing had ever been published. Nobody's word is needed
   that nobody else publishes meanwhile: see ``run``.
7. So a plan that stands while nothing is published means that the move happened: settle *rolled back* from the plan,
   not *not published* from the observation (CW-29). The plan is read after the targets. The other way round: we find
   no plan; another recovery writes one and moves; we observe no movement and settle *not published*.
8. All targets of an intent share one settlement (S-20). One doubtful target keeps the whole intent open.
9. A task the orchestrator has forgotten has ended (ADR 22). If nothing of it is on the branch, and it never said that
   something was, it did not publish. If something is, only a person can say whether it was accepted; their word then
   takes the place of the orchestrator's. Until then it blocks its own targets and no others (L-08).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from perago_core.answers import Event, NotDone, Unknown
from perago_core.ledger.records import Movement, Prepared, Settlement, SettlementKind
from perago_core.machine.engine import Table
from perago_core.machine.rows import ALWAYS, Ask, Definition, Guard, On, Step, Wait, asks, wait, when
from perago_core.recovery import messages as m
from perago_core.recovery.classify import LOST
from perago_core.recovery.state import (
    FACTS,
    REMEMBER,
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


@asks(m.RevokeNames)
def revoke_names(_subject: Recovery, known: RecoveryKnown, _event: Event) -> m.RevokeNames:
    return m.RevokeNames(the_intent(known))


@asks(m.PassBarrier)
def pass_barrier(_subject: Recovery, known: RecoveryKnown, _event: Event) -> m.PassBarrier:
    return m.PassBarrier(the_intent(known))


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


_ACTS = ("settle", "keep", "move")

_Guard: TypeAlias = dict[str, str | tuple[str, ...]]
#: Nothing of it is on the branches, and nobody has written down that it was taken back; and where somebody has.
_UNMOVED: _Guard = {"reach": _ACTS, "movement": "none", "plan": "absent"}
_TAKEN_BACK: _Guard = {"reach": _ACTS, "movement": "none", "plan": "written"}
#: Something else is there in its place; or on top of it, too.
_INSTEAD: _Guard = {"reach": _ACTS, "movement": "unexpected"}
_COVERED = ("buried", "unexpected")
#: A dead attempt, and branches that do not show what became of it.
_ILLEGIBLE: _Guard = {"reach": _ACTS, "authority": "dead", "movement": ("violated", "unverifiable")}
#: A dead attempt's effects that are the heads of their targets, and no effect that is anything else.
_TIP: _Guard = {"authority": "dead", "movement": ("ours", "partial")}
#: What may be a sign of an effect nobody can tell about any more.
_SIGNS = ("ours", "buried", "partial", "violated", "unverifiable")


def decided_by(*decisions: tuple[str, Guard, P, Ask | None]) -> tuple[On, ...]:
    """Rows for the moment when all is known: the authority's word, the targets, and whether a plan stands."""
    return tuple(On(name, m.PlanRead, guard, then, wanted) for name, guard, then, wanted in decisions)


# One row, one line; the blank lines between phases are part of how the table reads.
# fmt: off
TABLE: tuple[Wait, ...] = (
    wait(P.RECORD, m.ReadRecord,
        On("R1", m.RecordFound, when(listed="yes"), P.EARLIER_SETTLEMENT, read_settlement),
        On("R2", m.RecordFound, when(listed="no"), P.REFUSED, note="found under a target it does not name"),
        On("R3", m.RecordGone, ALWAYS, P.EARLIER_SETTLEMENT, read_settlement),
        On("R4", NotDone, ALWAYS, P.REFUSED),
        On("R5", Unknown, ALWAYS, P.DEFERRED),
    ),

    wait(P.EARLIER_SETTLEMENT, m.ReadSettlement,
        On("E1", m.SettlementFound, when(reach="look"), P.SETTLED),
        On("E2", m.SettlementFound, when(reach=_ACTS, record="present"), P.AUDIT, record_audit),
        On("E3", m.SettlementFound, when(reach=_ACTS, record="gone"), P.CLOSING, close),
        On("E4", m.SettlementAbsent, when(record="present"), P.AUTHORITY, ask_authority),
        On("E5", m.SettlementAbsent, when(record="gone"), P.REFUSED, note="a pointer to nothing"),
        On("E6", NotDone, ALWAYS, P.REFUSED),
        On("E7", Unknown, ALWAYS, P.DEFERRED),
    ),

    wait(P.AUTHORITY, m.AskAuthority,
        On("A1", m.TaskSeen, when(due="claims"), P.OWNERS, read_owners),
        On("A2", m.TaskSeen, when(due="nothing"), P.TARGETS, observe),
        On("A3", Unknown, ALWAYS, P.DEFERRED),
        On("A4", m.TaskSeen, when(due="revocation"), P.REVOCATION, revoke_names),
    ),

    wait(P.REVOCATION, m.RevokeNames,
        On("V1", m.NamesRevoked, ALWAYS, P.BARRIER, pass_barrier),
        On("V2", NotDone, ALWAYS, P.DEFERRED),
        On("V3", Unknown, ALWAYS, P.DEFERRED),
    ),

    # A barrier is refused on a dirty branch and on a missing one. Both can be looked at.
    wait(P.BARRIER, m.PassBarrier,
        On("B1", m.BarrierPassed, when(claims="needed"), P.OWNERS, read_owners),
        On("B2", m.BarrierPassed, when(claims="unneeded"), P.TARGETS, observe),
        On("B3", NotDone, when(claims="needed"), P.OWNERS, read_owners),
        On("B4", NotDone, when(claims="unneeded"), P.TARGETS, observe),
        On("B5", Unknown, ALWAYS, P.DEFERRED),
    ),

    wait(P.OWNERS, m.ReadOwners,
        On("O1", m.OwnersRead, ALWAYS, P.TARGETS, observe),
        On("O2", Unknown, ALWAYS, P.DEFERRED),
    ),

    wait(P.TARGETS, m.Observe,
        On("T1", m.TargetsSeen, ALWAYS, P.EARLIER_PLAN, read_plan),
        On("T2", Unknown, ALWAYS, P.DEFERRED),
    ),

    wait(P.EARLIER_PLAN, m.ReadPlan,
        # The decision: how far we may go, what the authority says, what is on the branches.
        *decided_by(
        ("D01", when(reach="look"), P.PROBED, None),
        ("D02", when(reach=_ACTS, authority="running"), P.DEFERRED, None),
        ("D04", when(reach=_ACTS, authority="unknown"), P.REFUSED, None),
        ("D05", when(reach=_ACTS, authority="other"), P.SETTLEMENT, settle_suppressed),
        ("D06", when(reach=_ACTS, authority="ours", movement=("ours", "buried")), P.SETTLEMENT, settle_rolled_forward),
        ("D07", when(reach=_ACTS, authority="ours", movement=LOST), P.SETTLEMENT, settle_accepted_lost),
        ("D08", when(reach=_ACTS, authority="ours", movement="unverifiable"), P.REFUSED, None),

        # The task has ended unaccepted, and nothing of it is on its way any more.
        ("D09", when(**_UNMOVED, authority="dead", quiet="yes"), P.SETTLEMENT, settle_not_published),
        ("D19", when(**_UNMOVED, authority="dead", quiet="no"), P.DEFERRED, None),
        ("D10", when(**_TAKEN_BACK, authority=("dead", "gone")), P.SETTLEMENT, settle_rolled_back),
        ("D11", when(reach=_ACTS, authority="dead", movement=_COVERED), P.SETTLEMENT, settle_superseded),
        ("D12", when(**_ILLEGIBLE, word="none"), P.REFUSED, None),
        ("D20", when(**_ILLEGIBLE, word="given"), P.SETTLEMENT, settle_superseded),

        # Its commit is the head: whose commit is it, and what may be done about it.
        ("D13", when(**_TIP, reach="settle", owners="dead"), P.STANDING, None),
        ("D21", when(**_TIP, reach="keep", owners="dead"), P.SETTLEMENT, settle_abandoned),
        ("D22", when(**_TIP, reach=_ACTS, owners="accepted"), P.SETTLEMENT, settle_superseded),
        ("D23", when(**_TIP, reach=_ACTS, owners="open"), P.STANDING, None),
        ("D24", when(**_TIP, reach=_ACTS, owners="unproven"), P.SETTLEMENT, settle_abandoned),
        ("D14", when(**_TIP, reach="move", owners="dead", movable="no"), P.STANDING, None),
        ("D15", when(**_TIP, reach="move", owners="dead", movable="yes", plan="absent"), P.PLAN, write_plan),
        ("D16", when(**_TIP, reach="move", owners="dead", movable="yes", plan="written"), P.RELOCATION, relocate),

        # Nobody knows the task any more. Where there is no sign of it the facts decide, else a person.
        ("D25", when(**_UNMOVED, authority="gone", confirmed="no", quiet="yes"), P.SETTLEMENT, settle_not_published),
        ("D26", when(**_UNMOVED, authority="gone", confirmed="no", quiet="no"), P.DEFERRED, None),
        ("D27", when(**_UNMOVED, authority="gone", confirmed="yes"), P.REFUSED, None),
        ("D28", when(**_INSTEAD, authority="gone", confirmed="no"), P.SETTLEMENT, settle_superseded),
        ("D29", when(**_INSTEAD, authority="gone", confirmed="yes"), P.REFUSED, None),
        ("D03", when(reach=_ACTS, authority="gone", movement=_SIGNS), P.REFUSED, None),
        ),
        On("D17", NotDone, ALWAYS, P.REFUSED),
        On("D18", Unknown, ALWAYS, P.DEFERRED),
    ),

    wait(P.PLAN, m.WritePlan,
        On("W1", m.PlanStands, ALWAYS, P.RELOCATION, relocate),
        On("W2", NotDone, ALWAYS, P.REFUSED),
        On("W3", Unknown, ALWAYS, P.DEFERRED),
    ),

    wait(P.RELOCATION, m.Relocate,
        On("M1", m.Relocated, ALWAYS, P.SETTLEMENT, settle_rolled_back),
        On("M2", NotDone, ALWAYS, P.REFUSED),
        On("M3", Unknown, ALWAYS, P.DEFERRED, note="never sent again from this observation"),
        On("M4", m.TargetBusy, ALWAYS, P.DEFERRED),
    ),

    wait(P.SETTLEMENT, m.Settle,
        On("S1", m.SettlementStands, ALWAYS, P.AUDIT, record_audit),
        On("S2", NotDone, ALWAYS, P.REFUSED),
        On("S3", Unknown, ALWAYS, P.DEFERRED),
    ),

    wait(P.AUDIT, m.RecordAudit,
        On("U1", m.AuditStands, ALWAYS, P.CLOSING, close),
        On("U2", NotDone, ALWAYS, P.REFUSED),
        On("U3", Unknown, ALWAYS, P.DEFERRED),
    ),

    # Settled and audited is settled; what is still listed the next sweep closes.
    wait(P.CLOSING, m.Close,
        On("C1", m.Closed, ALWAYS, P.SETTLED),
        On("C2", NotDone, ALWAYS, P.SETTLED),
        On("C3", Unknown, ALWAYS, P.SETTLED),
    ),
)
# fmt: on


def _opening(subject: Recovery) -> tuple[P, RecoveryKnown, Ask]:
    return P.RECORD, RecoveryKnown(word=subject.word), read_record


RECOVERY: Table[Recovery, RecoveryKnown] = Table(
    Definition(
        name="recovery",
        phases=P,
        initial=(P.RECORD,),
        terminal=frozenset({P.SETTLED, P.STANDING, P.DEFERRED, P.REFUSED, P.PROBED}),
        facts=FACTS,
        table=TABLE,
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
