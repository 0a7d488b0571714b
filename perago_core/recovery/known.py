"""What a recovery is about, what it has learnt, and the facts its rows look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from perago_core.checks import a, count, line, text
from perago_core.ledger.records import Audit, Intent, IntentState, Movement, Prepared, Settlement
from perago_core.recovery import events as e
from perago_core.recovery.classify import (
    AUTHORITIES,
    MOVEMENTS,
    Sighting,
    Trail,
    authority,
    classify,
    is_taken_back_safely,
    movement,
)
from perago_core.rows import Event, Fact, State
from perago_core.value import Value
from perago_core.values import Backing, Target, TaskSnapshot


class Mode(Enum):
    """How far a recovery may go (D-8): report; keep the books without moving a branch; also move one back."""

    PROBE = "probe"
    SETTLE_ONLY = "settle only"
    EXCLUSIVE = "exclusive"


@frozen(cache_hash=True, repr=False)
class Recovery(Value):
    """One open intent, found under one target, and how far this recovery may go.

    ``at`` is the time the audit record will carry. ``grounds`` says why nobody else is publishing to these targets, a
    lock token or an operator's assertion; exclusive recovery without grounds is a ``ValueError`` (K-02, K-12).
    """

    operation_id: str = field(validator=text)
    target: Target = field(validator=a(Target))
    mode: Mode = field(validator=a(Mode))
    actor: str = field(validator=text)
    at: int = field(default=0, validator=count)
    grounds: str = field(default="", validator=line)

    def __attrs_post_init__(self) -> None:
        if self.mode is Mode.EXCLUSIVE and not self.grounds.strip():
            message = "Recovery.mode exclusive needs grounds: the lock token held, or what an operator asserts"
            raise ValueError(message)


@frozen(cache_hash=True, repr=False)
class RecoveryKnown(Value):
    """Everything learnt since the recovery began. ``found`` says that the settlement was there before us."""

    intent: Intent | None = None
    settlement: Settlement | None = None
    found: bool = False
    asked: bool = False
    snapshot: TaskSnapshot | None = None
    prepared: Prepared | None = None
    owners_dead: bool = False
    trails: tuple[Trail, ...] = ()
    audit: Audit | None = None
    trouble: str = ""


RecoveryState: TypeAlias = State[Recovery, RecoveryKnown]


def _troubled(state: RecoveryState, event: e.Because) -> RecoveryKnown:
    return evolve(state.known, trouble=event.reason or "no reason given")


REMEMBER: Mapping[type[Event], Callable[[RecoveryState, Any], RecoveryKnown]] = {
    e.RecordFound: lambda state, event: evolve(state.known, intent=event.intent),
    e.SettlementFound: lambda state, event: evolve(state.known, settlement=event.settlement, found=True),
    e.TaskSeen: lambda state, event: evolve(state.known, snapshot=event.snapshot, asked=True),
    e.OwnersRead: lambda state, event: evolve(state.known, owners_dead=event.dead),
    e.TargetsSeen: lambda state, event: evolve(state.known, trails=event.trails),
    e.PlanRead: lambda state, event: evolve(state.known, prepared=event.prepared),
    e.PlanStands: lambda state, event: evolve(state.known, prepared=event.prepared),
    e.SettlementStands: lambda state, event: evolve(state.known, settlement=event.settlement),
    e.AuditStands: lambda state, event: evolve(state.known, audit=event.audit),
    **dict.fromkeys(
        (
            e.RecordUnreadable,
            e.RecordUnknown,
            e.SettlementUnreadable,
            e.SettlementReadUnknown,
            e.TaskUnknown,
            e.OwnersUnknown,
            e.TargetsUnknown,
            e.PlanUnreadable,
            e.PlanReadUnknown,
            e.PlanRefused,
            e.PlanUnknown,
            e.RelocationRefused,
            e.RelocationUnknown,
            e.SettlementRefused,
            e.SettlementUnknown,
            e.AuditRefused,
            e.AuditUnknown,
            e.ClosingRefused,
            e.ClosingUnknown,
        ),
        _troubled,
    ),
}


def the_intent(known: RecoveryKnown) -> Intent:
    """Give the intent, once it has been read."""
    assert known.intent is not None
    return known.intent


def the_settlement(known: RecoveryKnown) -> Settlement:
    """Give the settlement that stands, once there is one."""
    assert known.settlement is not None
    return known.settlement


def the_plan(known: RecoveryKnown) -> Prepared:
    """Give the plan that stands, once there is one."""
    assert known.prepared is not None
    return known.prepared


def sightings(known: RecoveryKnown) -> tuple[Sighting, ...]:
    """Class every target; none before they were observed."""
    if known.intent is None or not known.trails:
        return ()
    intent = known.intent
    # One result, one ref: which of several targets it belongs to is not said, so it identifies none of them.
    named = known.snapshot is not None and len(intent.targets) == 1 and is_accepted(known)
    accepted = known.snapshot.result_ref if named and known.snapshot is not None else None
    return tuple(
        classify(each, trail, accepted, over_maintenance=intent.over_maintenance)
        for each, trail in zip(intent.targets, known.trails, strict=True)
    )


def is_accepted(known: RecoveryKnown) -> bool:
    """Say whether the authority accepted this very execution's result."""
    return authority(the_intent(known), known.snapshot) == "ours"


