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
    open_key,
)
from perago_core.machine.rows import Fact, State, Waiting
from perago_core.recovery import messages as m
from perago_core.recovery.classify import (
    AUTHORITIES,
    LOST,
    MOVEMENTS,
    Class,
    Owners,
    Sighting,
    Trail,
    authority,
    classify,
    is_taken_back_safely,
    movement,
)
from perago_core.value import Value, a, count, flag, line, maybe, text
from perago_core.values import Backing, CommitRef, Target, TaskSnapshot


class Phase(Waiting):
    """A phase is named after what is awaited; the last five are the ends."""

    RECORD = "the intent, read afresh"
    EARLIER_SETTLEMENT = "the word whether somebody has settled it already"
    AUTHORITY = "the orchestrator's word on its task"
    REVOCATION = "the names of everybody who has ended dropped"
    BARRIER = "the end of what the store had begun"
    OWNERS = "the claim records that could own its commits"
    TARGETS = "the targets as they are now"
    EARLIER_PLAN = "the word whether an exclusive recovery has begun to move them"
    PLAN = "the durable plan"
    RELOCATION = "the targets back at their inputs"
    SETTLEMENT = "the settlement that stands"
    AUDIT = "the audit record that stands"
    CLOSING = "the end of the open entries"
    SETTLED = "nothing more: it is settled"
    STANDING = "nothing more: its commit is the head, nobody has accepted it, and it stays open"
    DEFERRED = "nothing more for now: untouched, a later sweep decides"
    REFUSED = "nothing more: kept as it is, a person decides"
    PROBED = "nothing more: looked at, nothing written"


class Mode(Enum):
    """How far a recovery may go (D-8).

    Report; keep the books without moving a branch; also roll back what a workflow that has ended left unaccepted; keep
    an unaccepted commit for good; roll one back.
    """

    PROBE = "probe"
    SETTLE_ONLY = "settle only"
    ROLL_BACK_FAILED = "roll back failed workflows"
    KEEP = "keep"
    EXCLUSIVE = "exclusive"


class Word(Enum):
    """What a person says of a result about which the orchestrator says nothing any more."""

    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not accepted"


@frozen(cache_hash=True, repr=False)
class Recovery(Value):
    """One open intent, found under one target, and how far this recovery may go.

    ``at`` is the time the audit record will carry. ``grounds`` says why: nobody decides and no branch is moved without
    (K-02, K-12). ``word`` counts only where the orchestrator says nothing, or contradicts the intent.
    ``nonce``: anything no other recovery has; it tells the anchors of two recoveries of one actor in one millisecond
    apart.
    """

    operation_id: str = field(validator=text)
    target: Target = field(validator=a(Target))
    mode: Mode = field(validator=a(Mode))
    actor: str = field(validator=text)
    at: int = field(default=0, validator=count)
    grounds: str = field(default="", validator=line)
    word: Word | None = field(default=None, validator=maybe(a(Word)))
    nonce: str = field(default="", validator=line)

    def __attrs_post_init__(self) -> None:
        decides = self.mode in {Mode.EXCLUSIVE, Mode.KEEP, Mode.ROLL_BACK_FAILED} or self.word is not None
        if decides and not self.grounds.strip():
            what = self.mode.value if self.word is None else f"with the word {self.word.value!r}"
            message = f"Recovery.mode {what} needs grounds: why this is decided, for the record"
            raise ValueError(message)


@frozen(cache_hash=True, repr=False)
class RecoveryKnown(Value):
    """Everything learnt since the recovery began. ``found`` says that the settlement was there before us.

    ``unquiet``: why something of the past may still land on the targets. ``busy``: who publishes to them now.
    """

    intent: Intent | None = None
    settlement: Settlement | None = None
    found: bool = False
    asked: bool = False
    snapshot: TaskSnapshot | None = None
    word: Word | None = None
    unquiet: str = ""
    prepared: Prepared | None = None
    owners: Owners = Owners.UNPROVEN
    trails: tuple[Trail, ...] = ()
    audit: Audit | None = None
    busy: str = ""
    trouble: str = ""


RecoveryState: TypeAlias = State[Recovery, RecoveryKnown]


