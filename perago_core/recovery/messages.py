"""What can happen to a recovery, in the order it happens. Past tense, frozen, no behaviour."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from perago_core.answers import Event
from perago_core.ledger.records import Audit, Intent, Prepared, Settlement, TargetIntent
from perago_core.machine.rows import Command, effect, read
from perago_core.recovery.classify import Owners, Trail
from perago_core.value import a, many, maybe, text
from perago_core.values import TaskSnapshot


@frozen(cache_hash=True, repr=False)
class RecordFound(Event):
    """The intent still stands and says this, now, whatever the listing showed (T-O11)."""

    intent: Intent = field(validator=a(Intent))


class RecordGone(Event):
    """The intent is not there any more (CW-27)."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class ReadRecord(Command):
    """Read the intent afresh."""

    operation_id: str = field(validator=text)
    answers: ClassVar = effect(RecordFound, RecordGone, repeatable=True)


@frozen(cache_hash=True, repr=False)
class SettlementFound(Event):
    """Somebody settled it before us."""

    settlement: Settlement = field(validator=a(Settlement))


class SettlementAbsent(Event):
    """It is not settled."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class ReadSettlement(Command):
    """Find out whether somebody has settled it already."""

    operation_id: str = field(validator=text)
    answers: ClassVar = effect(SettlementFound, SettlementAbsent, repeatable=True)


@frozen(cache_hash=True, repr=False)
class TaskSeen(Event):
    """The authority showed the intent's task as it is now; ``None``: it is gone."""

    snapshot: TaskSnapshot | None = field(validator=maybe(a(TaskSnapshot)))


@frozen(cache_hash=True, repr=False)
class AskAuthority(Command):
    """Ask the orchestrator what became of the intent's task."""

    workflow_id: str = field(validator=text)
    task_id: str = field(validator=text)
    answers: ClassVar = read(TaskSeen)


@frozen(cache_hash=True, repr=False)
class NamesRevoked(Event):
    """Nobody who has ended can act on the targets by name any more."""

    names: tuple[str, ...] = field(default=(), validator=many(text))


@frozen(cache_hash=True, repr=False)
class RevokeNames(Command):
    """Drop every name by which somebody who has ended may still move one of the targets."""

    intent: Intent = field(validator=a(Intent))
    answers: ClassVar = effect(NamesRevoked, repeatable=True)


class BarrierPassed(Event):
    """What the store had begun on the targets has ended."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class PassBarrier(Command):
    """Have the store end what it had begun on the targets."""

    intent: Intent = field(validator=a(Intent))
    answers: ClassVar = effect(BarrierPassed, repeatable=True)


@frozen(cache_hash=True, repr=False)
class OwnersRead(Event):
    """The claim records say who can have made the commits this intent describes."""

    owners: Owners = field(validator=a(Owners))


@frozen(cache_hash=True, repr=False)
class ReadOwners(Command):
    """List the claim records that could own the intent's commits, and ask the orchestrator about their tasks."""

    intent: Intent = field(validator=a(Intent))
    answers: ClassVar = read(OwnersRead)


@frozen(cache_hash=True, repr=False)
class TargetsSeen(Event):
    """The head of every target, and the way from it down to the input, as the store shows them now."""

    trails: tuple[Trail, ...] = field(validator=many(a(Trail)))


@frozen(cache_hash=True, repr=False)
class Observe(Command):
    """Read the head of every target and follow it down to the input, within bounds."""

    targets: tuple[TargetIntent, ...] = field(validator=many(a(TargetIntent)))
    answers: ClassVar = read(TargetsSeen)


@frozen(cache_hash=True, repr=False)
class PlanRead(Event):
    """What an exclusive recovery before us, or beside us, had written that it was about to move; ``None``: nothing."""

    prepared: Prepared | None = field(validator=maybe(a(Prepared)))


@frozen(cache_hash=True, repr=False)
class ReadPlan(Command):
    """Find out whether an exclusive recovery has begun to move something."""

    operation_id: str = field(validator=text)
    answers: ClassVar = effect(PlanRead, repeatable=True)


@frozen(cache_hash=True, repr=False)
class PlanStands(Event):
    """What is about to be moved is written down."""

    prepared: Prepared = field(validator=a(Prepared))


@frozen(cache_hash=True, repr=False)
class WritePlan(Command):
    """Write down what is about to be moved, before it moves."""

    prepared: Prepared = field(validator=a(Prepared))
    answers: ClassVar = effect(PlanStands, repeatable=True)


@frozen(cache_hash=True, repr=False)
class TargetBusy(Event):
    """Somebody who has a right to publishes to a target of the plan now; nothing was moved there."""

    reason: str = field(validator=text)


class Relocated(Event):
    """Every target of the plan is back at its input."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Relocate(Command):
    """Take every target of the plan back to its input; one that is there already is left alone."""

    intent: Intent = field(validator=a(Intent))
    prepared: Prepared = field(validator=a(Prepared))
    answers: ClassVar = effect(Relocated, TargetBusy)


@frozen(cache_hash=True, repr=False)
class SettlementStands(Event):
    """The intent is settled; the first settlement stands, ours or another sweep's."""

    settlement: Settlement = field(validator=a(Settlement))


@frozen(cache_hash=True, repr=False)
class Settle(Command):
    """Write the settlement, unless one stands."""

    settlement: Settlement = field(validator=a(Settlement))
    answers: ClassVar = effect(SettlementStands, repeatable=True)


@frozen(cache_hash=True, repr=False)
class AuditStands(Event):
    """The one audit record stands, ours or another sweep's."""

    audit: Audit = field(validator=a(Audit))


@frozen(cache_hash=True, repr=False)
class RecordAudit(Command):
    """Write the audit record of the settlement that stands, unless one stands."""

    intent: Intent = field(validator=a(Intent))
    settlement: Settlement = field(validator=a(Settlement))
    answers: ClassVar = effect(AuditStands, repeatable=True)


class Closed(Event):
    """The intent is off the ledger's open list."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Close(Command):
    """Take the settled intent off the open list, last of all."""

    settlement: Settlement = field(validator=a(Settlement))
    intent: Intent | None = field(default=None, validator=maybe(a(Intent)))
    answers: ClassVar = effect(Closed, repeatable=True)
