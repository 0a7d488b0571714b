"""The lease machine: do I still hold the lock, and for how long may I act.

Theory of operation
-------------------
1. A lock is a key bound to a lease. Having it is not enough: the token record is swapped to the next number, and only
   then is the lock held. The record outlives leases and processes, so its number only grows, and it says whether the
   last holder released or merely vanished (W-24).
2. Try once (W-17). Busy is an end, not a wait. An answer that is missing while acquiring means not held (N-04), and the
   lease is given back so that the next one need not wait for it to run out.
3. The local deadline is counted from the moment a request was *sent*, minus a margin, so it is over before the store's
   is (S-23). A renewal whose answer arrives after the old deadline does not bring the lease back: in between, this
   process had to count it as lost, and may have said so.
4. Lost is absorbing (S-25) and immediate: the step that learns of it returns the lost state and asks for nothing, so
   nobody can see the cause before the effect (T-W3). The lease is left to run out; the record stays unreleased, and the
   successor waits.
5. Release is a swap on condition that the record is still ours, then the end of our own lease. There is no delete of a
   key by name anywhere (F-10): it could remove a successor's lock.

The runtime feeds ``Ticked`` as long as ``hold`` gives something. It proves nothing about requests that are already on
their way when the lease is lost; the successor's wait and the store's barrier do.
"""

from __future__ import annotations

from perago_core.lease import messages as m
from perago_core.lease.state import (
    FAILURES_MAX,
    REMEMBER,
    RENEWAL_PART,
    LeaseKnown,
    LeaseRequest,
    LeaseState,
    Phase,
    record_of,
)
from perago_core.machine.engine import Table
from perago_core.machine.rows import ALWAYS, Ask, Definition, Event, Fact, Row, Step, asks, when


def _time(request: LeaseRequest, known: LeaseKnown, event: m.Ticked | m.TokenTaken | m.KeepAliveUnknown) -> str:
    if event.now >= known.until:
        return "over"
    return "due" if event.now - known.sent_at > request.ttl * RENEWAL_PART else "fresh"


def _answer(_request: LeaseRequest, known: LeaseKnown, event: m.KeptAlive) -> str:
    return "in time" if event.now < known.until_before else "late"


def _holder(request: LeaseRequest, known: LeaseKnown, event: m.LockStood) -> str:
    # Owner and lease. By the process, two executions in one worker would share a lock (T-W12). By the owner alone, a
    # lock that an earlier lease of ours still holds would be taken for this one's, and vanish with the earlier lease.
    return "mine" if (event.owner, event.lease) == (request.owner, known.lease) else "other"


def _failures(_request: LeaseRequest, known: LeaseKnown, _event: Event) -> str:
    return "few" if known.failures < FAILURES_MAX else "many"


FACTS = (
    Fact("holder", ("mine", "other"), _holder),
    Fact("time", ("fresh", "due", "over"), _time),
    Fact("answer", ("in time", "late"), _answer),
    Fact("failures", ("few", "many"), _failures),
)


@asks(m.Grant)
def grant(request: LeaseRequest, _known: LeaseKnown, _event: Event | None) -> m.Grant:
    """Ask for a lease."""
    return m.Grant(request.ttl)


@asks(m.CreateLock)
def create_lock(_request: LeaseRequest, known: LeaseKnown, _event: Event) -> m.CreateLock:
    """Bind the lock to the lease."""
    return m.CreateLock(known.lease)


@asks(m.ReadToken)
def read_token(_request: LeaseRequest, _known: LeaseKnown, _event: Event) -> m.ReadToken:
    """Read the last holder's record."""
    return m.ReadToken()


@asks(m.TakeToken)
def take_token(request: LeaseRequest, known: LeaseKnown, _event: Event) -> m.TakeToken:
    """Swap it for ours."""
    return m.TakeToken(known.standing, record_of(request, known))


@asks(m.KeepAlive)
def keep_alive(_request: LeaseRequest, known: LeaseKnown, _event: Event) -> m.KeepAlive:
    """Renew."""
    return m.KeepAlive(known.lease)


@asks(m.MarkReleased)
def mark_released(request: LeaseRequest, known: LeaseKnown, _event: Event) -> m.MarkReleased:
    """Say in our record that we are done."""
    return m.MarkReleased(record_of(request, known))


@asks(m.Revoke)
def revoke(_request: LeaseRequest, known: LeaseKnown, _event: Event) -> m.Revoke:
    """Give the lease back."""
    return m.Revoke(known.lease)


_VALID = ("fresh", "due")