def _refused_somewhere(state: RecoveryState, event: NotDone) -> RecoveryKnown:
    """A barrier that is refused, because the branch is dirty or missing, keeps nobody from looking."""
    if state.phase is Phase.BARRIER:
        return evolve(state.known, unquiet=event.reason or "no reason given")
    return _troubled(state, event)


def _troubled(state: RecoveryState, event: NotDone | Unknown) -> RecoveryKnown:
    return evolve(state.known, trouble=event.reason or "no reason given")


REMEMBER: Mapping[type[Event], Callable[[RecoveryState, Any], RecoveryKnown]] = {
    m.RecordFound: lambda state, event: evolve(state.known, intent=event.intent),
    m.SettlementFound: lambda state, event: evolve(state.known, settlement=event.settlement, found=True),
    m.TaskSeen: lambda state, event: evolve(state.known, snapshot=event.snapshot, asked=True),
    m.OwnersRead: lambda state, event: evolve(state.known, owners=event.owners),
    m.TargetsSeen: lambda state, event: evolve(state.known, trails=event.trails),
    m.PlanRead: lambda state, event: evolve(state.known, prepared=event.prepared),
    m.PlanStands: lambda state, event: evolve(state.known, prepared=event.prepared),
    m.SettlementStands: lambda state, event: evolve(state.known, settlement=event.settlement),
    m.AuditStands: lambda state, event: evolve(state.known, audit=event.audit),
    m.TargetBusy: lambda state, event: evolve(state.known, busy=event.reason),
    NotDone: _refused_somewhere,
    Unknown: _troubled,
}


def the_intent(known: RecoveryKnown) -> Intent:
    """Return the intent, once it has been read."""
    assert known.intent is not None
    return known.intent


def the_settlement(known: RecoveryKnown) -> Settlement:
    """Return the settlement that stands, once there is one."""
    assert known.settlement is not None
    return known.settlement


def the_plan(known: RecoveryKnown) -> Prepared:
    """Return the plan that stands, once there is one."""
    assert known.prepared is not None
    return known.prepared


def sightings(known: RecoveryKnown) -> tuple[Sighting, ...]:
    """Class every target; none before they were observed."""
    if known.intent is None or not known.trails:
        return ()
    intent = known.intent
    refs = _accepted_refs(intent, known.snapshot)
    return tuple(
        classify(each, trail, ref) for each, trail, ref in zip(intent.targets, known.trails, refs, strict=True)
    )


def _accepted_refs(intent: Intent, snapshot: TaskSnapshot | None) -> tuple[CommitRef | None, ...]:
    """Say which commit of each target was accepted, as far as the one ref of a result tells.

    It is that of the first target. Where several move in one step, it tells of all: if it is what was staged, so is
    every other; if not, the execution has adopted another's result, or none, and moved nothing. Where they move one
    after the other, it identifies none of them.
    """
    several = len(intent.targets) > 1
    ref = snapshot.result_ref if snapshot is not None and authority(intent, snapshot) == "ours" else None
    if ref is None or (several and intent.backing is not Backing.ATOMIC):
        return (None,) * len(intent.targets)
    first, *others = intent.targets
    moved = ref == first.staged
    return (ref, *(each.staged if moved and each.staged is not None else each.parent for each in others))


def is_accepted(known: RecoveryKnown) -> bool:
    """Return whether the authority accepted this very execution's result, or a person says so in its place."""
    return says(known) == "ours"


def says(known: RecoveryKnown) -> str:
    """Return the authority's word; where it has none, or contradicts the intent, a person's, if there is one."""
    said = authority(the_intent(known), known.snapshot)
    return _WORDS[known.word] if known.word is not None and said in {"gone", "unknown"} else said


_WORDS = {Word.ACCEPTED: "ours", Word.NOT_ACCEPTED: "dead"}


def proof(known: RecoveryKnown) -> Owners:
    """Say whose the commit is that looks like the intent's.

    1. attempt 1 arms (parent A, tree t), dies unconfirmed; 2. attempt 2 publishes (A, t), the task being deterministic,
    and is accepted; 3. recovery of 1 sees "its" commit at the head. Not even a confirmed ref proves that nobody wants
    it: another attempt may have adopted it. So every claim of the task must belong to an attempt that ended unaccepted.
    ``soft`` has no claims, and nobody adopts there.
    """
    intent = the_intent(known)
    confirmed = intent.state is IntentState.CONFIRMED
    return Owners.DEAD if confirmed and intent.backing is Backing.SOFT else known.owners


