"""How a recovery ended, in words a person can act on (L-10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from attrs import field, frozen

from perago_core.checks import a, flag, line, maybe, text
from perago_core.ledger.keys import intent_key, open_key
from perago_core.ledger.records import SettlementKind
from perago_core.recovery.classify import LOST, Class, authority, movement
from perago_core.recovery.known import RecoveryKnown, RecoveryState, is_accepted, sightings, the_intent, the_settlement
from perago_core.recovery.phases import Phase
from perago_core.value import Value
from perago_core.values import Target


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
