"""What a recovery is about, what it has learnt, and the facts its rows look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from perago_core.answers import Event, NotDone, Unknown
from perago_core.ledger.records import (
    Audit,
    Intent,
    IntentState,
    Movement,
    Prepared,
    Settlement,
    SettlementKind,
    intent_key,
    open_key,
)
from perago_core.machine.rows import Fact, State, Waiting
from perago_core.recovery import messages as m
from perago_core.recovery.classify import (
    AUTHORITIES,
    LOST,
    MOVEMENTS,
    Class,
    Sighting,
    Trail,
    authority,
    classify,
    is_taken_back_safely,
    movement,
)
from perago_core.value import Value, a, count, flag, line, maybe, text
from perago_core.values import Backing, Target, TaskSnapshot


class Phase(Waiting):
    """A phase is named after what is awaited; the last four are the ends."""

    RECORD = "the intent, read afresh"
    EARLIER_SETTLEMENT = "the word whether somebody has settled it already"
    AUTHORITY = "the orchestrator's word on its task"
    OWNERS = "the claim records that could own its commits"
    TARGETS = "the targets as they are now"
    EARLIER_PLAN = "the word whether an exclusive recovery has begun to move them"
    PLAN = "the durable plan"
    RELOCATION = "the targets back at their inputs"
    SETTLEMENT = "the settlement that stands"
    AUDIT = "the audit record that stands"
    CLOSING = "the end of the open entries"
    SETTLED = "nothing more: it is settled"
    DEFERRED = "nothing more for now: untouched, a later sweep decides"
    REFUSED = "nothing more: kept as it is, a person decides"
    PROBED = "nothing more: looked at, nothing written"


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


def _troubled(state: RecoveryState, event: NotDone | Unknown) -> RecoveryKnown:
    return evolve(state.known, trouble=event.reason or "no reason given")


REMEMBER: Mapping[type[Event], Callable[[RecoveryState, Any], RecoveryKnown]] = {
    m.RecordFound: lambda state, event: evolve(state.known, intent=event.intent),
    m.SettlementFound: lambda state, event: evolve(state.known, settlement=event.settlement, found=True),
    m.TaskSeen: lambda state, event: evolve(state.known, snapshot=event.snapshot, asked=True),
    m.OwnersRead: lambda state, event: evolve(state.known, owners_dead=event.dead),
    m.TargetsSeen: lambda state, event: evolve(state.known, trails=event.trails),
    m.PlanRead: lambda state, event: evolve(state.known, prepared=event.prepared),
    m.PlanStands: lambda state, event: evolve(state.known, prepared=event.prepared),
    m.SettlementStands: lambda state, event: evolve(state.known, settlement=event.settlement),
    m.AuditStands: lambda state, event: evolve(state.known, audit=event.audit),
    NotDone: _troubled,
    Unknown: _troubled,
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


class Ending(Enum):
    """The five ways a recovery ends, for the books. How bad it is stands in ``RecoveryOutcome.alarm``."""

    SETTLED = "settled"
    ALREADY_SETTLED = "already settled"
    DEFERRED = "deferred"
    REFUSED = "refused"
    PROBED = "probed"

    @property
    def resolves(self) -> bool:
        """Say whether the intent is closed. That a result was lost can be settled like anything else: see ``alarm``."""
        return self in {Ending.SETTLED, Ending.ALREADY_SETTLED}


@frozen(cache_hash=True, repr=False)
class RecoveryOutcome(Value):
    """What became of one intent. ``audit`` is the kind that stands, if one does.

    ``alarm``: the orchestrator accepted the result and it is not on the branch. A person must know at once, however the
    recovery ended: also when it only looked, and when the finding could not be written down.
    """

    operation_id: str = field(validator=text)
    ending: Ending = field(validator=a(Ending))
    audit: SettlementKind | None = field(validator=maybe(a(SettlementKind)))
    authority: str | None = field(validator=maybe(text))
    movement: str | None = field(validator=maybe(text))
    classes: tuple[tuple[Target, Class], ...]
    reason: str = field(validator=line)
    next_action: str = field(validator=text)
    alarm: bool = field(default=False, validator=flag)


def outcome(state: RecoveryState) -> RecoveryOutcome | None:
    """Say how it ended; ``None`` while it has not."""
    ends = _ENDS.get(state.phase)
    if ends is None:
        return None
    known = state.known
    seen = sightings(known)
    ending, explain = ends
    if known.found and ending is Ending.SETTLED:
        ending = Ending.ALREADY_SETTLED
    kind = None if known.settlement is None else known.settlement.kind
    moved = movement(seen, accepted=is_accepted(known)) if seen else None
    lost = is_lost(known)
    reason, next_action = _lost(known) if lost else explain(state)
    return RecoveryOutcome(
        operation_id=state.subject.operation_id,
        ending=ending,
        audit=kind,
        authority=authority(the_intent(known), known.snapshot) if known.asked else None,
        movement=moved,
        classes=tuple((each.intent.target, each.kind) for each in seen),
        reason=reason,
        next_action=next_action,
        alarm=lost,
    )


def is_lost(known: RecoveryKnown) -> bool:
    """Say whether an accepted result is not on its branch: as the settlement has it, or else as it is seen now."""
    if known.settlement is not None:
        return known.settlement.kind is SettlementKind.ACCEPTED_LOST
    seen = sightings(known)
    return bool(seen) and is_accepted(known) and movement(seen, accepted=True) in LOST


def _lost(known: RecoveryKnown) -> tuple[str, str]:
    if known.settlement is not None:
        heads = {each.target: each.after for each in known.settlement.movements}
    else:
        heads = {each.intent.target: None if each.head is None else each.head.commit.ref for each in sightings(known)}
    where = ", ".join(f"{target} at {head or 'no commit'}" for target, head in heads.items())
    unwritten = f"; the ledger does not say so yet: {known.trouble}" if known.trouble else ""
    return (
        f"the orchestrator accepted this result and it is not on the branch: {where}{unwritten}",
        "Stop publishing to the target and have an operator restore the accepted commit; nothing was moved.",
    )


def _settled(state: RecoveryState) -> tuple[str, str]:
    return the_settlement(state.known).kind.value, "Nothing to do."


def _deferred(state: RecoveryState) -> tuple[str, str]:
    if state.known.trouble:
        return state.known.trouble, "Nothing to do: the next sweep of the target tries again."
    return (
        f"task {the_intent(state.known).task_id} is still open, so its owner may be alive",
        "Wait until the orchestrator has ended that task; the next sweep of the target settles the intent.",
    )


def _probed(state: RecoveryState) -> tuple[str, str]:
    return "only looked at", f"Sweep {state.subject.target} in settle-only mode to settle the intent."


def _refused(state: RecoveryState) -> tuple[str, str]:
    subject, known = state.subject, state.known
    pointer = open_key(subject.target, subject.operation_id)
    if known.trouble:
        return known.trouble, "Sweep again with a program that can read the record; if it repeats, ask an operator."
    if known.intent is None:
        return (
            f"{pointer} points to an intent of which neither record nor settlement exists",
            f"An operator makes sure that nothing of it is on the way and deletes the key {pointer}.",
        )
    if subject.target not in {each.target for each in known.intent.targets}:
        return (
            f"{pointer} points to an intent that does not name {subject.target}",
            f"An operator deletes the key {pointer}; the intent is found under its own targets.",
        )
    return _undecided(state)


def _undecided(state: RecoveryState) -> tuple[str, str]:
    known = state.known
    intent = the_intent(known)
    by_hand = f"An operator finds out what became of it and settles {intent_key(intent.operation_id)} by hand."
    if known.snapshot is None:
        return f"the orchestrator does not know task {intent.task_id} any more", by_hand
    if authority(intent, known.snapshot) == "unknown":
        return f"what the orchestrator says of task {intent.task_id} contradicts the intent", by_hand
    where = ", ".join(f"{each.intent.target} is {each.kind.value}" for each in sightings(known))
    return (
        f"the branches do not show what became of it: {where}",
        "An operator makes the branch and its history readable, with the input on it, and sweeps again.",
    )


_ENDS: Mapping[Enum, tuple[Ending, Callable[[RecoveryState], tuple[str, str]]]] = {
    Phase.SETTLED: (Ending.SETTLED, _settled),
    Phase.DEFERRED: (Ending.DEFERRED, _deferred),
    Phase.REFUSED: (Ending.REFUSED, _refused),
    Phase.PROBED: (Ending.PROBED, _probed),
}