def workflow_has_ended(known: RecoveryKnown) -> bool:
    """Return whether no attempt will follow that could replace what this one left."""
    return known.snapshot is not None and not known.snapshot.workflow_running


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


def _reach(subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    if subject.mode is Mode.ROLL_BACK_FAILED:
        return "move" if workflow_has_ended(known) else "settle"
    return _REACHES[subject.mode]


_REACHES = {Mode.PROBE: "look", Mode.SETTLE_ONLY: "settle", Mode.KEEP: "keep", Mode.EXCLUSIVE: "move"}


def _authority(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    return says(known)


def _movement(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    return movement(sightings(known), accepted=is_accepted(known))


def _due(subject: Recovery, known: RecoveryKnown, event: Event) -> str:
    """Say what must come before the targets are looked at.

    Whoever writes down what became of a publication that nobody will finish first makes sure that it cannot land any
    more. Without that: attempt 1 has sent its merge and is given up; a sweep finds the head where it was and settles
    *not published*, for ever; the merge lands (S-19).
    """
    if says(known) not in {"dead", "gone"}:
        return "nothing"
    if _reach(subject, known, event) != "look":
        return "revocation"
    return "nothing" if _claims(subject, known, event) == "unneeded" else "claims"


def _claims(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    """Ask for claim records where a commit may be on the branch; ``soft`` has none."""
    intent = the_intent(known)
    publishes = any(each.publishes for each in intent.targets)
    return "needed" if publishes and intent.backing is not Backing.SOFT else "unneeded"


def _confirmed(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    return "yes" if the_intent(known).state is IntentState.CONFIRMED else "no"


def _movable(_subject: Recovery, known: RecoveryKnown, _event: Event) -> str:
    return "no" if obstacle(known) else "yes"


def obstacle(known: RecoveryKnown) -> str:
    """Say what keeps the head from being taken back now: it must be clean, quiet, and the planned one."""
    if known.unquiet:
        return known.unquiet
    if any(each.head is None or each.head.dirty for each in sightings(known)):
        return "uncommitted objects on the target"
    moves = {each for each in planned(known) if each.moves}
    as_planned = known.prepared is None or moves <= set(known.prepared.movements)
    return "" if as_planned else "an earlier recovery wrote down another movement than this one"


FACTS = (
    Fact("reach", ("look", "settle", "keep", "move"), _reach),
    Fact("record", ("present", "gone"), _record),
    Fact("listed", ("yes", "no"), _listed),
    Fact("authority", AUTHORITIES, _authority),
    Fact("due", ("revocation", "claims", "nothing"), _due),
    Fact("word", ("given", "none"), lambda _subject, known, _e: "none" if known.word is None else "given"),
    Fact("quiet", ("yes", "no"), lambda _subject, known, _e: "no" if known.unquiet else "yes"),
    Fact("movement", MOVEMENTS, _movement),
    Fact("claims", ("needed", "unneeded"), _claims),
    Fact("owners", tuple(each.name.lower() for each in Owners), lambda _s, known, _e: proof(known).name.lower()),
    Fact("confirmed", ("yes", "no"), _confirmed),
    Fact("plan", ("absent", "written"), lambda _subject, known, _e: "absent" if known.prepared is None else "written"),
    Fact("movable", ("yes", "no"), _movable),
)


class Ending(Enum):
    """The six ways a recovery ends, for the books. How bad it is stands in ``RecoveryOutcome.alarm``."""

    SETTLED = "settled"
    ALREADY_SETTLED = "already settled"
    STANDING = "unaccepted"
    DEFERRED = "deferred"
    REFUSED = "refused"
    PROBED = "probed"

    @property
    def blocks(self) -> bool:
        """Return whether nobody may publish to the target until this is resolved.

        An unaccepted head does not: a later attempt of its task replaces it, with a claim of its own to a commit that
        may look the same, and a new workflow is not started on it.
        """
        return self in {Ending.DEFERRED, Ending.REFUSED, Ending.PROBED}


@frozen(cache_hash=True, repr=False)
class RecoveryOutcome(Value):
    """What became of one intent. ``audit`` is the kind that stands, if one does.

    ``unaccepted``: the head of a target which is this intent's commit, and which nobody accepted, as far as is known.

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
    intent: Intent | None = field(default=None, validator=maybe(a(Intent)))
    unaccepted: CommitRef | None = field(default=None, validator=maybe(text))


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
        authority=says(known) if known.asked else None,
        movement=moved,
        classes=tuple((each.intent.target, each.kind) for each in seen),
        reason=reason,
        next_action=next_action,
        alarm=lost,
        intent=known.intent,
        unaccepted=_unaccepted(known) if kind is None else None,
    )


def _unaccepted(known: RecoveryKnown) -> CommitRef | None:
    """Return the head that is the intent's own commit, if its task ended unaccepted or nobody knows it any more."""
    if not known.asked or says(known) not in {"dead", "gone"} or proof(known) in {Owners.ACCEPTED, Owners.OPEN}:
        return None
    tips = [each.own.ref for each in sightings(known) if each.own is not None and is_taken_back_safely(each)]
    return tips[0] if tips else None


def is_lost(known: RecoveryKnown) -> bool:
    """Return whether an accepted result is not on its branch: as the settlement has it, or else as it is seen now."""
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


def _standing(state: RecoveryState) -> tuple[str, str]:
    known, subject = state.known, state.subject
    if proof(known) is Owners.OPEN:
        return (
            f"another attempt, whose task is open, may have made the head of {subject.target}",
            "Nothing to do: the next sweep after that task has ended decides.",
        )
    obstructed = obstacle(known)
    verb = f"perago recover {subject.target} --operation {subject.operation_id}"
    return (
        f"{subject.target} is at {_unaccepted(known)}, which nobody accepted"
        + (f", and it cannot be taken back now: {obstructed}" if obstructed else ""),
        f"`{verb} --roll-back` takes it back, `{verb} --keep --grounds TEXT` keeps it for good.",
    )


def _deferred(state: RecoveryState) -> tuple[str, str]:
    known = state.known
    if known.busy:
        return known.busy, "Wait until that task has ended; the next recovery of the target tries again."
    if known.trouble:
        return known.trouble, "Nothing to do: the next sweep of the target tries again."
    if known.unquiet:
        return (
            f"what it published may still land: {known.unquiet}",
            "Commit or discard what is uncommitted on the target; the next sweep of it settles the intent.",
        )
    return (
        f"task {the_intent(state.known).task_id} is still open, so its owner may be alive",
        "Wait until the orchestrator has ended that task; the next sweep of the target settles the intent.",
    )


def _probed(state: RecoveryState) -> tuple[str, str]:
    if _unaccepted(state.known) is not None:
        return _standing(state)
    return "only looked at", f"Sweep {state.subject.target} in settle-only mode to settle the intent."


def _refused(state: RecoveryState) -> tuple[str, str]:
    subject, known = state.subject, state.known
    pointer = open_key(subject.target, subject.operation_id)
    if known.trouble:
        return known.trouble, (
            "Recover again once what is in the way is gone; a record that cannot be read needs a program that can. If "
            "it repeats, ask an operator."
        )
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
    where = ", ".join(f"{each.intent.target} is {each.kind.value}" for each in sightings(known))
    says_so = (
        f"Find out whether its result counted, and say so: `perago recover {state.subject.target} --settle-gone "
        f"{intent.operation_id} --as accepted --grounds TEXT`, or `--as not-accepted`."
    )
    said = says(known)
    if said == "gone":
        return f"the orchestrator does not know task {intent.task_id} any more, and {where}", says_so
    if said == "unknown":
        return f"what the orchestrator says of task {intent.task_id} contradicts the intent, and {where}", says_so
    return (
        f"the branches do not show what became of it: {where}",
        "An operator makes the branch and its history readable, with the input on it, and sweeps again.",
    )


_ENDS: Mapping[Enum, tuple[Ending, Callable[[RecoveryState], tuple[str, str]]]] = {
    Phase.SETTLED: (Ending.SETTLED, _settled),
    Phase.STANDING: (Ending.STANDING, _standing),
    Phase.DEFERRED: (Ending.DEFERRED, _deferred),
    Phase.REFUSED: (Ending.REFUSED, _refused),
    Phase.PROBED: (Ending.PROBED, _probed),
}