def planned(known: RecoveryKnown) -> tuple[Movement, ...]:
    """Say where each target goes when the intent is rolled back: our commit's back to the input, the others nowhere."""
    moves: list[Movement] = []
    for each in sightings(known):
        parent = each.intent.parent
        own = each.own.ref if each.own is not None and is_taken_back_safely(each) else parent
        moves.append(Movement(each.intent.target, own, parent))
    return tuple(moves)


# ---------------------------------------------------------------------------------------------------------------------
# Facts


def _record(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    return "gone" if known.intent is None else "present"


def _listed(subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    return "yes" if subject.target in {each.target for each in the_intent(known).targets} else "no"


def _authority(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    return authority(the_intent(known), known.snapshot)


def _movement(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    return movement(sightings(known), accepted=is_accepted(known))


def _claims(subject: Recovery, known: RecoveryKnown, event: Event) -> str:
    """Ask for claim records only where a branch may move and the confirmed ref does not say whose commit it is."""
    intent = the_intent(known)
    may_move = subject.mode is Mode.EXCLUSIVE and _authority(subject, known, event) == "dead"
    unproven = intent.state is IntentState.ARMED and intent.backing is not Backing.SOFT
    return "needed" if may_move and unproven else "unneeded"


def _movable(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    """Say whether the head to be taken back belongs to dead attempts only, is clean, and is the planned one.

    1. attempt 1 arms (parent A, tree t), dies unconfirmed; 2. attempt 2 publishes (A, t), the task being deterministic,
    and is accepted; 3. recovery of 1 sees "its" commit at the head. Parent and tree suffice to keep the books, not to
    move the branch: for that the ref must be confirmed, or every claim to such a commit must belong to a dead attempt.
    """
    proven = the_intent(known).state is IntentState.CONFIRMED or known.owners_dead
    clean = all(each.head is not None and not each.head.dirty for each in sightings(known))
    moves = {each for each in planned(known) if each.moves}
    as_planned = known.prepared is None or moves <= set(known.prepared.movements)
    return "yes" if proven and clean and as_planned else "no"


FACTS = (
    Fact("mode", tuple(mode.value for mode in Mode), lambda subject, _known, _event: subject.mode.value),
    Fact("record", ("present", "gone"), _record),
    Fact("listed", ("yes", "no"), _listed),
    Fact("authority", AUTHORITIES, _authority),
    Fact("movement", MOVEMENTS, _movement),
    Fact("claims", ("needed", "unneeded"), _claims),
    Fact("plan", ("absent", "written"), lambda _subject, known, _e: "absent" if known.prepared is None else "written"),
    Fact("movable", ("yes", "no"), _movable),
)
