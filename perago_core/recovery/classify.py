"""The classifier: what became of an intent's effect, told from commit facts alone. Pure, total, metadata-blind.

Identity is a parent and a tree, or the confirmed ref. A message, a count of files, an equal number of steps prove
nothing (D-4, T-O1). The walk from the head down to the input follows first parents, which is what the history of a
branch is (S-01), and is bounded: a longer one is *unverifiable*, never "fine".
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from attrs import field, frozen

from perago_core.fence import Standing
from perago_core.ledger.records import Intent, IntentState, TargetIntent
from perago_core.value import Value, a, flag, many, maybe, text
from perago_core.values import Commit, CommitRef, Head, TaskSnapshot, TaskStatus

#: How many commits of one target are read at most, the head included.
WALK_LIMIT = 1024


class Class(Enum):
    """How a target stands to an intent, in the words of the seed (R-08..R-12), and the two that were added."""

    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INVARIANT_VIOLATION = "InvariantViolation"
    OWN_BEFORE_HEAD = "OwnBeforeHead"
    UNVERIFIABLE = "Unverifiable"


@frozen(cache_hash=True, repr=False)
class Trail(Value):
    """One target as the store showed it: its head and the commits from there downward, the head's first.

    ``whole`` says that the walk came to its natural end: the input, the confirmed commit, or the root. ``head`` is
    ``None`` when the branch is missing.
    """

    head: Head | None = field(validator=maybe(a(Head)))
    commits: tuple[Commit, ...] = field(default=(), validator=many(a(Commit)))
    whole: bool = field(default=True, validator=flag)


@frozen(cache_hash=True, repr=False)
class Sighting(Value):
    """A target with its class, the intent's own commit if it is there, and the ref that was accepted, if one was."""

    intent: TargetIntent = field(validator=a(TargetIntent))
    kind: Class = field(validator=a(Class))
    head: Head | None = field(validator=maybe(a(Head)))
    own: Commit | None = field(default=None, validator=maybe(a(Commit)))
    accepted: CommitRef | None = field(default=None, validator=maybe(text))

    @property
    def gave_its_input(self) -> bool:
        """Say whether, if it was accepted, the result is the input itself: a no-op's, its own or one it adopted."""
        return is_input(self.intent, self.accepted)


def is_input(intent: TargetIntent, accepted: CommitRef | None) -> bool:
    """Whether the result of an intent is its input: if no ref was accepted, that of one that publishes nothing."""
    return not intent.publishes if accepted is None else accepted == intent.parent


def next_look(intent: TargetIntent, last: Commit) -> CommitRef | None:
    """Name the commit the walk must read after this one; ``None`` when what was read is enough."""
    if last.ref in {intent.parent, intent.confirmed} or not last.parents or last.parents[0] == intent.parent:
        return None
    return last.parents[0]


def classify(
    intent: TargetIntent,
    trail: Trail,
    accepted: CommitRef | None = None,
) -> Sighting:
    """Return the class of one target.

    ``accepted`` is the ref the authority recorded for this very execution, if it did: then it alone says which commit
    is ours. One that merely looks like it is not enough (S-19): two attempts of a deterministic task give equal trees
    on one parent, and if the second replaced the first after it was accepted, that is a loss. And one that looks like
    nothing this execution staged may be it: what an earlier attempt published and this one adopted.
    """
    if trail.head is None:
        return Sighting(intent, Class.INVARIANT_VIOLATION, None)
    own = _own(intent, trail, accepted)
    if own is not None:
        at_head = own.ref == trail.head.commit.ref
        kind = Class.ROLLED_PAST_EXPECTED if at_head else Class.OWN_BEFORE_HEAD
        return Sighting(intent, kind, trail.head, own, accepted)
    return Sighting(intent, _foreign(intent, trail), trail.head, accepted=accepted)


def _own(intent: TargetIntent, trail: Trail, accepted: CommitRef | None) -> Commit | None:
    """Find the intent's own commit on the trail."""
    if is_input(intent, accepted):
        return None
    # Once confirmed, only the ref counts: an equal tree on the same parent is then a later attempt's.
    known = accepted or intent.confirmed
    for commit in trail.commits:
        alike = commit.parents == (intent.parent,) and commit.tree == intent.tree
        if commit.ref == known if known is not None else alike:
            return commit
    return None


def _foreign(intent: TargetIntent, trail: Trail) -> Class:
    """Class a target on which our own commit was not found; ``trail.commits`` begins with the head."""
    last = trail.commits[-1]
    if last.ref == intent.parent:
        return Class.NO_MOVEMENT
    if last.parents[:1] == (intent.parent,):
        return Class.UNEXPECTED_AT_P1 if len(trail.commits) == 1 else Class.UNEXPECTED_MULTISTEP
    return Class.INVARIANT_VIOLATION if trail.whole else Class.UNVERIFIABLE


