"""The lease machine: do I still hold the lock, and for how long may I act.

``start`` with a request, ``perform`` each command on the ports, ``step`` with the event it gives. While ``hold`` gives
something, feed ``Ticked``; when done, feed ``ReleaseWanted``. ``outcome`` says how it ended. The rows are in ``table``.
"""

from __future__ import annotations

from perago_core.lease.messages import (
    CreateLock,
    Grant,
    Granted,
    KeepAlive,
    KeptAlive,
    LeaseHold,
    LeaseRevoked,
    LockStood,
    MarkReleased,
    ReadToken,
    ReleaseMarked,
    ReleaseWanted,
    Revoke,
    TakeToken,
    Ticked,
    TokenAbsent,
    TokenFound,
    TokenRecord,
    TokenTaken,
)
from perago_core.lease.run import perform
from perago_core.lease.state import LeaseEnd, LeaseKnown, LeaseOutcome, LeaseRequest, LeaseState, Phase, hold, outcome
from perago_core.lease.table import LEASE, start, step

__all__ = [
    "LEASE",
    "CreateLock",
    "Grant",
    "Granted",
    "KeepAlive",
    "KeptAlive",
    "LeaseEnd",
    "LeaseHold",
    "LeaseKnown",
    "LeaseOutcome",
    "LeaseRequest",
    "LeaseRevoked",
    "LeaseState",
    "LockStood",
    "MarkReleased",
    "Phase",
    "ReadToken",
    "ReleaseMarked",
    "ReleaseWanted",
    "Revoke",
    "TakeToken",
    "Ticked",
    "TokenAbsent",
    "TokenFound",
    "TokenRecord",
    "TokenTaken",
    "hold",
    "outcome",
    "perform",
    "start",
    "step",
]
