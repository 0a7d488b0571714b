"""Everything an attempt may ask for, in the order it asks. Imperative, frozen; each names its possible answers.

Commands are made by the machine from values that were checked when they came in, so they are not checked again.

One command is one port call, with two exceptions that are worth one row each instead of many: ``ReadOwners`` reloads
one task per older claim, and ``CleanUp`` removes up to three things, none of which can change the result any more.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.ledger.records import SettlementKind
from perago_core.plan import PublishPlan
from perago_core.results import Result
from perago_core.rows import Answers, Command
from perago_core.values import Claim, CommitRef, StagedRef

_BODY = Answers(done=(e.BodyDone, e.BodyFailed, e.StagingWanted), unknown=(f.BodyLost,))


class PrepareWorkspace(Command):
    """Make the input available to the body."""

    __slots__ = ()
    answers: ClassVar = Answers((e.WorkspaceReady,), (f.WorkspaceUnknown,), (f.WorkspaceRefused,), repeatable=True)


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
    answers: ClassVar = Answers((e.TaskReloaded,), (f.TaskReloadUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class OpenStaging(Command):
    """Create the staging name at the input: where to write, and for a no-op the revocable anchor."""

    name: str
    at: CommitRef
    answers: ClassVar = Answers((e.StagingOpened,), (f.StagingUnknown,), (f.StagingRefused,))


@frozen(cache_hash=True, repr=False)
class Upload(Command):
    """Write what changed under the staging name."""

    name: str
    answers: ClassVar = Answers((e.Uploaded,), (f.UploadUnknown,), (f.UploadRefused,))


@frozen(cache_hash=True, repr=False)
class CommitStaging(Command):
    """Commit the staging branch. The message is for people."""

    name: str
    message: str
    answers: ClassVar = Answers((e.Staged, e.NothingStaged), (f.CommitUnknown,), (f.CommitRefused,))


@frozen(cache_hash=True, repr=False)
class MakeClaim(Command):
    """Claim the right to publish for this attempt, against other executions of it."""

    claim: Claim
    answers: ClassVar = Answers((e.ClaimStands,), (f.ClaimUnknown,), (f.ClaimRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ReadClaim(Command):
    """Read the claim back after an unknown answer; the execution id is the nonce."""

    claim: Claim
    answers: ClassVar = Answers((e.ClaimRead,), (f.ClaimReadUnknown,), repeatable=True)


class ListClaims(Command):
    """List the claim records of this logical task."""

    __slots__ = ()
    answers: ClassVar = Answers((e.ClaimsListed,), (f.ClaimsUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ReadOwners(Command):
    """Ask the orchestrator about the tasks behind the other claims, each a (workflow id, task id)."""

    tasks: tuple[tuple[str, str], ...]
    answers: ClassVar = Answers((e.OwnersRead,), (f.OwnersUnknown,), repeatable=True)


class SettleIntents(Command):
    """Settle the open intents of this target, without moving a branch, and read what the ledger knows of it."""

    __slots__ = ()
    answers: ClassVar = Answers((e.IntentsSettled,), (f.IntentsUnknown,), repeatable=True)


class AcquireLease(Command):
    """Try to get the lease of the target; being refused is an answer, not a reason to wait."""

    __slots__ = ()
    answers: ClassVar = Answers((e.LeaseHeld,), (f.LeaseUnknown,), (f.LeaseBusy,))


@frozen(cache_hash=True, repr=False)
class AwaitTakeover(Command):
    """Wait out what an unclean predecessor may still have in flight, keeping the lease alive."""

    seconds: float
    answers: ClassVar = Answers((e.Waited,), (), repeatable=True)


@frozen(cache_hash=True, repr=False)
class RevokeOlder(Command):
    """Delete the staging names of attempts below this number."""

    number: int
    answers: ClassVar = Answers((e.Revoked,), (f.RevokeUnknown,), (f.RevokeRefused,), repeatable=True)


class PassBarrier(Command):
    """Make sure that requests the store had begun before now have ended."""

    __slots__ = ()
    answers: ClassVar = Answers((e.BarrierPassed,), (f.BarrierUnknown,), (f.BarrierRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ArmIntent(Command):
    """Write down what is about to be done, before it can have happened."""

    staged: StagedRef | None
    token: int | None = None
    answers: ClassVar = Answers((e.Armed,), (f.ArmUnknown,), (f.ArmRefused,), repeatable=True)


class ReadHead(Command):
    """Read the target's head."""

    __slots__ = ()
    answers: ClassVar = Answers((e.HeadSeen,), (f.HeadUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Publish(Command):
    """Move the target as planned. Sent once, never again."""

    plan: PublishPlan
    answers: ClassVar = Answers((e.Published,), (f.PublishUnknown,), (f.PublishRefused,))


@frozen(cache_hash=True, repr=False)
class DropStaging(Command):
    """Delete our own staging name, so that a request of ours that is still on its way fails."""

    name: str
    answers: ClassVar = Answers((e.Dropped,), (f.DropUnknown,), (f.DropRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class ReadCommit(Command):
    """Read the published commit back."""

    ref: CommitRef
    answers: ClassVar = Answers((e.CommitSeen,), (f.CommitUnreadable,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Report(Command):
    """Send the result to the orchestrator."""

    result: Result
    answers: ClassVar = Answers((e.Reported,), (f.ReportUnknown,), (f.ReportRefused,))


@frozen(cache_hash=True, repr=False)
class ConfirmIntent(Command):
    """Add the published ref to the intent."""

    ref: CommitRef
    answers: ClassVar = Answers((e.Confirmed,), (f.ConfirmUnknown,), (f.ConfirmRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class SettleIntent(Command):
    """Settle our own intent and append the audit record: accepted, or not published. All else needs a sweep."""

    kind: SettlementKind
    ref: CommitRef | None = None
    answers: ClassVar = Answers((e.Settled,), (f.SettleUnknown,), (f.SettleRefused,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class CleanUp(Command):
    """Remove the staging name, release the lease, remove the local workspace: whatever of these exists."""

    name: str | None = None
    release_lease: bool = False
    answers: ClassVar = Answers((e.CleanedUp,), (f.CleanUpUnknown,), (f.CleanUpRefused,), repeatable=True)
