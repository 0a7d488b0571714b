"""What an attempt asks for and what it is told, in the order of a publication: each command below its done-events.

Commands are imperative, events are in the past tense; both are frozen and without behaviour. A command that is not done
or whose fate is unknown is told by ``NotDone`` and ``Unknown``; the phase says of what. Commands are made by the
machine from values that were checked when they came in, so they are not checked again.

One command is one port call, with two exceptions that are worth one row each instead of many: ``ReadOwners`` reloads
one task per older claim, and ``CleanUp`` removes up to three things, none of which can change the result any more. An
attempt with further targets makes the call for each of them, except that only the first has claims and a result, and
that all of them move by one ``Publish``.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from attrs import field, frozen

from perago_core.answers import Event
from perago_core.ledger.records import SettlementKind
from perago_core.machine.rows import Command, certain, effect, read
from perago_core.plan import PublishPlan
from perago_core.results import Result
from perago_core.value import DECLARED, a, count, flag, line, many, maybe, seconds, text
from perago_core.values import Between, Claim, Commit, CommitRef, Content, Head, Maintained, StagedRef, TaskSnapshot


class WorkspaceReady(Event):
    """The input is available to the body."""

    __slots__ = ()


class PrepareWorkspace(Command):
    """Make the input available to the body."""

    __slots__ = ()
    answers: ClassVar = effect(WorkspaceReady, repeatable=True)
    does: ClassVar = "fetches its input"


@frozen(cache_hash=True, repr=False)
class BodyDone(Event):
    """Body and post-check succeeded; ``changed`` is the diff. Carries the execution it belongs to (P-40, T-P6).

    ``content``: from a workspace that can compare what was there with what is to be published (H-11, H-15).
    """

    execution: str = field(validator=text)
    changed: bool = field(validator=flag)
    output: str = field(default="{}", validator=line)
    content: Content | None = field(default=None, validator=maybe(a(Content)))


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


class RunBody(Command):
    """Run pre-check, body, post-check and diff."""

    __slots__ = ()
    answers: ClassVar = read(BodyDone, BodyFailed, StagingWanted, repeatable=False)
    does: ClassVar = "runs the body"


@frozen(cache_hash=True, repr=False)
class ResumeBody(Command):
    """Go on with a body that asked for staging; it writes under this name."""

    name: str
    answers: ClassVar = read(BodyDone, BodyFailed, StagingWanted, repeatable=False)
    does: ClassVar = "goes on with the body"


@frozen(cache_hash=True, repr=False)
class TaskReloaded(Event):
    """The orchestrator showed the task as it is now; ``None``: it is gone."""

    snapshot: TaskSnapshot | None = field(validator=maybe(a(TaskSnapshot)))


class ReloadTask(Command):
    """Read the task as it is now: the attempt fence, and after the report the acceptance."""

    __slots__ = ()
    answers: ClassVar = read(TaskReloaded)
    does: ClassVar = "checks its task"


class StagingOpened(Event):
    """The staging name exists, at the input, and it is ours."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class OpenStaging(Command):
    """Create the staging name at the input: where to write, and for a no-op the revocable anchor."""

    name: str
    at: CommitRef
    answers: ClassVar = effect(StagingOpened)
    does: ClassVar = "opens its staging branch"


class Uploaded(Event):
    """What changed has been written through the sink."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Upload(Command):
    """Write what changed under the staging name."""

    name: str
    answers: ClassVar = effect(Uploaded)
    does: ClassVar = "uploads what it changed"


@frozen(cache_hash=True, repr=False)
class Staged(Event):
    """The staging branch has its commit."""

    staged: StagedRef = field(validator=a(StagedRef))


class NothingStaged(Event):
    """There was nothing to commit: the content is what the input already has, so this is a no-op after all (S-12)."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class CommitStaging(Command):
    """Commit the staging branch. The message is for people."""

    name: str
    message: str
    answers: ClassVar = effect(Staged, NothingStaged)
    does: ClassVar = "commits its staging branch"


@frozen(cache_hash=True, repr=False)
class ClaimStands(Event):
    """A claim for this attempt stands; it may be ours or another execution's."""

    claim: Claim = field(validator=a(Claim))