# ---------------------------------------------------------------------------------------------------------------------
# The two facts the decision is made of

AUTHORITIES = ("ours", "other", "running", "dead", "gone", "unknown")
MOVEMENTS = ("ours", "buried", "partial", "none", "unexpected", "violated", "unverifiable")
#: What has become of an accepted result of which at least one effect is not where it was.
LOST = ("none", "partial", "unexpected", "violated")


def authority(intent: Intent, snapshot: TaskSnapshot | None) -> str:
    """Say what the authority makes of an intent.

    An open task is *running* whichever delivery of it is meant: a live owner may exist (S-22, T-O9). A result without
    our execution id is another's, also one that names no execution at all. An answer that contradicts the intent is
    *unknown*.
    """
    if snapshot is None:
        return "gone"
    if (snapshot.workflow_id, snapshot.task_id) != (intent.workflow_id, intent.task_id):
        return "unknown"
    if snapshot.status.is_open:
        return "running"
    if snapshot.status is not TaskStatus.COMPLETED:
        return "dead"
    if snapshot.result_execution != intent.execution:
        return "other"
    confirmed = {each.confirmed for each in intent.targets}
    contradicted = intent.state is IntentState.CONFIRMED and snapshot.result_ref not in {None, *confirmed}
    return "unknown" if contradicted else "ours"


def movement(sightings: Iterable[Sighting], *, accepted: bool) -> str:
    """Fold the targets of one intent into one word: all or nothing (R-14, S-20).

    *ours*: every effect is the head. *buried*: every effect is there, some under later commits, so that going back
    would erase those (T-O22). *partial*: some effects are the head, the others never happened. The doubtful come first.
    """
    places = {_place(each, accepted=accepted) for each in sightings}
    for doubtful in ("unverifiable", "violated", "unexpected"):
        if doubtful in places:
            return doubtful
    if len(places) == 1:
        return places.pop()
    return "unexpected" if places >= {"none", "buried"} else "partial" if "none" in places else "buried"


def _place(sighting: Sighting, *, accepted: bool) -> str:
    if accepted and sighting.gave_its_input:
        # An accepted no-op's ref is its input. The next step has published on it since: that is no loss.
        return _ACCEPTED_INPUT.get(sighting.kind, _PLACES[sighting.kind])
    return "ours" if is_taken_back_safely(sighting) else _PLACES[sighting.kind]


def is_taken_back_safely(sighting: Sighting) -> bool:
    """Return whether going back to the input removes the own commit and nothing else."""
    parents = () if sighting.head is None else sighting.head.commit.parents
    return sighting.kind is Class.ROLLED_PAST_EXPECTED and parents == (sighting.intent.parent,)


_PLACES = {
    Class.NO_MOVEMENT: "none",
    Class.ROLLED_PAST_EXPECTED: "buried",
    Class.OWN_BEFORE_HEAD: "buried",
    Class.UNEXPECTED_AT_P1: "unexpected",
    Class.UNEXPECTED_MULTISTEP: "unexpected",
    Class.INVARIANT_VIOLATION: "violated",
    Class.UNVERIFIABLE: "unverifiable",
}

_ACCEPTED_INPUT = {
    Class.NO_MOVEMENT: "ours",
    Class.UNEXPECTED_AT_P1: "buried",
    Class.UNEXPECTED_MULTISTEP: "buried",
}


class Owners(Enum):
    """Who can have made or adopted the commits of an intent, by the claim records and the orchestrator's word on them.

    Every attempt of the logical task counts, whatever it staged. Counterexample: attempt 1 publishes and dies; attempt
    2 stages something else, finds that commit at the head, reports it and is accepted; recovery of attempt 1 finds one
    claim to such a commit, of a dead attempt, and takes the accepted result away.
    """

    DEAD = "only attempts that ended unaccepted"
    ACCEPTED = "perhaps one that was accepted"
    OPEN = "perhaps one that is at work"
    UNPROVEN = "nobody can say: a claim or a task is gone"


_OWNERS = {
    Standing.ACCEPTED: Owners.ACCEPTED,
    Standing.LIVE: Owners.OPEN,
    Standing.UNPROVEN: Owners.UNPROVEN,
    Standing.DEAD: Owners.DEAD,
}


def owners_of(standings: Iterable[Standing], *, recorded: bool) -> Owners:
    """Fold what is known of every possible owner: one that was accepted outweighs one that lives, and so on.

    ``recorded``: the intent's own claim is among the records. If not, that of the attempt that was accepted may be gone
    as well, because claims are removed once their task is settled.
    """
    found = {Standing.DEAD, *standings}
    strongest = next(each for each in _OWNERS if each in found)
    return _OWNERS[strongest] if recorded or strongest is not Standing.DEAD else Owners.UNPROVEN
