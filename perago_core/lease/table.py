"""The lease machine: do I still hold the lock, and for how long may I act.

Theory of operation
-------------------
1. A lock is a key bound to a lease. Having it is not enough: the token record is swapped to the next number, and only
   then is the lock held. The record outlives leases and processes, so its number only grows, and it says whether the
   last holder released or merely vanished (W-24).
2. Try once (W-17). Busy is an end, not a wait; whoever has time begins anew, as an attempt does. An answer that is
   missing while acquiring means not held (N-04), and the lease is given back so that the next one need not wait for it
   to run out.
3. The local deadline is counted from the moment a request was *sent*, minus a margin, so it is over before the store's
   is (S-23). A renewal whose answer arrives after the old deadline does not bring the lease back: in between, this
   process had to count it as lost, and may have said so.
4. Lost is absorbing (S-25) and immediate: the step that learns of it returns the lost state and asks for nothing, so
   nobody can see the cause before the effect (T-W3). The lease is left to run out; the record stays unreleased, and the
   successor waits.
5. Release is a swap on condition that the record is still ours, then the end of our own lease. There is no delete of a
   key by name anywhere (F-10): it could remove a successor's lock.

The runtime feeds ``Ticked`` as long as ``hold`` gives something: beside the line that works under the lease, because
one request of that line may take longer than the lease lives. A tick while a renewal is on its way changes nothing, so
both may tick. It proves nothing about requests that are already on their way when the lease is lost; the successor's
wait and the store's barrier do.
"""

from __future__ import annotations

from perago_core.answers import Event, NotDone, Unknown
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
from perago_core.machine.rows import ALWAYS, Ask, Definition, Fact, On, Step, asks, wait, when


def _time(request: LeaseRequest, known: LeaseKnown, event: m.Ticked | m.TokenTaken | Unknown) -> str:
    if event.now >= known.until:
        return "over"
    wanted = event.need if isinstance(event, m.Ticked) else 0.0
    due = event.now - known.sent_at > request.ttl * RENEWAL_PART or known.until - event.now < wanted
    return "due" if due else "fresh"


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
    """Return the lease back."""
    return m.Revoke(known.lease)


_VALID = ("fresh", "due")

TABLE = (
    # id, what happened, if, then wait for, and ask for
    wait(Phase.LEASE, m.Grant,
        On("G1", m.Granted, ALWAYS, Phase.LOCK, create_lock),
        On("G2", NotDone, ALWAYS, Phase.NOT_HELD),
        On("G3", Unknown, ALWAYS, Phase.NOT_HELD),
    ),

    wait(Phase.LOCK, m.CreateLock,
        On("L1", m.LockStood, when(holder="mine"), Phase.TOKEN, read_token),
        On("L2", m.LockStood, when(holder="other"), Phase.YIELD, revoke),
        On("L3", NotDone, ALWAYS, Phase.RETREAT, revoke),
        On("L4", Unknown, ALWAYS, Phase.RETREAT, revoke),
    ),

    wait(Phase.TOKEN, m.ReadToken,
        On("T1", m.TokenAbsent, ALWAYS, Phase.OWN_TOKEN, take_token),
        On("T2", m.TokenFound, ALWAYS, Phase.OWN_TOKEN, take_token),
        On("T3", NotDone, ALWAYS, Phase.RETREAT, revoke),
        On("T4", Unknown, ALWAYS, Phase.RETREAT, revoke),
    ),

    wait(Phase.OWN_TOKEN, m.TakeToken,
        On("O1", m.TokenTaken, when(time=_VALID), Phase.HELD),
        On("O2", m.TokenTaken, when(time="over"), Phase.LOST),
        On("O3", NotDone, ALWAYS, Phase.LOST),
        On("O4", Unknown, ALWAYS, Phase.RETREAT, revoke),
    ),

    wait(Phase.HELD, None,
        On("H1", m.Ticked, when(time="fresh"), Phase.HELD),
        On("H2", m.Ticked, when(time="due"), Phase.RENEWAL, keep_alive),
        On("H3", m.Ticked, when(time="over"), Phase.LOST),
        On("H4", m.ReleaseWanted, ALWAYS, Phase.RELEASE_MARK, mark_released),
    ),

    wait(Phase.RENEWAL, m.KeepAlive,
        On("K1", m.Ticked, when(time=_VALID), Phase.RENEWAL),
        On("K2", m.Ticked, when(time="over"), Phase.LOST),
        On("K3", m.KeptAlive, when(answer="in time"), Phase.HELD),
        On("K4", m.KeptAlive, when(answer="late"), Phase.LOST),
        On("K5", NotDone, ALWAYS, Phase.LOST),
        On("K6", Unknown, when(time=_VALID, failures="few"), Phase.HELD),
        On("K7", Unknown, when(time=_VALID, failures="many"), Phase.LOST),
        On("K8", Unknown, when(time="over"), Phase.LOST),
    ),

    wait(Phase.RELEASE_MARK, m.MarkReleased,
        On("M1", m.ReleaseMarked, ALWAYS, Phase.RELEASE, revoke),
        On("M2", NotDone, ALWAYS, Phase.LOST),
        On("M3", Unknown, ALWAYS, Phase.RELEASE, revoke),
    ),

    wait(Phase.RELEASE, m.Revoke,
        On("R1", m.LeaseRevoked, ALWAYS, Phase.RELEASED),
        On("R2", NotDone, ALWAYS, Phase.RELEASED),
        On("R3", Unknown, ALWAYS, Phase.RELEASED),
    ),

    wait(Phase.YIELD, m.Revoke,
        On("Y1", m.LeaseRevoked, ALWAYS, Phase.BUSY),
        On("Y2", NotDone, ALWAYS, Phase.BUSY),
        On("Y3", Unknown, ALWAYS, Phase.BUSY),
    ),

    wait(Phase.RETREAT, m.Revoke,
        On("N1", m.LeaseRevoked, ALWAYS, Phase.NOT_HELD),
        On("N2", NotDone, ALWAYS, Phase.NOT_HELD),
        On("N3", Unknown, ALWAYS, Phase.NOT_HELD),
    ),
)  # fmt: skip


def _opening(_request: LeaseRequest) -> tuple[Phase, LeaseKnown, Ask | None]:
    return Phase.LEASE, LeaseKnown(), grant


LEASE: Table[LeaseRequest, LeaseKnown] = Table(
    Definition(
        name="lease",
        phases=Phase,
        initial=(Phase.LEASE,),
        terminal=frozenset({Phase.RELEASED, Phase.BUSY, Phase.NOT_HELD, Phase.LOST}),
        facts=FACTS,
        table=TABLE,
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
