"""What can happen to an attempt when things go as asked, in the order they happen. Past tense, frozen, no behaviour.

The answers that say *not done* or *unknown*, and what may interrupt from outside, are in ``failures``.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import field, frozen

from perago_core.checks import a, count, flag, line, many, maybe, seconds, text
from perago_core.rows import Event
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
