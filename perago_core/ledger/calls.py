"""How the ledger talks to the coordination store: conversations that yield calls and return an answer.

``arm`` before the effect, ``confirm`` after it, ``settle`` at the end. Every write is create-if-absent or a conditional
swap of a text only we can have written, so a write whose answer was lost is sent again without harm, and what stands is
compared with what we wanted: equal is success whoever wrote it, different is somebody else's (T-W9, T-O6, T-O24).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from attrs import evolve

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Talk, charged
from perago_core.ledger import records
from perago_core.ledger.records import (
    Audit,
    Intent,
    IntentState,
    Movement,
    Prepared,
    R,
    Settlement,
    SettlementKind,
    Unreadable,
    audit_of,
    decode,
    decode_maintained,
    encode,
    pointer,
)
from perago_core.ports import Coordination, Entry
from perago_core.values import CommitRef, Maintained, Operation, Target

T = TypeVar("T")
P = ParamSpec("P")

CHARGE = "ledger"

#: How often one call is sent at once while its answer stays unknown. Nothing that moves a branch is (K-15).
TRIES = 3

#: How many maintained commits a writer follows from its input. One that is further behind starts again from the head.
MAINTAINED_LIMIT = 64


def arm(intent: Intent) -> Talk[Intent]:
    """Make an intent durable: its record first, then one pointer for each target.

    ``Done`` means that every sweep of every target will find it, so the effect may follow (R-01, S-18). After any other
    answer the effect must not follow; what may stand by then settles as not published once the attempt has ended.
    """
    if intent.state is not IntentState.ARMED:
        raise ValueError(f"only an armed intent can be armed, {intent.operation_id} is {intent.state.value}")
    # The record comes before its pointers. The other way round, a crash in between leaves a pointer to nothing, which
    # looks like an intent that somebody has just closed.
    entries = [(records.intent_key(intent.operation_id), encode(intent))]
    entries += _pointers(intent.operation_id, [each.target for each in intent.targets])
    for key, value in entries:
        answer = yield from _own(key, value)
        if not isinstance(answer, Done):
            return answer
    return Done(intent)


def confirm(intent: Intent, published: Mapping[Target, CommitRef]) -> Talk[Intent]:
    """Write the published ref of every target into an armed intent and give the confirmed one.

    ``NotDone`` says that the record is no longer the armed one, usually because recovery has settled it: nothing is
    written then, a settled intent never becomes confirmed (S-21). A missing or foreign target is a ``ValueError``.
    """
    if intent.state is not IntentState.ARMED or set(published) != {each.target for each in intent.targets}:
        raise ValueError(f"confirming {intent.operation_id} needs an armed intent and one ref for each of its targets")
    confirmed = evolve(
        intent,
        state=IntentState.CONFIRMED,
        targets=tuple(evolve(each, confirmed=published[each.target]) for each in intent.targets),
    )
    key, wanted = records.intent_key(intent.operation_id), encode(confirmed)
    answer = yield from _change(key, encode(intent), wanted)
    if not isinstance(answer, Done):
        return answer
    return (
        Done(confirmed) if answer.value == wanted else NotDone(f"the record at {key} is not the armed intent any more")
    )


def settle(
    intent: Intent,
    kind: SettlementKind,
    movements: tuple[Movement, ...],
    actor: str,
    at: int,
) -> Talk[Settlement]:
    """Settle an intent: settlement, audit record, then close, in this order, each of them at most once.

    ``Done`` gives the settlement that stands, which is the first one written: compare its kind (S-21). Failing to
    close changes nothing, the next sweep does it (R-04).
    """
    if [each.target for each in movements] != [each.target for each in intent.targets]:
        raise ValueError(f"settling {intent.operation_id} needs one movement for each of its targets, in their order")
    stands = yield from write_settlement(Settlement(intent.operation_id, kind, movements))
    if not isinstance(stands, Done):
        return stands
    audited = yield from write_audit(intent, stands.value, actor, at)
    if not isinstance(audited, Done):
        return audited
    yield from close(stands.value, intent)
    return stands


def list_open(target: Target) -> Talk[tuple[str, ...]]:
    """List the operation ids of the open intents of one target, in the order of their keys."""
    answer = yield from _insist(Coordination.list, records.open_prefix(target))
    if not isinstance(answer, Done):
        return answer
    entries: tuple[Entry, ...] = answer.value
    return Done(tuple(sorted(records.operation_of(target, entry.key) for entry in entries)))


def list_intents() -> Talk[tuple[Intent, ...]]:
    """Read the record of every intent there is, found by a target or not; one that cannot be read refuses them all."""
    answer = yield from _insist(Coordination.list, records.INTENTS)
    if not isinstance(answer, Done):
        return answer
    entries: tuple[Entry, ...] = answer.value
    intents: list[Intent] = []
    for entry in entries:
        intent = decode(Intent, entry)
        if isinstance(intent, Unreadable):
            return NotDone(str(intent))
        intents.append(intent)
    return Done(tuple(intents))


def read_epoch() -> Talk[int]:
    """Read the epoch of the policy that is in force; 0 when nothing was ever decided.

    A key that is no decision is refused, not skipped: it may be a newer program's newest decision.
    """
    answer = yield from _insist(Coordination.list, records.DECISIONS)
    if not isinstance(answer, Done):
        return answer
    entries: tuple[Entry, ...] = answer.value
    epochs = [0]
    for entry in entries:
        digits = entry.key.removeprefix(records.DECISIONS)
        if not (digits.isascii() and digits.isdecimal()):
            return NotDone(f"{entry.key!r} is not the key of a decision")
        epochs.append(int(digits))
    return Done(max(epochs))


def maintained(target: Target, since: CommitRef) -> Talk[tuple[Maintained, ...]]:
    """Follow the accepted maintenance of one target from a commit on; a record that cannot be read refuses it all.

    One call for each commit that was maintained since, whatever came before it. After ``MAINTAINED_LIMIT`` of them the
    rest stays unread, and what is not read is not proven.
    """
    followed: dict[CommitRef, None] = {}
    ahead = [since]
    readable: list[Maintained] = []
    while ahead and len(followed) < MAINTAINED_LIMIT:
        parent = ahead.pop(0)
        if parent in followed:
            continue
        followed[parent] = None
        answer = yield from _insist(Coordination.list, records.maintained_prefix(target, parent))
        if not isinstance(answer, Done):
            return answer
        entries: tuple[Entry, ...] = answer.value
        for entry in entries:
            record = decode_maintained(target, entry)
            if isinstance(record, Unreadable):
                return NotDone(str(record))
            readable.append(record)
            ahead.append(record.ref)
    return Done(tuple(readable))


def newest_maintained(target: Target, since: CommitRef) -> Talk[CommitRef]:
    """Return the commit that accepted maintenance has led to from this one; the same one if there was none.

    All on the way has the logical content of the first, so a maintenance may begin from the last instead: whoever lost
    a race begins again from the winner (H-12). Where the way parts, because somebody has reset the branch, it ends.
    """
    followed = yield from maintained(target, since)
    if not isinstance(followed, Done):
        return followed
    after: dict[CommitRef, list[CommitRef]] = {}
    for record in followed.value:
        after.setdefault(record.parent, []).append(record.ref)
    at = since
    while len(after.get(at, ())) == 1:
        (at,) = after.pop(at)
    return Done(at)


# ---------------------------------------------------------------------------------------------------------------------
# The single steps, as recovery takes them


def read_record(kind: type[R], key: str) -> Talk[R | Unreadable | None]:
    """Read one record; ``None`` says that there is none."""
    answer = yield from _insist(Coordination.get, key)
    if not isinstance(answer, Done):
        return answer
    return Done(None if answer.value is None else decode(kind, answer.value), answer.operations)


def write_prepared(prepared: Prepared) -> Talk[Prepared]:
    """Write down what is about to be moved and give the plan that stands, which may be an earlier one."""
    return (yield from _first(Prepared, records.prepared_key(prepared.operation_id), prepared))


def write_settlement(settlement: Settlement) -> Talk[Settlement]:
    """Write a settlement and give the one that stands: the first."""
    return (yield from _first(Settlement, records.settled_key(settlement.operation_id), settlement))


def write_audit(intent: Intent, settlement: Settlement, actor: str, at: int) -> Talk[Audit]:
    """Write the audit record of a settlement and give the one that stands; another sweep's serves as well (L-07).

    Accepted maintenance is written down first: were it done after the audit, a crash in between would lose it, because
    an audited intent is only closed.
    """
    if intent.operation is Operation.MAINTENANCE and settlement.kind.accepts:
        for each in settlement.movements:
            if each.after is not None and each.moves:
                record = Maintained(each.before, each.after)
                answer = yield from _own(records.maintained_key(each.target, record), encode(record))
                if not isinstance(answer, Done):
                    return answer
    ours = audit_of(intent, settlement, actor, at)
    stands = yield from _first(Audit, records.audit_key(intent.operation_id), ours)
    if isinstance(stands, Done) and evolve(stands.value, actor=actor, at=at) != ours:
        return NotDone(f"the audit record of {intent.operation_id} contradicts its settlement: {stands.value}")
    return stands


def close(settlement: Settlement, intent: Intent | None, *, planned: bool = False) -> Talk[None]:
    """Take a settled intent off the ledger: record first, pointers last, so that a crash in between leaves it listed.

    ``planned`` says that an exclusive recovery may have left its plan; it goes too.
    """
    operation_id = settlement.operation_id
    if intent is not None:
        answer = yield from forget(intent)
        if not isinstance(answer, Done):
            return answer
    entries = _pointers(operation_id, [each.target for each in settlement.movements])
    if planned:
        plan = yield from _insist(Coordination.get, records.prepared_key(operation_id))
        if not isinstance(plan, Done):
            return plan
        if plan.value is not None:
            entries.insert(0, (plan.value.key, plan.value.value))
    for key, value in entries:
        removed = yield from _change(key, value, None)
        if not isinstance(removed, Done):
            return removed
        if removed.value is not None:
            return NotDone(f"what stands at {key} is not what this program wrote there, so it is kept")
    return Done(None)


def _pointers(operation_id: str, targets: list[Target]) -> list[tuple[str, str]]:
    return [(records.open_key(target, operation_id), pointer(operation_id)) for target in targets]


def forget(intent: Intent) -> Talk[None]:
    """Remove the record of an intent, also when its owner has confirmed it since we read it; keep anything else."""
    key, known = records.intent_key(intent.operation_id), encode(intent)
    for _ in range(TRIES):
        answer = yield from _change(key, known, None)
        if not isinstance(answer, Done):
            return answer
        if answer.value is None:
            return Done(None)
        if isinstance(decode(Intent, Entry(key, answer.value)), Unreadable):
            break
        known = answer.value
    return NotDone(f"what stands at {key} is not the intent that was settled, so it is kept")


def _first(kind: type[R], key: str, record: R) -> Talk[R]:
    """Create a record unless one stands, and give the one that stands."""
    answer = yield from _insist(Coordination.create_if_absent, key, encode(record))
    if not isinstance(answer, Done):
        return answer
    stands = decode(kind, answer.value)
    return NotDone(str(stands)) if isinstance(stands, Unreadable) else Done(stands)


def _own(key: str, value: str) -> Talk[None]:
    """Create exactly this entry. One that differs is not ours, however it came there."""
    answer = yield from _insist(Coordination.create_if_absent, key, value)
    if not isinstance(answer, Done):
        return answer
    return Done(None) if answer.value.value == value else NotDone(f"another entry stands at {key}")


def _change(key: str, expected: str, value: str | None) -> Talk[str | None]:
    """Swap and give what stands afterwards. ``False`` may be the answer to our own second try, so it is looked up."""
    answer = yield from _insist(Coordination.swap, key, expected, value)
    if not isinstance(answer, Done):
        return answer
    if answer.value:
        return Done(value)
    found = yield from _insist(Coordination.get, key)
    if not isinstance(found, Done):
        return found
    return Done(None if found.value is None else found.value.value)


def _insist(method: Callable[Concatenate[Any, P], Answer[T]], *args: P.args, **kwargs: P.kwargs) -> Talk[T]:
    """Call, and call again while the answer is unknown; every call made here may be made twice."""
    answer: Answer[T] = Unknown("never asked")
    for _ in range(TRIES):
        answer = yield from charged(CHARGE, method, *args, **kwargs)
        if not isinstance(answer, Unknown):
            break
    return answer
