"""What can happen to a lease, and the values these facts speak of.

Past tense, frozen, no behaviour. Times are monotonic seconds of this process and come in with the events: ``sent_at``
was read before the request left, ``now`` after its answer arrived.
"""

from __future__ import annotations

import math
from typing import ClassVar

from attrs import Attribute, field, frozen

from perago_core.answers import Event
from perago_core.machine.rows import Command, effect
from perago_core.value import Value, a, count, flag, line, maybe, seconds, text


def _moment(instance: object, attribute: Attribute[float], value: object) -> None:
    """Accept a moment. Infinity is none: a lease sent at infinity would never end."""
    seconds(instance, attribute, value)
    if value == math.inf:
        message = f"{type(instance).__name__}.{attribute.name} must be a moment, not {value!r}"
        raise ValueError(message)


@frozen(cache_hash=True, repr=False)
class LeaseHold(Value):
    """A lock that is held: its lease, its token, until when this process may act on it, and how it came to us.

    ``until`` is the local validity deadline. Send nothing that may still be on its way then. ``clean`` is ``False``
    when the predecessor did not release: its requests may still land, so wait before trusting what you observe (W-24).
    """

    lease: str = field(validator=text)
    token: int = field(validator=count)
    until: float = field(validator=seconds)
    clean: bool = field(validator=flag)


@frozen(cache_hash=True, repr=False)
class TokenRecord(Value):
    """The durable word on who had the lock last. It outlives every lease and every process (T-W10)."""

    token: int = field(validator=count)
    owner: str = field(validator=text)
    released: bool = field(validator=flag)


@frozen(cache_hash=True, repr=False)
class Granted(Event):
    """The coordination store gave a lease. It runs from some moment after ``sent_at``, so we count from there."""

    lease: str = field(validator=text)
    sent_at: float = field(validator=_moment)


@frozen(cache_hash=True, repr=False)
class Grant(Command):
    """Get a lease to bind the lock to."""

    ttl: float = field(validator=seconds)
    answers: ClassVar = effect(Granted)


@frozen(cache_hash=True, repr=False)
class LockStood(Event):
    """The lock of the target stands; ours or another's. Both are empty when what stands cannot be read."""

    owner: str = field(validator=line)
    lease: str = field(validator=line)


@frozen(cache_hash=True, repr=False)
class CreateLock(Command):
    """Create the lock of the target, bound to the lease, unless one stands. Sent once; busy is an answer (W-17)."""

    lease: str = field(validator=text)
    answers: ClassVar = effect(LockStood)


class TokenAbsent(Event):
    """Nobody has ever held this lock."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class TokenFound(Event):
    """The last holder's record, with the very text that stands, because only that text can be swapped."""

    record: TokenRecord = field(validator=a(TokenRecord))
    standing: str = field(validator=text)


class ReadToken(Command):
    """Read the last holder's record."""

    __slots__ = ()
    answers: ClassVar = effect(TokenAbsent, TokenFound, repeatable=True)


@frozen(cache_hash=True, repr=False)
class TokenTaken(Event):
    """The next token is ours."""

    now: float = field(validator=_moment)


@frozen(cache_hash=True, repr=False)
class TakeToken(Command):
    """Swap the record that was read for ours, with the next token."""

    standing: str | None = field(validator=maybe(text))
    record: TokenRecord = field(validator=a(TokenRecord))
    answers: ClassVar = effect(TokenTaken)


@frozen(cache_hash=True, repr=False)
class KeptAlive(Event):
    """The lease was renewed, at some moment between the two times."""

    sent_at: float = field(validator=_moment)
    now: float = field(validator=_moment)

    def __attrs_post_init__(self) -> None:
        if self.sent_at > self.now:
            message = f"KeptAlive.sent_at {self.sent_at:g} is later than its answer, {self.now:g}"
            raise ValueError(message)


@frozen(cache_hash=True, repr=False)
class KeepAlive(Command):
    """Renew the lease."""

    lease: str = field(validator=text)
    answers: ClassVar = effect(KeptAlive)


class ReleaseMarked(Event):
    """The record says that the lock was released: the successor need not wait."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class MarkReleased(Command):
    """Swap our record for one that says released; never written over anybody else's (F-10)."""

    record: TokenRecord = field(validator=a(TokenRecord))
    answers: ClassVar = effect(ReleaseMarked)


class LeaseRevoked(Event):
    """The lease and the lock bound to it are gone."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Revoke(Command):
    """End our lease, and with it the lock if it is ours; nobody else's can be bound to it."""

    lease: str = field(validator=text)
    answers: ClassVar = effect(LeaseRevoked, repeatable=True)


@frozen(cache_hash=True, repr=False)
class Ticked(Event):
    """Time has passed. The runtime says so as often as it likes, while the lease is held.

    ``need``: for how many seconds from now on the holder wants to be sure of it; with less left a renewal is due.
    """

    now: float = field(validator=_moment)
    need: float = field(default=0.0, validator=seconds)


class ReleaseWanted(Event):
    """The execution is done with the lock, and knows the outcome of everything it sent under it."""

    __slots__ = ()
