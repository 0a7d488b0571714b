"""What a lease machine's state means to others: what is held right now, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from attrs import field, frozen

from perago_core.checks import a, line
from perago_core.lease.events import LeaseHold
from perago_core.lease.known import LeaseKnown, LeaseState
from perago_core.lease.phases import Phase
from perago_core.value import Value


class LeaseEnd(Enum):
    """The four ways it ends. Only the last one was ever, or nearly, ours against our will."""

    RELEASED = "released"
    BUSY = "busy"
    NOT_HELD = "not held"
    LOST = "lost"


@frozen(cache_hash=True, repr=False)
class LeaseOutcome(Value):
    """How it ended and why; a clean release has no reason to give."""

    end: LeaseEnd = field(validator=a(LeaseEnd))
    reason: str = field(default="", validator=line)


def hold(state: LeaseState) -> LeaseHold | None:
    """Give what is held; ``None`` unless the lock is ours. Its ``until`` must still be compared with the time."""
    if state.phase not in {Phase.HELD, Phase.RENEWAL}:
        return None
    known = state.known
    return LeaseHold(known.lease, known.token, known.until, known.clean)


def outcome(state: LeaseState) -> LeaseOutcome | None:
    """Say how it ended; ``None`` while it has not."""
    ended = _ENDS.get(state.phase)
    if ended is None:
        return None
    end, explain = ended
    return LeaseOutcome(end, explain(state.known))


def _trouble(known: LeaseKnown) -> str:
    return known.trouble


def _busy(known: LeaseKnown) -> str:
    return f"the lock is held by {known.holder or 'somebody whose record cannot be read'}"


def _lost(known: LeaseKnown) -> str:
    return known.trouble or "the local validity deadline passed before a renewal was confirmed"


_ENDS: Mapping[Enum, tuple[LeaseEnd, Callable[[LeaseKnown], str]]] = {
    Phase.RELEASED: (LeaseEnd.RELEASED, _trouble),
    Phase.BUSY: (LeaseEnd.BUSY, _busy),
    Phase.NOT_HELD: (LeaseEnd.NOT_HELD, _trouble),
    Phase.LOST: (LeaseEnd.LOST, _lost),
}
