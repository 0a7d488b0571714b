"""What a lease is asked for, what has been learnt about it, and what each event teaches.

Records only: nothing here chooses a way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from perago_core.checks import a, seconds, text
from perago_core.lease import events as e
from perago_core.rows import Event, State
from perago_core.value import Value
from perago_core.values import Target

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


def record_of(request: LeaseRequest, known: LeaseKnown) -> e.TokenRecord:
    """Give the record that is ours while the lock is."""
    return e.TokenRecord(known.token, request.owner, released=False)


def _deadline(request: LeaseRequest, sent_at: float) -> float:
    # From the sending, not from the answer: a grant that took four seconds to come back has four seconds less to live.
    return sent_at + request.ttl - request.margin


def _granted(state: LeaseState, event: e.Granted) -> LeaseKnown:
    until = _deadline(state.subject, event.sent_at)
    return evolve(state.known, lease=event.lease, sent_at=event.sent_at, until=until)


def _token_absent(state: LeaseState, _event: e.TokenAbsent) -> LeaseKnown:
    return evolve(state.known, clean=True, token=1)


def _token_found(state: LeaseState, event: e.TokenFound) -> LeaseKnown:
    # Exactly one more than what was read, never than some greatest number seen elsewhere (T-W5).
    token = event.record.token + 1
    return evolve(state.known, clean=event.record.released, standing=event.standing, token=token)


def _kept_alive(state: LeaseState, event: e.KeptAlive) -> LeaseKnown:
    return evolve(
        state.known,
        sent_at=event.sent_at,
        until=_deadline(state.subject, event.sent_at),
        until_before=state.known.until,
        failures=0,
        trouble="",
    )


def _keep_alive_unknown(state: LeaseState, event: e.KeepAliveUnknown) -> LeaseKnown:
    return evolve(state.known, failures=state.known.failures + 1, trouble=event.reason)


def _troubled(state: LeaseState, event: e.Because) -> LeaseKnown:
    return evolve(state.known, trouble=event.reason)


def _not_revoked(state: LeaseState, event: e.Because) -> LeaseKnown:
    # Why the lease is given back matters more than that it was not taken back.
    return evolve(state.known, trouble=state.known.trouble or event.reason)


_TROUBLES = (
    e.GrantRefused,
    e.GrantUnknown,
    e.LockRefused,
    e.LockUnknown,
    e.TokenUnreadable,
    e.TokenReadUnknown,
    e.TokenRefused,
    e.TokenUnknown,
    e.LeaseGone,
    e.ReleaseRefused,
    e.ReleaseUnknown,
)

REMEMBER: Mapping[type[Event], Callable[[LeaseState, Any], LeaseKnown]] = {
    **dict.fromkeys(_TROUBLES, _troubled),
    e.Granted: _granted,
    e.LockStood: lambda state, event: evolve(state.known, holder=event.owner),
    e.TokenAbsent: _token_absent,
    e.TokenFound: _token_found,
    e.KeptAlive: _kept_alive,
    e.KeepAliveUnknown: _keep_alive_unknown,
    e.ReleaseMarked: lambda state, _: evolve(state.known, trouble=""),
    e.LeaseRevokeRefused: _not_revoked,
    e.LeaseRevokeUnknown: _not_revoked,
}
