"""What a row may ask for: each command, and how its arguments follow from what is known."""

from __future__ import annotations

from collections.abc import Callable

from perago_core.ledger.records import Movement, Prepared, Settlement, SettlementKind
from perago_core.recovery import commands as c
from perago_core.recovery.known import Recovery, RecoveryKnown, planned, sightings, the_intent, the_plan, the_settlement
from perago_core.rows import Ask, Event, asks


@asks(c.ReadRecord)
def read_record(subject: Recovery, _known: RecoveryKnown, _event: Event) -> c.ReadRecord:
    return c.ReadRecord(subject.operation_id)


@asks(c.ReadSettlement)
def read_settlement(subject: Recovery, _known: RecoveryKnown, _event: Event) -> c.ReadSettlement:
    return c.ReadSettlement(subject.operation_id)


@asks(c.AskAuthority)
def ask_authority(_subject: Recovery, known: RecoveryKnown, _event: Event) -> c.AskAuthority:
    intent = the_intent(known)
    return c.AskAuthority(intent.workflow_id, intent.task_id)


@asks(c.ReadPlan)
def read_plan(subject: Recovery, _known: RecoveryKnown, _event: Event) -> c.ReadPlan:
    return c.ReadPlan(subject.operation_id)


@asks(c.ReadOwners)
def read_owners(_subject: Recovery, known: RecoveryKnown, _event: Event) -> c.ReadOwners:
    return c.ReadOwners(the_intent(known))


@asks(c.Observe)
def observe(_subject: Recovery, known: RecoveryKnown, _event: Event) -> c.Observe:
    """Look at every target of the intent, not only at the one it was found under."""
    return c.Observe(the_intent(known).targets)


@asks(c.WritePlan)
def write_plan(subject: Recovery, known: RecoveryKnown, _event: Event) -> c.WritePlan:
    return c.WritePlan(Prepared(subject.operation_id, subject.actor, subject.grounds, planned(known)))


@asks(c.Relocate)
def relocate(_subject: Recovery, known: RecoveryKnown, _event: Event) -> c.Relocate:
    return c.Relocate(the_intent(known), the_plan(known))


def _settling(kind: SettlementKind, movements: Callable[[RecoveryKnown], tuple[Movement, ...]]) -> Ask:
    def build(subject: Recovery, known: RecoveryKnown, _event: Event) -> c.Settle:
        return c.Settle(Settlement(subject.operation_id, kind, movements(known)))

    return Ask(c.Settle, build, f"settle_{kind.name.lower()}")


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


@asks(c.RecordAudit)
def record_audit(_subject: Recovery, known: RecoveryKnown, _event: Event) -> c.RecordAudit:
    return c.RecordAudit(the_intent(known), the_settlement(known))


@asks(c.Close)
def close(_subject: Recovery, known: RecoveryKnown, _event: Event) -> c.Close:
    return c.Close(the_settlement(known), known.intent)
