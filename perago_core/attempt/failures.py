"""What can go wrong for an attempt.

An effect that did not happen (``...Refused``), an answer that is missing (``...Unknown``), or an interruption.

A read has no middle answer: when it fails nothing happened, and what it would have shown is unknown.
"""

from __future__ import annotations

from attrs import field, frozen

from perago_core.checks import many, seconds, text
from perago_core.rows import Event


@frozen(cache_hash=True, repr=False)
class Because(Event):
    """Base of the failures that carry nothing but the reason the port gave."""

    reason: str = field(validator=text)


class WorkspaceRefused(Because):
    """The input could not be made available."""

    __slots__ = ()


class WorkspaceUnknown(Because):
    """Nobody knows whether the workspace is complete."""

    __slots__ = ()


class BodyLost(Because):
    """The body's process died or stopped answering."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class TaskReloadUnknown(Because):
    """The task could not be read. The times say whether the attempt's own deadline has passed."""

    now: float = field(default=0.0, validator=seconds)
    attempt_until: float = field(default=float("inf"), validator=seconds)


class StagingRefused(Because):
    """The store did not create the staging name."""

    __slots__ = ()


class StagingUnknown(Because):
    """The staging name may or may not exist."""

    __slots__ = ()


class UploadRefused(Because):
    """The changes could not be written."""

    __slots__ = ()


class UploadUnknown(Because):
    """Some of the changes may have been written."""

    __slots__ = ()


class CommitRefused(Because):
    """The store did not commit."""

    __slots__ = ()


class CommitUnknown(Because):
    """The staging branch may or may not have its commit."""

    __slots__ = ()


class ClaimRefused(Because):
    """The store made no claim and none is in the way."""

    __slots__ = ()


class ClaimUnknown(Because):
    """Our claim may or may not stand."""

    __slots__ = ()


class ClaimReadUnknown(Because):
    """The claim could not be read back."""

    __slots__ = ()


class ClaimsUnknown(Because):
    """The claim records could not be listed."""

    __slots__ = ()


class OwnersUnknown(Because):
    """The attempts behind the claims could not be read."""

    __slots__ = ()


class IntentsUnknown(Because):
    """The ledger could not be read or settled."""

    __slots__ = ()


class LeaseBusy(Because):
    """Somebody else holds the lease."""

    __slots__ = ()


class LeaseUnknown(Because):
    """The lease may or may not be ours, so it is not."""

    __slots__ = ()


class RevokeRefused(Because):
    """An older name could not be deleted."""

    __slots__ = ()


class RevokeUnknown(Because):
    """An older name may still exist."""

    __slots__ = ()


class BarrierRefused(Because):
    """The store did not confirm the barrier, for instance because the target is dirty."""

    __slots__ = ()


class BarrierUnknown(Because):
    """The barrier may or may not have been passed."""

    __slots__ = ()


class ArmRefused(Because):
    """The ledger did not take the intent."""

    __slots__ = ()


class ArmUnknown(Because):
    """The intent may or may not be durable."""

    __slots__ = ()


class HeadUnknown(Because):
    """The head could not be read."""

    __slots__ = ()


class PublishRefused(Because):
    """The store refused to move the target."""

    __slots__ = ()


class PublishUnknown(Because):
    """The target may or may not have moved, and may still move."""

    __slots__ = ()


class DropRefused(Because):
    """Our own staging name could not be deleted."""

    __slots__ = ()


class DropUnknown(Because):
    """Our own staging name may still exist."""

    __slots__ = ()


class CommitUnreadable(Because):
    """The published commit could not be read back."""

    __slots__ = ()


class ReportRefused(Because):
    """The orchestrator refused the result."""

    __slots__ = ()


class ReportUnknown(Because):
    """The result may or may not have been received."""

    __slots__ = ()


class ConfirmRefused(Because):
    """The ledger did not take the confirmation."""

    __slots__ = ()


class ConfirmUnknown(Because):
    """The intent may or may not carry the published ref."""

    __slots__ = ()


class SettleRefused(Because):
    """The ledger did not take the settlement; a sweep will."""

    __slots__ = ()


class SettleUnknown(Because):
    """The intent may or may not be settled; a sweep will find out."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class CleanUpRefused(Event):
    """Something could not be removed; the result stands (P-32)."""

    left_behind: tuple[str, ...] = field(validator=many(text))


@frozen(cache_hash=True, repr=False)
class CleanUpUnknown(Event):
    """Something may be left; the result stands (P-32)."""

    left_behind: tuple[str, ...] = field(validator=many(text))


class AttemptLost(Because):
    """A heartbeat found that the attempt is no longer ours. Comes from outside, at any time."""

    __slots__ = ()


class LeaseLost(Because):
    """The coordination lease is lost. Comes from outside, at any time."""

    __slots__ = ()


class DeadlineExceeded(Because):
    """The time allowed for the execution is over. Comes from outside, at any time."""

    __slots__ = ()
