"""What can happen to an attempt when things go as asked, in the order they happen. Past tense, frozen, no behaviour.

The answers that say *not done* or *unknown*, and what may interrupt from outside, are in ``failures``.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from attrs import field, frozen

from perago_core.ledger.records import SettlementKind
from perago_core.machine.rows import Answers, Command, Event
from perago_core.plan import PublishPlan
from perago_core.results import Result
from perago_core.value import a, count, flag, line, many, maybe, seconds, text
from perago_core.values import Claim, Commit, CommitRef, Head, Maintained, StagedRef, TaskSnapshot


class WorkspaceReady(Event):
    """The input is available to the body."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class BodyDone(Event):
    """Body and post-check succeeded; ``changed`` is the diff. Carries the execution it belongs to (P-40, T-P6)."""

    execution: str = field(validator=text)
    changed: bool = field(validator=flag)
    output: str = field(default="{}", validator=line)


@frozen(cache_hash=True, repr=False)
class BodyFailed(Event):
    """A check or the body failed; ``terminal`` for a pre-check and for a body that says so itself."""

    execution: str = field(validator=text)
    reason: str = field(validator=text)
    terminal: bool = field(default=False, validator=flag)


@frozen(cache_hash=True, repr=False)
class StagingWanted(Event):
    """The body wants to write while it runs."""

    execution: str = field(validator=text)


BodyEvent: TypeAlias = BodyDone | BodyFailed | StagingWanted


@frozen(cache_hash=True, repr=False)
class TaskReloaded(Event):
    """The orchestrator showed the task as it is now; ``None``: it is gone."""

    snapshot: TaskSnapshot | None = field(validator=maybe(a(TaskSnapshot)))


class StagingOpened(Event):
    """The staging name exists, at the input, and it is ours."""

    __slots__ = ()


class Uploaded(Event):
    """What changed has been written through the sink."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Staged(Event):
    """The staging branch has its commit."""

    staged: StagedRef = field(validator=a(StagedRef))


class NothingStaged(Event):
    """There was nothing to commit: the content is what the input already has, so this is a no-op after all (S-12)."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class ClaimStands(Event):
    """A claim for this attempt stands; it may be ours or another execution's."""

    claim: Claim = field(validator=a(Claim))


@frozen(cache_hash=True, repr=False)
class ClaimRead(Event):
    """The claim of this attempt was read back; ``None``: there is none (yet)."""

    claim: Claim | None = field(validator=maybe(a(Claim)))


@frozen(cache_hash=True, repr=False)
class ClaimsListed(Event):
    """These claim records of the logical task exist."""

    claims: tuple[Claim, ...] = field(validator=many(a(Claim)))


@frozen(cache_hash=True, repr=False)
class OwnersRead(Event):
    """The orchestrator's word on the attempts behind the other claims, one snapshot (or ``None``: gone) per task id."""

    snapshots: tuple[tuple[str, TaskSnapshot | None], ...] = ()


@frozen(cache_hash=True, repr=False)
class IntentsSettled(Event):
    """Open intents of this target were settled; what stays open, what is maintenance, and the policy's epoch now.

    ``alarms``: accepted results that the sweep found missing from the branch. No row looks at them; observers do.
    """

    epoch: int = field(validator=count)
    unresolved: tuple[str, ...] = field(default=(), validator=many(text))
    maintained: tuple[Maintained, ...] = field(default=(), validator=many(a(Maintained)))
    alarms: tuple[str, ...] = field(default=(), validator=many(text))


@frozen(cache_hash=True, repr=False)
class LeaseHeld(Event):
    """The lease is ours, with its token; ``clean`` says whether the predecessor released it."""

    token: int = field(validator=count)
    clean: bool = field(validator=flag)


class Waited(Event):
    """The takeover interval is over: whatever an unclean predecessor had sent has landed or died."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Revoked(Event):
    """The staging names of older attempts are gone."""

    names: tuple[str, ...] = field(default=(), validator=many(text))


class BarrierPassed(Event):
    """Every request the store had begun before the barrier has ended."""

    __slots__ = ()


class Armed(Event):
    """The intent is durable."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class HeadSeen(Event):
    """The target's head as one coherent read showed it, with the times that are read at the same moment."""

    head: Head | None = field(validator=maybe(a(Head)))
    now: float = field(default=0.0, validator=seconds)
    attempt_until: float = field(default=float("inf"), validator=seconds)
    lease_until: float = field(default=float("inf"), validator=seconds)


@frozen(cache_hash=True, repr=False)
class Published(Event):
    """The target moved, and this is the published commit."""

    ref: CommitRef = field(validator=text)


