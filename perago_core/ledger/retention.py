"""Retention: how long the ledger keeps what is over, and how that is removed, a part at a time.

A publication leaves a settlement, an audit record and, if it was maintenance, the record that later writers go over.
No publication reads what is older than its input, so keeping all of it costs room only; but a coordination store has
little of that. The audit record is found last and goes last: it says when, and what else there is to remove.

What is not over stays, however old: an intent that somebody may still settle, and a settlement that says of a branch
what nothing else does (``SettlementKind.is_kept_for_good``). A settlement that is gone can be written anew by a process
that was paused in the middle of settling for longer than ``Retention.settled``; it says what that process saw, and
moves nothing.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen

from perago_core.answers import Answer, Done
from perago_core.calls import Talk, charged, wall_clock
from perago_core.ledger import records
from perago_core.ledger.calls import CHARGE
from perago_core.ledger.records import Audit, Unreadable, decode, encode
from perago_core.ports import Coordination, Entry
from perago_core.value import Value, count, line, maybe
from perago_core.values import Maintained

_SECOND = 1000
_DAY = 24 * 3600 * _SECOND


@frozen(cache_hash=True, repr=False)
class Retention(Value):
    """How many milliseconds after its settlement what is left of a publication stays; ``None``: for ever.

    ``settled``: its settlement, and what it says to writers over maintenance. Whoever runs for longer than that from
    one input is refused where maintenance came between. ``audit``: the evidence. It is kept for longer, on purpose.
    """

    settled: int | None = field(default=30 * _DAY, validator=maybe(count))
    audit: int | None = field(default=365 * _DAY, validator=maybe(count))

    def __attrs_post_init__(self) -> None:
        shorter = self.audit is not None and (self.settled is None or self.audit < self.settled)
        if shorter:
            message = (
                f"the audit record is kept at least as long as the settlement it is evidence of, expected "
                f"{self.settled} ms or more, found {self.audit} ms: raise audit or lower settled"
            )
            raise ValueError(message)


@frozen(cache_hash=True, repr=False)
class Collected(Value):
    """What one part of the ledger gave: how many records of each kind went, and the key after which the next begins.

    A blank ``after`` says that the end was reached.
    """

    looked_at: int = field(default=0, validator=count)
    settlements: int = field(default=0, validator=count)
    maintained: int = field(default=0, validator=count)
    audits: int = field(default=0, validator=count)
    after: str = field(default="", validator=line)

    def __add__(self, other: Collected) -> Collected:
        """Count both; go on where the second ended."""
        return Collected(
            self.looked_at + other.looked_at,
            self.settlements + other.settlements,
            self.maintained + other.maintained,
            self.audits + other.audits,
            other.after,
        )

    @property
    def removed(self) -> int:
        """Count all that went."""
        return self.settlements + self.maintained + self.audits


def collect(retention: Retention, *, after: str = "", limit: int, dry_run: bool = False) -> Talk[Collected]:
    """Look at no more than ``limit`` audit records and remove what is over; with ``dry_run`` only count it.

    Several may do this at once, and any of them may die: each removal is conditional on the very text that was read.
    """
    now = yield from wall_clock()
    listed = yield from charged(CHARGE, Coordination.list, records.AUDITS, after, limit)
    if not isinstance(listed, Done):
        return listed
    entries: tuple[Entry, ...] = listed.value
    total = Collected(len(entries), after=entries[-1].key if len(entries) == limit else "")
    for entry in entries:
        audit = decode(Audit, entry)
        if isinstance(audit, Unreadable) or audit.kind.is_kept_for_good:
            continue
        if _is_past(now - audit.at, retention.settled):
            gone = yield from _collect_one(audit, entry, dry_run, _is_past(now - audit.at, retention.audit))
            if not isinstance(gone, Done):
                return gone
            total = evolve(total + gone.value, after=total.after)
    return Done(total)


def _is_past(age: int, limit: int | None) -> bool:
    return limit is not None and age >= limit


def _collect_one(audit: Audit, entry: Entry, dry_run: bool, with_audit: bool) -> Talk[Collected]:  # noqa: FBT001
    """Remove what one settled operation left: for writers first, then the settlement, then the evidence."""
    settled = yield from _get(records.settled_key(audit.operation_id))
    if not isinstance(settled, Done):
        return settled
    gone = Collected()
    if settled.value is not None:
        is_open = yield from _is_open(audit)
        if not isinstance(is_open, Done):
            return is_open
        if is_open.value:
            return Done(gone)
        for entry_of_ours in (*_maintained(audit), settled.value):
            removed = yield from _remove(entry_of_ours, dry_run=dry_run)
            if not isinstance(removed, Done):
                return removed
            kind = "settlements" if entry_of_ours is settled.value else "maintained"
            gone = evolve(gone, **{kind: getattr(gone, kind) + removed.value})
    if with_audit:
        removed = yield from _remove(entry, dry_run=dry_run)
        if not isinstance(removed, Done):
            return removed
        gone = evolve(gone, audits=removed.value)
    return Done(gone)


def _is_open(audit: Audit) -> Talk[bool]:
    """Return whether the intent, or a pointer to it, still stands: then a sweep is not done with it."""
    pointers = (records.open_key(move.target, audit.operation_id) for move in audit.movements)
    for key in (records.intent_key(audit.operation_id), *pointers):
        found = yield from _get(key)
        if not isinstance(found, Done):
            return found
        if found.value is not None:
            return Done(value=True)
    return Done(value=False)


def _maintained(audit: Audit) -> tuple[Entry, ...]:
    """Return the records that stand if the operation was maintenance; an audit record does not say whether it was."""
    moved = [(move.target, Maintained(move.before, move.after)) for move in audit.movements if move.after is not None]
    return tuple(Entry(records.maintained_key(target, record), encode(record)) for target, record in moved)


def _get(key: str) -> Talk[Entry | None]:
    return charged(CHARGE, Coordination.get, key)


def _remove(entry: Entry, *, dry_run: bool) -> Talk[int]:
    """Remove one entry if it still is what it was, and count it; with ``dry_run`` look whether it is."""
    answer: Answer[Any]
    if dry_run:
        answer = yield from _get(entry.key)
        return Done(int(answer.value == entry)) if isinstance(answer, Done) else answer
    answer = yield from charged(CHARGE, Coordination.swap, entry.key, entry.value, None)
    return Done(int(answer.value)) if isinstance(answer, Done) else answer
