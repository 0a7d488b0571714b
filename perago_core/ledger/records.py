"""What the ledger holds: intents, plans of recovery, settlements, audit records. Frozen values, no behaviour.

An intent says what an execution is about to do, before it can have happened. It goes armed -> confirmed -> settled and
never back (S-21). Which commit is whose is told by parent and tree, or by the confirmed ref; never by a message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from attrs import field, frozen

from perago_core.errors import CodecError
from perago_core.machine import codec
from perago_core.names import escape, target_key, unescape
from perago_core.ports import Entry
from perago_core.value import Value, a, count, flag, many, maybe, text
from perago_core.values import Backing, CommitRef, Maintained, Operation, Target


class IntentState(Enum):
    """How far the owner of an intent came."""

    ARMED = "armed"
    CONFIRMED = "confirmed"


class SettlementKind(Enum):
    """What became of an intent. The first kind written stands for ever, and the audit record repeats it.

    The owner itself writes ``ACCEPTED`` or ``NOT_PUBLISHED``; the same acceptance found by recovery is
    ``ROLLED_FORWARD``, which is bookkeeping and nothing else (K-01).
    """

    ACCEPTED = "accepted"
    ROLLED_FORWARD = "rolled forward"
    ACCEPTED_LOST = "accepted lost"
    SUPPRESSED = "suppressed"
    NOT_PUBLISHED = "not published"
    ABANDONED = "abandoned"
    ROLLED_BACK = "rolled back"
    SUPERSEDED = "superseded"

    @property
    def accepts(self) -> bool:
        """Return whether the authority took the result and it is where it belongs."""
        return self in {SettlementKind.ACCEPTED, SettlementKind.ROLLED_FORWARD}

    @property
    def is_kept_for_good(self) -> bool:
        """Whether its records are never collected: an alarm, or the only word that a commit was never accepted."""
        return self in {SettlementKind.ACCEPTED_LOST, SettlementKind.ABANDONED}


@frozen(cache_hash=True, repr=False)
class TargetIntent(Value):
    """One target of an intent: the input it was made from, what is staged for it, and what was published.

    A no-op stages nothing; its result is the input itself, so ``staged`` and ``tree`` are given together or not at all.
    """

    target: Target = field(validator=a(Target))
    parent: CommitRef = field(validator=text)
    staged: CommitRef | None = field(default=None, validator=maybe(text))
    tree: str | None = field(default=None, validator=maybe(text))
    confirmed: CommitRef | None = field(default=None, validator=maybe(text))

    def __attrs_post_init__(self) -> None:
        if (self.staged is None) is not (self.tree is None):
            message = f"TargetIntent needs staged and tree together, not staged={self.staged!r} with tree={self.tree!r}"
            raise ValueError(message)

    @property
    def publishes(self) -> bool:
        """Return whether a commit of its own is to appear; a no-op at most takes the target back to its input."""
        return self.staged is not None


@frozen(cache_hash=True, kw_only=True, repr=False)
class Intent(Value):
    """What one execution is about to do to its targets, and who it is.

    ``created_at`` is whatever number the runtime counts time in. ``over_maintenance`` says that the publication may
    land on maintenance instead of on the input; its tree is then not known in advance. An intent without targets, with
    one target twice, or confirmed for only some of them is a ``ValueError`` (T-O4).
    """

    operation_id: str = field(validator=text)
    operation: Operation = field(validator=a(Operation))
    workflow_id: str = field(validator=text)
    task_id: str = field(validator=text)
    number: int = field(validator=count)
    execution: str = field(validator=text)
    logical_task: str = field(validator=text)
    actor: str = field(validator=text)
    created_at: int = field(validator=count)
    targets: tuple[TargetIntent, ...] = field(validator=many(a(TargetIntent)))
    backing: Backing = field(validator=a(Backing))
    epoch: int = field(default=0, validator=count)
    lease_token: int | None = field(default=None, validator=maybe(count))
    state: IntentState = field(default=IntentState.ARMED, validator=a(IntentState))
    over_maintenance: bool = field(default=False, validator=flag)

    def __attrs_post_init__(self) -> None:
        named = [each.target for each in self.targets]
        if not named or len(set(named)) != len(named):
            message = f"Intent.targets must be one or more different targets, not {[str(each) for each in named]}"
            raise ValueError(message)
        expected = self.state is IntentState.CONFIRMED
        if any((each.confirmed is not None) is not expected for each in self.targets):
            message = f"Intent.state {self.state.value} contradicts its targets: all of them are confirmed or none is"
            raise ValueError(message)


@frozen(cache_hash=True, repr=False)
class Movement(Value):
    """Where one target was and where it is; ``after`` is ``None`` when the branch is missing or could not be read."""

    target: Target = field(validator=a(Target))
    before: CommitRef = field(validator=text)
    after: CommitRef | None = field(default=None, validator=maybe(text))

    @property
    def moves(self) -> bool:
        """Return whether the two differ."""
        return self.before != self.after


@frozen(cache_hash=True, repr=False)
class Prepared(Value):
    """What exclusive recovery is about to move, written before it moves anything (CW-29).

    Afterwards the heads look as if nothing had ever been published; only this record tells a rollback from that.
    """

    operation_id: str = field(validator=text)
    actor: str = field(validator=text)
    grounds: str = field(validator=text)
    movements: tuple[Movement, ...] = field(validator=many(a(Movement)))


@frozen(cache_hash=True, repr=False)
class Settlement(Value):
    """What became of an intent, the same kind for all its targets (S-20), with where each of them is."""

    operation_id: str = field(validator=text)
    kind: SettlementKind = field(validator=a(SettlementKind))
    movements: tuple[Movement, ...] = field(validator=many(a(Movement)))


@frozen(cache_hash=True, repr=False)
class Audit(Value):
    """The lasting evidence, one for each operation id: who settled whose intent, as what, from where to where.

    ``actor`` is who settled it; ``original_actor`` is the worker whose intent it was.
    """

    operation_id: str = field(validator=text)
    kind: SettlementKind = field(validator=a(SettlementKind))
    actor: str = field(validator=text)
    original_actor: str = field(validator=text)
    workflow_id: str = field(validator=text)
    task_id: str = field(validator=text)
    number: int = field(validator=count)
    execution: str = field(validator=text)
    movements: tuple[Movement, ...] = field(validator=many(a(Movement)))
    at: int = field(validator=count)


def audit_of(intent: Intent, settlement: Settlement, actor: str, at: int) -> Audit:
    """Make the audit record of a settlement; the kind is the settlement's, so the two can never disagree."""
    return Audit(
        operation_id=intent.operation_id,
        kind=settlement.kind,
        actor=actor,
        original_actor=intent.actor,
        workflow_id=intent.workflow_id,
        task_id=intent.task_id,
        number=intent.number,
        execution=intent.execution,
        movements=settlement.movements,
        at=at,
    )