@frozen(cache_hash=True, repr=False)
class MakeClaim(Command):
    """Claim the right to publish for this attempt, against other executions of it."""

    claim: Claim
    answers: ClassVar = effect(ClaimStands, repeatable=True)
    does: ClassVar = "claims the right to publish"


@frozen(cache_hash=True, repr=False)
class ClaimRead(Event):
    """The claim of this attempt was read back; ``None``: there is none (yet)."""

    claim: Claim | None = field(validator=maybe(a(Claim)))


@frozen(cache_hash=True, repr=False)
class ReadClaim(Command):
    """Read the claim back after an unknown answer; the execution id is the nonce."""

    claim: Claim
    answers: ClassVar = read(ClaimRead)
    does: ClassVar = "reads its claim back"


@frozen(cache_hash=True, repr=False)
class ClaimsListed(Event):
    """These claim records of the logical task exist."""

    claims: tuple[Claim, ...] = field(validator=many(a(Claim)))


class ListClaims(Command):
    """List the claim records of this logical task."""

    __slots__ = ()
    answers: ClassVar = read(ClaimsListed)
    does: ClassVar = "lists the claims of its task"


@frozen(cache_hash=True, repr=False)
class OwnersRead(Event):
    """The orchestrator's word on the attempts behind the other claims, one snapshot (or ``None``: gone) per task id."""

    snapshots: tuple[tuple[str, TaskSnapshot | None], ...] = ()


@frozen(cache_hash=True, repr=False)
class ReadOwners(Command):
    """Ask the orchestrator about the tasks behind the other claims, each a (workflow id, task id)."""

    tasks: tuple[tuple[str, str], ...]
    answers: ClassVar = read(OwnersRead)
    does: ClassVar = "asks who owns the other claims"


@frozen(cache_hash=True, repr=False)
class IntentsSettled(Event):
    """Open intents of this target were settled; what stays open, what is maintenance, and the policy's epoch now.

    ``alarms``: accepted results that the sweep found missing from the branch. No row looks at them; observers do.
    """

    epoch: int = field(validator=count)
    unresolved: tuple[str, ...] = field(default=(), validator=many(text))
    maintained: tuple[Maintained, ...] = field(default=(), validator=many(a(Maintained)))
    alarms: tuple[str, ...] = field(default=(), validator=many(text))


class SettleIntents(Command):
    """Settle the open intents of this target, without moving a branch, and read what the ledger knows of it."""

    __slots__ = ()
    answers: ClassVar = read(IntentsSettled)
    does: ClassVar = "settles open intents"


@frozen(cache_hash=True, repr=False)
class LeaseHeld(Event):
    """The lease is ours, with its token; ``clean`` says whether the predecessor released it."""

    token: int = field(validator=count)
    clean: bool = field(validator=flag)


class AcquireLease(Command):
    """Try to get the lease of the target; being refused is an answer, not a reason to wait."""

    __slots__ = ()
    answers: ClassVar = effect(LeaseHeld)
    does: ClassVar = "asks for the lease"


class Waited(Event):
    """The takeover interval is over: whatever an unclean predecessor had sent has landed or died."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class AwaitTakeover(Command):
    """Wait out what an unclean predecessor may still have in flight, keeping the lease alive."""

    seconds: float
    answers: ClassVar = certain(Waited)
    does: ClassVar = "waits until older requests have run out"


@frozen(cache_hash=True, repr=False)
class Revoked(Event):
    """The staging names of older attempts are gone."""

    names: tuple[str, ...] = field(default=(), validator=many(text))


@frozen(cache_hash=True, repr=False)
class RevokeOlder(Command):
    """Delete the staging names of attempts below this number, and those of other tasks that have ended."""

    number: int
    answers: ClassVar = effect(Revoked, repeatable=True)
    does: ClassVar = "revokes the names of older attempts"


class BarrierPassed(Event):
    """Every request the store had begun before the barrier has ended."""

    __slots__ = ()


class PassBarrier(Command):
    """Make sure that requests the store had begun before now have ended."""

    __slots__ = ()
    answers: ClassVar = effect(BarrierPassed, repeatable=True)
    does: ClassVar = "passes the store's barrier"


class Armed(Event):
    """The intent is durable."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class ArmIntent(Command):
    """Write down what is about to be done, before it can have happened."""

    staged: StagedRef | None
    token: int | None = None
    answers: ClassVar = effect(Armed, repeatable=True)
    does: ClassVar = "writes down what it is about to do"