ROWS = (
    # id, waiting for, when, if, then wait for, and ask for
    Row("G1", Phase.LEASE, m.Granted, ALWAYS, Phase.LOCK, create_lock),
    Row("G2", Phase.LEASE, m.GrantRefused, ALWAYS, Phase.NOT_HELD),
    Row("G3", Phase.LEASE, m.GrantUnknown, ALWAYS, Phase.NOT_HELD),

    Row("L1", Phase.LOCK, m.LockStood, when(holder="mine"), Phase.TOKEN, read_token),
    Row("L2", Phase.LOCK, m.LockStood, when(holder="other"), Phase.YIELD, revoke),
    Row("L3", Phase.LOCK, m.LockRefused, ALWAYS, Phase.RETREAT, revoke),
    Row("L4", Phase.LOCK, m.LockUnknown, ALWAYS, Phase.RETREAT, revoke),

    Row("T1", Phase.TOKEN, m.TokenAbsent, ALWAYS, Phase.OWN_TOKEN, take_token),
    Row("T2", Phase.TOKEN, m.TokenFound, ALWAYS, Phase.OWN_TOKEN, take_token),
    Row("T3", Phase.TOKEN, m.TokenUnreadable, ALWAYS, Phase.RETREAT, revoke),
    Row("T4", Phase.TOKEN, m.TokenReadUnknown, ALWAYS, Phase.RETREAT, revoke),

    Row("O1", Phase.OWN_TOKEN, m.TokenTaken, when(time=_VALID), Phase.HELD),
    Row("O2", Phase.OWN_TOKEN, m.TokenTaken, when(time="over"), Phase.LOST),
    Row("O3", Phase.OWN_TOKEN, m.TokenRefused, ALWAYS, Phase.LOST),
    Row("O4", Phase.OWN_TOKEN, m.TokenUnknown, ALWAYS, Phase.RETREAT, revoke),

    Row("H1", Phase.HELD, m.Ticked, when(time="fresh"), Phase.HELD),
    Row("H2", Phase.HELD, m.Ticked, when(time="due"), Phase.RENEWAL, keep_alive),
    Row("H3", Phase.HELD, m.Ticked, when(time="over"), Phase.LOST),
    Row("H4", Phase.HELD, m.ReleaseWanted, ALWAYS, Phase.RELEASE_MARK, mark_released),

    Row("K1", Phase.RENEWAL, m.Ticked, when(time=_VALID), Phase.RENEWAL),
    Row("K2", Phase.RENEWAL, m.Ticked, when(time="over"), Phase.LOST),
    Row("K3", Phase.RENEWAL, m.KeptAlive, when(answer="in time"), Phase.HELD),
    Row("K4", Phase.RENEWAL, m.KeptAlive, when(answer="late"), Phase.LOST),
    Row("K5", Phase.RENEWAL, m.LeaseGone, ALWAYS, Phase.LOST),
    Row("K6", Phase.RENEWAL, m.KeepAliveUnknown, when(time=_VALID, failures="few"), Phase.HELD),
    Row("K7", Phase.RENEWAL, m.KeepAliveUnknown, when(time=_VALID, failures="many"), Phase.LOST),
    Row("K8", Phase.RENEWAL, m.KeepAliveUnknown, when(time="over"), Phase.LOST),

    Row("M1", Phase.RELEASE_MARK, m.ReleaseMarked, ALWAYS, Phase.RELEASE, revoke),
    Row("M2", Phase.RELEASE_MARK, m.ReleaseRefused, ALWAYS, Phase.LOST),
    Row("M3", Phase.RELEASE_MARK, m.ReleaseUnknown, ALWAYS, Phase.RELEASE, revoke),

    Row("R1", Phase.RELEASE, m.LeaseRevoked, ALWAYS, Phase.RELEASED),
    Row("R2", Phase.RELEASE, m.LeaseRevokeRefused, ALWAYS, Phase.RELEASED),
    Row("R3", Phase.RELEASE, m.LeaseRevokeUnknown, ALWAYS, Phase.RELEASED),

    Row("Y1", Phase.YIELD, m.LeaseRevoked, ALWAYS, Phase.BUSY),
    Row("Y2", Phase.YIELD, m.LeaseRevokeRefused, ALWAYS, Phase.BUSY),
    Row("Y3", Phase.YIELD, m.LeaseRevokeUnknown, ALWAYS, Phase.BUSY),

    Row("N1", Phase.RETREAT, m.LeaseRevoked, ALWAYS, Phase.NOT_HELD),
    Row("N2", Phase.RETREAT, m.LeaseRevokeRefused, ALWAYS, Phase.NOT_HELD),
    Row("N3", Phase.RETREAT, m.LeaseRevokeUnknown, ALWAYS, Phase.NOT_HELD),
)  # fmt: skip


def _opening(_request: LeaseRequest) -> tuple[LeaseKnown, Ask | None]:
    return LeaseKnown(), grant


LEASE: Table[LeaseRequest, LeaseKnown] = Table(
    Definition(
        name="lease",
        phases=Phase,
        initial=Phase.LEASE,
        terminal=frozenset({Phase.RELEASED, Phase.BUSY, Phase.NOT_HELD, Phase.LOST}),
        facts=FACTS,
        rows=ROWS,
        waits={
            Phase.LEASE: (m.Grant,),
            Phase.LOCK: (m.CreateLock,),
            Phase.TOKEN: (m.ReadToken,),
            Phase.OWN_TOKEN: (m.TakeToken,),
            Phase.RENEWAL: (m.KeepAlive,),
            Phase.RELEASE_MARK: (m.MarkReleased,),
            Phase.RELEASE: (m.Revoke,),
            Phase.YIELD: (m.Revoke,),
            Phase.RETREAT: (m.Revoke,),
        },
        remember=REMEMBER,
        opening=_opening,
        interrupts=(m.Ticked, m.ReleaseWanted),
    ),
)


def start(request: LeaseRequest) -> Step[LeaseRequest, LeaseKnown]:
    """Begin: nothing is held, and a lease is asked for."""
    return LEASE.start(request)


def step(state: LeaseState, event: Event) -> Step[LeaseRequest, LeaseKnown]:
    """Advance by one event, or raise ``ProtocolError`` and leave everything as it was."""
    return LEASE.step(state, event)