DECISIONS = "decision/"
INTENTS = "intent/"
AUDITS = "audit/"


def intent_key(operation_id: str) -> str:
    """Name the record of an intent."""
    return INTENTS + escape(operation_id)


def open_prefix(target: Target) -> str:
    """Name what holds the open intents of one target and of no other."""
    return f"open/{target_key(target)}/"


def open_key(target: Target, operation_id: str) -> str:
    """Name the pointer by which a sweep of the target finds an intent."""
    return open_prefix(target) + escape(operation_id)


def operation_of(target: Target, key: str) -> str:
    """Read the operation id back from a pointer's key."""
    return unescape(key.removeprefix(open_prefix(target)))


def prepared_key(operation_id: str) -> str:
    """Name the plan of an exclusive recovery."""
    return f"prepared/{escape(operation_id)}"


def settled_key(operation_id: str) -> str:
    """Name the settlement of an operation."""
    return f"settled/{escape(operation_id)}"


def audit_key(operation_id: str) -> str:
    """Name the audit record of an operation."""
    return AUDITS + escape(operation_id)


def maintained_prefix(target: Target, parent: CommitRef) -> str:
    """Name what holds the accepted maintenance that was published on one commit of one target, and nothing else.

    By the parent, so that a writer goes from its input to the head and never meets what is older.
    """
    return f"maintained/{target_key(target)}/{escape(parent)}/"


def maintained_key(target: Target, record: Maintained) -> str:
    """Name the record of one accepted maintenance publication."""
    return maintained_prefix(target, record.parent) + escape(record.ref)


Record: TypeAlias = Intent | Prepared | Settlement | Audit
R = TypeVar("R", Intent, Prepared, Settlement, Audit)


@frozen(cache_hash=True, repr=False)
class Unreadable(Value):
    """A record stands under this key and this program must not guess what it says."""

    key: str = field(validator=text)
    reason: str = field(validator=text)

    def __str__(self) -> str:
        return f"the record at {self.key} cannot be read: {self.reason}"


def encode(record: Record | Maintained) -> str:
    """Write a record as text; equal records give equal text."""
    return codec.dumps(record)


def pointer(operation_id: str) -> str:
    """Write what stands under an open key: nothing but whose intent it is, so that the record is always read afresh."""
    return json.dumps({"schema": codec.SCHEMA, "operation_id": operation_id}, sort_keys=True)


def decode(kind: type[R], entry: Entry) -> R | Unreadable:
    """Read the record an entry holds, or say why it cannot be read."""
    try:
        record = codec.loads(entry.value, kind)
    except CodecError as problem:
        return Unreadable(entry.key, str(problem))
    expected = _KEYS[kind](record.operation_id)
    return record if entry.key == expected else Unreadable(entry.key, f"what it says belongs under {expected}")


def decode_maintained(target: Target, entry: Entry) -> Maintained | Unreadable:
    """Read one accepted maintenance publication of a target, or say why it cannot be read."""
    try:
        record = codec.loads(entry.value, Maintained)
    except CodecError as problem:
        return Unreadable(entry.key, str(problem))
    expected = maintained_key(target, record)
    return record if entry.key == expected else Unreadable(entry.key, f"what it says belongs under {expected}")


_KEYS: Mapping[type[Any], Callable[[str], str]] = {
    Intent: intent_key,
    Prepared: prepared_key,
    Settlement: settled_key,
    Audit: audit_key,
}