@frozen(cache_hash=True, repr=False)
class HeadSeen(Event):
    """The target's head as one coherent read showed it, with the times that are read at the same moment.

    ``between``: what lies between the input and this head, for a task that declares what it reads and writes.
    """

    head: Head | None = field(validator=maybe(a(Head)))
    now: float = field(default=0.0, validator=seconds)
    attempt_until: float = field(default=float("inf"), validator=seconds)
    lease_until: float = field(default=float("inf"), validator=seconds)
    between: Between | None = field(default=None, validator=maybe(a(Between)), metadata=DECLARED)
    beside: tuple[Head | None, ...] = field(default=(), validator=many(maybe(a(Head))), metadata=DECLARED)


class ReadHead(Command):
    """Read the target's head."""

    __slots__ = ()
    answers: ClassVar = read(HeadSeen)
    does: ClassVar = "looks at {branch}"


@frozen(cache_hash=True, repr=False)
class Published(Event):
    """The target moved, and this is the published commit."""

    ref: CommitRef = field(validator=text)


@frozen(cache_hash=True, repr=False)
class Publish(Command):
    """Move the target as planned. Sent once, never again."""

    plan: PublishPlan
    answers: ClassVar = effect(Published)


class Dropped(Event):
    """Our own staging name is gone."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class DropStaging(Command):
    """Delete our own staging name, so that a request of ours that is still on its way fails."""

    name: str
    answers: ClassVar = effect(Dropped, repeatable=True)
    does: ClassVar = "deletes its own staging name"


@frozen(cache_hash=True, repr=False)
class CommitSeen(Event):
    """The published commit was read back; ``None``: the store does not know it."""

    commit: Commit | None = field(validator=maybe(a(Commit)))


@frozen(cache_hash=True, repr=False)
class ReadCommit(Command):
    """Read the published commit back."""

    ref: CommitRef
    answers: ClassVar = read(CommitSeen)
    does: ClassVar = "reads the published commit back"


class Reported(Event):
    """The orchestrator received the result. It does not say whether it took it."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Report(Command):
    """Send the result to the orchestrator."""

    result: Result
    answers: ClassVar = effect(Reported)
    does: ClassVar = "reports"


class Confirmed(Event):
    """The intent carries the published ref."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class ConfirmIntent(Command):
    """Add the published ref to the intent."""

    ref: CommitRef
    answers: ClassVar = effect(Confirmed, repeatable=True)
    does: ClassVar = "confirms its intent"


class Settled(Event):
    """The intent is settled and audited."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class SettleIntent(Command):
    """Settle our own intent and append the audit record: accepted, or not published. All else needs a sweep."""

    kind: SettlementKind
    ref: CommitRef | None = None
    answers: ClassVar = effect(Settled, repeatable=True)
    does: ClassVar = "settles its intent"


class CleanedUp(Event):
    """Nothing of this execution is left."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class CleanUp(Command):
    """Remove the staging name, release the lease, remove the local workspace: whatever of these exists."""

    name: str | None = None
    release_lease: bool = False
    answers: ClassVar = effect(CleanedUp, repeatable=True)
    does: ClassVar = "cleans up"


@frozen(cache_hash=True, repr=False)
class Because(Event):
    """Base of what comes from outside, at any time: something was lost, for this reason."""

    reason: str = field(validator=text)


class AttemptLost(Because):
    """A heartbeat found that the attempt is no longer ours."""

    __slots__ = ()


class LeaseLost(Because):
    """The coordination lease is lost."""

    __slots__ = ()


class DeadlineExceeded(Because):
    """The time allowed for the execution is over."""

    __slots__ = ()
