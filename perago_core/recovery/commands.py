"""Everything recovery may ask for, in the order it asks. Imperative, frozen; each names its possible answers.

There is no report among them and there must never be one: an attempt that its owner did not finish is not finished by
anybody else (K-01, S-07). The only command that moves a branch is ``Relocate``, and only exclusive recovery asks it.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from perago_core.checks import a, many, maybe, text
from perago_core.ledger.records import Intent, Prepared, Settlement, TargetIntent
from perago_core.recovery import events as e
from perago_core.rows import Answers, Command


@frozen(cache_hash=True, repr=False)
class ReadRecord(Command):
    """Read the intent afresh."""

    operation_id: str = field(validator=text)
    answers: ClassVar = Answers(
        (e.RecordFound, e.RecordGone),
        (e.RecordUnknown,),
        (e.RecordUnreadable,),
        repeatable=True,
    )


@frozen(cache_hash=True, repr=False)
class ReadSettlement(Command):
    """Find out whether somebody has settled it already."""

    operation_id: str = field(validator=text)
    answers: ClassVar = Answers(
        (e.SettlementFound, e.SettlementAbsent),
        (e.SettlementReadUnknown,),
        (e.SettlementUnreadable,),
        repeatable=True,
    )


@frozen(cache_hash=True, repr=False)
class AskAuthority(Command):
    """Ask the orchestrator what became of the intent's task."""

    workflow_id: str = field(validator=text)
    task_id: str = field(validator=text)
    answers: ClassVar = Answers((e.TaskSeen,), (e.TaskUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ReadOwners(Command):
    """List the claim records that could own the intent's commits, and ask the orchestrator about their tasks."""

    intent: Intent = field(validator=a(Intent))
    answers: ClassVar = Answers((e.OwnersRead,), (e.OwnersUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Observe(Command):
    """Read the head of every target and follow it down to the input, within bounds."""

    targets: tuple[TargetIntent, ...] = field(validator=many(a(TargetIntent)))
    answers: ClassVar = Answers((e.TargetsSeen,), (e.TargetsUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ReadPlan(Command):
    """Find out whether an exclusive recovery has begun to move something."""

    operation_id: str = field(validator=text)
    answers: ClassVar = Answers((e.PlanRead,), (e.PlanReadUnknown,), (e.PlanUnreadable,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class WritePlan(Command):
    """Write down what is about to be moved, before it moves."""

    prepared: Prepared = field(validator=a(Prepared))
    answers: ClassVar = Answers((e.PlanStands,), (e.PlanUnknown,), (e.PlanRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Relocate(Command):
    """Take every target of the plan back to its input; one that is there already is left alone."""

    intent: Intent = field(validator=a(Intent))
    prepared: Prepared = field(validator=a(Prepared))
    answers: ClassVar = Answers((e.Relocated,), (e.RelocationUnknown,), (e.RelocationRefused,))


@frozen(cache_hash=True, repr=False)
class Settle(Command):
    """Write the settlement, unless one stands."""

    settlement: Settlement = field(validator=a(Settlement))
    answers: ClassVar = Answers(
        (e.SettlementStands,),
        (e.SettlementUnknown,),
        (e.SettlementRefused,),
        repeatable=True,
    )


@frozen(cache_hash=True, repr=False)
class RecordAudit(Command):
    """Write the audit record of the settlement that stands, unless one stands."""

    intent: Intent = field(validator=a(Intent))
    settlement: Settlement = field(validator=a(Settlement))
    answers: ClassVar = Answers((e.AuditStands,), (e.AuditUnknown,), (e.AuditRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Close(Command):
    """Take the settled intent off the open list, last of all."""

    settlement: Settlement = field(validator=a(Settlement))
    intent: Intent | None = field(default=None, validator=maybe(a(Intent)))
    answers: ClassVar = Answers((e.Closed,), (e.ClosingUnknown,), (e.ClosingRefused,), repeatable=True)
