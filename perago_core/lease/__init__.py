"""The lease machine: do I still hold the lock, and for how long may I act.

``start`` with a request, ``perform`` each command on the ports, ``step`` with the event it gives. While ``hold`` gives
something, feed ``Ticked``; when done, feed ``ReleaseWanted``. ``outcome`` says how it ended. The rows are in ``table``.
"""

from __future__ import annotations

from perago_core.lease.calls import perform
from perago_core.lease.commands import CreateLock, Grant, KeepAlive, MarkReleased, ReadToken, Revoke, TakeToken
from perago_core.lease.events import (
    Granted,
    GrantRefused,
    GrantUnknown,
    KeepAliveUnknown,
    KeptAlive,
    LeaseGone,
    LeaseHold,
    LeaseRevoked,
    LeaseRevokeRefused,
    LeaseRevokeUnknown,
    LockRefused,
    LockStood,
    LockUnknown,
    ReleaseMarked,
    ReleaseRefused,
    ReleaseUnknown,
    ReleaseWanted,
    Ticked,
    TokenAbsent,
    TokenFound,
    TokenReadUnknown,
    TokenRecord,
    TokenRefused,
    TokenTaken,
    TokenUnknown,
    TokenUnreadable,
)
from perago_core.lease.known import LeaseKnown, LeaseRequest, LeaseState
from perago_core.lease.outcomes import LeaseEnd, LeaseOutcome, hold, outcome
from perago_core.lease.phases import Phase
from perago_core.lease.table import LEASE, start, step

__all__ = [
    "LEASE",
    "CreateLock",
    "Grant",
    "GrantRefused",
    "GrantUnknown",
    "Granted",
    "KeepAlive",
    "KeepAliveUnknown",
    "KeptAlive",
    "LeaseEnd",
    "LeaseGone",
    "LeaseHold",
    "LeaseKnown",
    "LeaseOutcome",
    "LeaseRequest",
    "LeaseRevokeRefused",
    "LeaseRevokeUnknown",
    "LeaseRevoked",
    "LeaseState",
    "LockRefused",
    "LockStood",
    "LockUnknown",
    "MarkReleased",
    "Phase",
    "ReadToken",
    "ReleaseMarked",
    "ReleaseRefused",
    "ReleaseUnknown",
    "ReleaseWanted",
    "Revoke",
    "TakeToken",
    "Ticked",
    "TokenAbsent",
    "TokenFound",
    "TokenReadUnknown",
    "TokenRecord",
    "TokenRefused",
    "TokenTaken",
    "TokenUnknown",
    "TokenUnreadable",
    "hold",
    "outcome",
    "perform",
    "start",
    "step",
]
