"""How an attempt ends: the result that is reported, the refusal it may carry, and the outcome as a whole.

A refusal is not a string. It names what was expected, what was found, the class of the disagreement and what to do
next, so that no failure is a silent dead end (L-10).
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias, assert_never

from attrs import field, frozen

from perago_core.value import Value, a, flag, line, many, maybe, text
from perago_core.values import Backing, CommitRef, TaskStatus


class Classification(Enum):
    """Why an attempt did not publish. The names are stable; counters and tests use them."""

    WORKSPACE_FAILED = "workspace-failed"
    BODY_FAILED = "body-failed"
    BODY_LOST = "body-lost"
    READ_ONLY_WROTE = "read-only-wrote"
    ATTEMPT_STALE = "attempt-stale"
    ATTEMPT_UNKNOWN = "attempt-unknown"
    ATTEMPT_LATE = "attempt-late"
    STAGING_FAILED = "staging-failed"
    STAGING_UNKNOWN = "staging-unknown"
    CLAIM_LOST = "claim-lost"
    CLAIM_FAILED = "claim-failed"
    CLAIMS_UNREADABLE = "claims-unreadable"
    RECOVERY_REQUIRED = "recovery-required"
    LEDGER_UNAVAILABLE = "ledger-unavailable"
    POLICY_CHANGED = "policy-changed"
    LEASE_BUSY = "lease-busy"
    LEASE_LOST = "lease-lost"
    LEASE_TOO_SHORT = "lease-too-short"
    REVOCATION_FAILED = "revocation-failed"
    BARRIER_FAILED = "barrier-failed"
    TARGET_MISSING = "target-missing"
    TARGET_DIRTY = "target-dirty"
    TARGET_UNREADABLE = "target-unreadable"
    HEAD_ELSEWHERE = "head-elsewhere"
    HEAD_MERGED = "head-merged"
    HEAD_NOT_REPLACEABLE = "head-not-replaceable"
    HEAD_ADVANCED = "head-advanced"
    CONFLICT = "conflict"
    UNACCEPTED_IN_THE_WAY = "unaccepted-in-the-way"
    ADOPTED_GONE = "adopted-gone"
    CONTENT_NOT_PRESERVED = "content-not-preserved"
    PUBLISH_REFUSED = "publish-refused"
    PUBLISH_UNKNOWN = "publish-unknown"
    PUBLISHED_ELSEWHERE = "published-elsewhere"
    DEADLINE_EXCEEDED = "deadline-exceeded"


@frozen(cache_hash=True, repr=False)
class Refusal(Value):
    """Expected, found, what kind of disagreement that is, and what to do next."""

    classification: Classification = field(validator=a(Classification))
    expected: str = field(validator=text)
    actual: str = field(validator=text)
    next_action: str = field(validator=text)

    def __str__(self) -> str:
        found = self.actual.rstrip(".")
        return f"{self.classification.value}: expected {self.expected}; found {found}. {self.next_action}"


@frozen(cache_hash=True, repr=False)
class Completed(Value):
    """The attempt's result: the workspace ref and the body's own output. ``execution`` is the nonce read back later."""

    ref: CommitRef = field(validator=text)
    output: str = field(validator=line)
    execution: str = field(validator=text)


@frozen(cache_hash=True, repr=False)
class Failed(Value):
    """The attempt failed; the orchestrator may try again."""

    refusal: Refusal = field(validator=a(Refusal))


@frozen(cache_hash=True, repr=False)
class FailedTerminally(Value):
    """The attempt failed in a way that trying again cannot mend: a pre-check, or the body saying so (S-36)."""

    refusal: Refusal = field(validator=a(Refusal))


Result: TypeAlias = Completed | Failed | FailedTerminally


def status_of(result: Result) -> TaskStatus:
    """Return the status the orchestrator is told."""
    match result:
        case Completed():
            return TaskStatus.COMPLETED
        case Failed():
            return TaskStatus.FAILED
        case FailedTerminally():
            return TaskStatus.FAILED_WITH_TERMINAL_ERROR
        case _:
            assert_never(result)


class Acceptance(Enum):
    """Whether the orchestrator took the result. Only reading the task back can tell (F-13)."""

    UNREAD = "unread"
    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not accepted"
    UNKNOWN = "unknown"


@frozen(cache_hash=True, repr=False)
class Outcome(Value):
    """What became of the execution. ``result`` is ``None`` for one that stays silent, not owning the attempt.

    ``adopted``: what it reported is an earlier attempt's, or a twin's. ``faults``: what ports raised on the way, or
    answered besides the three answers. The machine took each for *unknown*, so the reason given may be another one:
    whose claim it was could not be found out, because `store.claim` has a mistake.
    """

    result: Result | None = field(validator=maybe(a(Completed, Failed, FailedTerminally)))
    acceptance: Acceptance = field(validator=a(Acceptance))
    backing: Backing = field(validator=a(Backing))
    silence: Refusal | None = field(default=None, validator=maybe(a(Refusal)))
    left_behind: tuple[str, ...] = field(default=(), validator=many(text))
    adopted: bool = field(default=False, validator=flag)
    faults: tuple[str, ...] = field(default=(), validator=many(text))