class Dropped(Event):
    """Our own staging name is gone."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class CommitSeen(Event):
    """The published commit was read back; ``None``: the store does not know it."""

    commit: Commit | None = field(validator=maybe(a(Commit)))


class Reported(Event):
    """The orchestrator received the result. It does not say whether it took it."""

    __slots__ = ()


class Confirmed(Event):
    """The intent carries the published ref."""

    __slots__ = ()


class Settled(Event):
    """The intent is settled and audited."""

    __slots__ = ()


class CleanedUp(Event):
    """Nothing of this execution is left."""

    __slots__ = ()


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


_BODY = Answers(done=(BodyDone, BodyFailed, StagingWanted), unknown=(BodyLost,))


class PrepareWorkspace(Command):
    """Make the input available to the body."""

    __slots__ = ()
    answers: ClassVar = Answers((WorkspaceReady,), (WorkspaceUnknown,), (WorkspaceRefused,), repeatable=True)


class RunBody(Command):
    """Run pre-check, body, post-check and diff."""

    __slots__ = ()
    answers: ClassVar = _BODY


@frozen(cache_hash=True, repr=False)
class ResumeBody(Command):
    """Go on with a body that asked for staging; it writes under this name."""

    name: str
    answers: ClassVar = _BODY


class ReloadTask(Command):
    """Read the task as it is now: the attempt fence, and after the report the acceptance."""

    __slots__ = ()
    answers: ClassVar = Answers((TaskReloaded,), (TaskReloadUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class OpenStaging(Command):
    """Create the staging name at the input: where to write, and for a no-op the revocable anchor."""

    name: str
    at: CommitRef
    answers: ClassVar = Answers((StagingOpened,), (StagingUnknown,), (StagingRefused,))


@frozen(cache_hash=True, repr=False)
class Upload(Command):
    """Write what changed under the staging name."""

    name: str
    answers: ClassVar = Answers((Uploaded,), (UploadUnknown,), (UploadRefused,))


@frozen(cache_hash=True, repr=False)
class CommitStaging(Command):
    """Commit the staging branch. The message is for people."""

    name: str
    message: str
    answers: ClassVar = Answers((Staged, NothingStaged), (CommitUnknown,), (CommitRefused,))


@frozen(cache_hash=True, repr=False)
class MakeClaim(Command):
    """Claim the right to publish for this attempt, against other executions of it."""

    claim: Claim
    answers: ClassVar = Answers((ClaimStands,), (ClaimUnknown,), (ClaimRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ReadClaim(Command):
    """Read the claim back after an unknown answer; the execution id is the nonce."""

    claim: Claim
    answers: ClassVar = Answers((ClaimRead,), (ClaimReadUnknown,), repeatable=True)


class ListClaims(Command):
    """List the claim records of this logical task."""

    __slots__ = ()
    answers: ClassVar = Answers((ClaimsListed,), (ClaimsUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ReadOwners(Command):
    """Ask the orchestrator about the tasks behind the other claims, each a (workflow id, task id)."""

    tasks: tuple[tuple[str, str], ...]
    answers: ClassVar = Answers((OwnersRead,), (OwnersUnknown,), repeatable=True)


class SettleIntents(Command):
    """Settle the open intents of this target, without moving a branch, and read what the ledger knows of it."""

    __slots__ = ()
    answers: ClassVar = Answers((IntentsSettled,), (IntentsUnknown,), repeatable=True)


class AcquireLease(Command):
    """Try to get the lease of the target; being refused is an answer, not a reason to wait."""

    __slots__ = ()
    answers: ClassVar = Answers((LeaseHeld,), (LeaseUnknown,), (LeaseBusy,))


@frozen(cache_hash=True, repr=False)
class AwaitTakeover(Command):
    """Wait out what an unclean predecessor may still have in flight, keeping the lease alive."""

    seconds: float
    answers: ClassVar = Answers((Waited,), (), repeatable=True)


@frozen(cache_hash=True, repr=False)
class RevokeOlder(Command):
    """Delete the staging names of attempts below this number, and those of other tasks that have ended."""

    number: int
    answers: ClassVar = Answers((Revoked,), (RevokeUnknown,), (RevokeRefused,), repeatable=True)


class PassBarrier(Command):
    """Make sure that requests the store had begun before now have ended."""

    __slots__ = ()
    answers: ClassVar = Answers((BarrierPassed,), (BarrierUnknown,), (BarrierRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ArmIntent(Command):
    """Write down what is about to be done, before it can have happened."""

    staged: StagedRef | None
    token: int | None = None
    answers: ClassVar = Answers((Armed,), (ArmUnknown,), (ArmRefused,), repeatable=True)


class ReadHead(Command):
    """Read the target's head."""

    __slots__ = ()
    answers: ClassVar = Answers((HeadSeen,), (HeadUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Publish(Command):
    """Move the target as planned. Sent once, never again."""

    plan: PublishPlan
    answers: ClassVar = Answers((Published,), (PublishUnknown,), (PublishRefused,))


@frozen(cache_hash=True, repr=False)
class DropStaging(Command):
    """Delete our own staging name, so that a request of ours that is still on its way fails."""

    name: str
    answers: ClassVar = Answers((Dropped,), (DropUnknown,), (DropRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ReadCommit(Command):
    """Read the published commit back."""

    ref: CommitRef
    answers: ClassVar = Answers((CommitSeen,), (CommitUnreadable,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Report(Command):
    """Send the result to the orchestrator."""

    result: Result
    answers: ClassVar = Answers((Reported,), (ReportUnknown,), (ReportRefused,))


@frozen(cache_hash=True, repr=False)
class ConfirmIntent(Command):
    """Add the published ref to the intent."""

    ref: CommitRef
    answers: ClassVar = Answers((Confirmed,), (ConfirmUnknown,), (ConfirmRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class SettleIntent(Command):
    """Settle our own intent and append the audit record: accepted, or not published. All else needs a sweep."""

    kind: SettlementKind
    ref: CommitRef | None = None
    answers: ClassVar = Answers((Settled,), (SettleUnknown,), (SettleRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class CleanUp(Command):
    """Remove the staging name, release the lease, remove the local workspace: whatever of these exists."""

    name: str | None = None
    release_lease: bool = False
    answers: ClassVar = Answers((CleanedUp,), (CleanUpUnknown,), (CleanUpRefused,), repeatable=True)
