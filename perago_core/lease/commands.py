"""Everything the lease machine may ask for. Imperative, frozen; each names its possible answers."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from perago_core.checks import a, maybe, seconds, text
from perago_core.lease import events as e
from perago_core.rows import Answers, Command


@frozen(cache_hash=True, repr=False)
class Grant(Command):
    """Get a lease to bind the lock to."""

    ttl: float = field(validator=seconds)
    answers: ClassVar = Answers((e.Granted,), (e.GrantUnknown,), (e.GrantRefused,))


@frozen(cache_hash=True, repr=False)
class CreateLock(Command):
    """Create the lock of the target, bound to the lease, unless one stands. Sent once; busy is an answer (W-17)."""

    lease: str = field(validator=text)
    answers: ClassVar = Answers((e.LockStood,), (e.LockUnknown,), (e.LockRefused,))


class ReadToken(Command):
    """Read the last holder's record."""

    __slots__ = ()
    answers: ClassVar = Answers(
        (e.TokenAbsent, e.TokenFound),
        (e.TokenReadUnknown,),
        (e.TokenUnreadable,),
        repeatable=True,
    )


@frozen(cache_hash=True, repr=False)
class TakeToken(Command):
    """Swap the record that was read for ours, with the next token."""

    standing: str | None = field(validator=maybe(text))
    record: e.TokenRecord = field(validator=a(e.TokenRecord))
    answers: ClassVar = Answers((e.TokenTaken,), (e.TokenUnknown,), (e.TokenRefused,))


@frozen(cache_hash=True, repr=False)
class KeepAlive(Command):
    """Renew the lease."""

    lease: str = field(validator=text)
    answers: ClassVar = Answers((e.KeptAlive,), (e.KeepAliveUnknown,), (e.LeaseGone,))


@frozen(cache_hash=True, repr=False)
class MarkReleased(Command):
    """Swap our record for one that says released; never written over anybody else's (F-10)."""

    record: e.TokenRecord = field(validator=a(e.TokenRecord))
    answers: ClassVar = Answers((e.ReleaseMarked,), (e.ReleaseUnknown,), (e.ReleaseRefused,))


@frozen(cache_hash=True, repr=False)
class Revoke(Command):
    """End our lease, and with it the lock if it is ours; nobody else's can be bound to it."""

    lease: str = field(validator=text)
    answers: ClassVar = Answers(
        (e.LeaseRevoked,),
        (e.LeaseRevokeUnknown,),
        (e.LeaseRevokeRefused,),
        repeatable=True,
    )
