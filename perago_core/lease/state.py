"""What a lease is asked for, what has been learnt about it, and what each event teaches.

Records only: nothing here chooses a way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from perago_core.answers import Event, NotDone, Unknown
from perago_core.lease import messages as m
from perago_core.lease.messages import LeaseHold, TokenRecord
from perago_core.machine import codec
from perago_core.machine.rows import State, Waiting
from perago_core.names import target_key
from perago_core.value import Value, a, line, seconds, text
from perago_core.values import Target


class Phase(Waiting):
    """A phase is named after what is awaited; the last four are the ends."""

    LEASE = "the lease"
    LOCK = "the lock that stands"
    TOKEN = "the last holder's record"  # noqa: S105 - a fencing token is no password
    OWN_TOKEN = "our record, with the next token"  # noqa: S105 - as above
    HELD = "the next tick or the wish to release"
    RENEWAL = "the renewal; the lock is still held"
    RELEASE_MARK = "our record, marked as released"
    RELEASE = "the end of the lease we give back"
    YIELD = "the end of the lease nobody needs, because the lock is another's"
    RETREAT = "the end of the lease after an acquisition that failed"
    RELEASED = "nothing more: given back"
    BUSY = "nothing more: another holds the lock"
    NOT_HELD = "nothing more: it was never ours"
    LOST = "nothing more: it was ours, or nearly, and is no longer"


#: So many renewals without an answer, one after the other, end the lease (W-22).
FAILURES_MAX = 5
#: A renewal is due when more than this part of the time to live has passed since the last good one was sent.
RENEWAL_PART = 1 / 3


@frozen(cache_hash=True, repr=False)
class LeaseRequest(Value):
    """Which lock, for which execution, for how long. ``owner`` is the execution id: a nonce, not a process (T-W12).

    ``margin`` is how much earlier than the store we stop trusting the lease. It must be more than nothing, or a clock
    that runs a little slow outlives the lease (T-W13), and less than ``ttl``. Otherwise ``ValueError``.
    """

    target: Target = field(validator=a(Target))
    owner: str = field(validator=text)
    ttl: float = field(validator=seconds)
    margin: float = field(validator=seconds)

    def __attrs_post_init__(self) -> None:
        if not 0 < self.margin < self.ttl < math.inf:
            message = (
                f"LeaseRequest contradicts itself: margin {self.margin:g} s must be more than 0 and less than "
                f"ttl {self.ttl:g} s, which must end"
            )
            raise ValueError(message)


@frozen(cache_hash=True, repr=False)
class LeaseKnown(Value):
    """Everything learnt since the lease was asked for.

    ``until`` is the local validity deadline and ``until_before`` the one in force before the last good renewal, by
    which that renewal's answer is judged. ``standing`` is the text of the last holder's record, ``token`` our own
    number, and ``failures`` counts the renewals in a row that stayed unanswered.
    """

    lease: str = ""
    sent_at: float = 0.0
    until: float = 0.0
    until_before: float = 0.0
    holder: str = ""
    standing: str | None = None
    token: int = 0
    clean: bool = False
    failures: int = 0
    trouble: str = ""


LeaseState: TypeAlias = State[LeaseRequest, LeaseKnown]


def record_of(request: LeaseRequest, known: LeaseKnown) -> m.TokenRecord:
    """Return the record that is ours while the lock is."""
    return m.TokenRecord(known.token, request.owner, released=False)


def _deadline(request: LeaseRequest, sent_at: float) -> float:
    # From the sending, not from the answer: a grant that took four seconds to come back has four seconds less to live.
    return sent_at + request.ttl - request.margin


def _granted(state: LeaseState, event: m.Granted) -> LeaseKnown:
    until = _deadline(state.subject, event.sent_at)
    return evolve(state.known, lease=event.lease, sent_at=event.sent_at, until=until)


def _token_absent(state: LeaseState, _event: m.TokenAbsent) -> LeaseKnown:
    return evolve(state.known, clean=True, token=1)


def _token_found(state: LeaseState, event: m.TokenFound) -> LeaseKnown:
    # Exactly one more than what was read, never than some greatest number seen elsewhere (T-W5).
    token = event.record.token + 1
    return evolve(state.known, clean=event.record.released, standing=event.standing, token=token)


def _kept_alive(state: LeaseState, event: m.KeptAlive) -> LeaseKnown:
    return evolve(
        state.known,
        sent_at=event.sent_at,
        until=_deadline(state.subject, event.sent_at),
        until_before=state.known.until,
        failures=0,
        trouble="",
    )


def _failed(state: LeaseState, event: NotDone | Unknown) -> LeaseKnown:
    known = state.known
    if state.phase is Phase.RENEWAL and isinstance(event, Unknown):
        return evolve(known, failures=known.failures + 1, trouble=event.reason)
    if state.phase in {Phase.RELEASE, Phase.YIELD, Phase.RETREAT}:
        # Why the lease is given back matters more than that it was not taken back.
        return evolve(known, trouble=known.trouble or event.reason)
    return evolve(known, trouble=event.reason)


REMEMBER: Mapping[type[Event], Callable[[LeaseState, Any], LeaseKnown]] = {
    NotDone: _failed,
    Unknown: _failed,
    m.Granted: _granted,
    m.LockStood: lambda state, event: evolve(state.known, holder=event.owner),
    m.TokenAbsent: _token_absent,
    m.TokenFound: _token_found,
    m.KeptAlive: _kept_alive,
    m.ReleaseMarked: lambda state, _: evolve(state.known, trouble=""),
}


@frozen(cache_hash=True, repr=False)
class Holder(Value):
    """Who holds a lock, and by which lease."""

    owner: str = field(validator=line)
    lease: str = field(validator=line)


def lock_key(target: Target) -> str:
    """Name the lock of a target; two targets never share one (W-18)."""
    return f"lock/{target_key(target)}"


def token_key(target: Target) -> str:
    """Name the record of a target's holders."""
    return f"token/{target_key(target)}"


def encode_holder(owner: str, lease: str) -> str:
    """Write who holds a lock, and by which lease."""
    return codec.dumps(Holder(owner, lease))


def decode_holder(text: str) -> tuple[str, str]:
    """Read owner and lease of a lock, or raise ``CodecError``."""
    holder = codec.loads(text, Holder)
    return holder.owner, holder.lease


def encode_token(record: TokenRecord) -> str:
    """Write a holder's record. The same record is always the same text, so that its writer can swap it later."""
    return codec.dumps(record)


def decode_token(text: str) -> TokenRecord:
    """Read a holder's record, or raise ``CodecError``."""
    return codec.loads(text, TokenRecord)


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
    """Return what is held; ``None`` unless the lock is ours. Its ``until`` must still be compared with the time."""
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
