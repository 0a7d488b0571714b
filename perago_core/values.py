"""The nouns of the protocol as frozen values: targets, commits, attempts, what a reload or a head read shows.

Everything pinned when an attempt is polled lives in ``Attempt`` and is never read again. The named fresh reads are the
exceptions, and these are all of them: task reloads, the head observation, the lease deadline, the open intents of this
target.
"""

from __future__ import annotations

from enum import Enum
from typing import NewType

from attrs import Factory, field, frozen

from perago_core.budget import PublishBudget
from perago_core.names import staging_name
from perago_core.value import ADDED, Value, a, count, flag, line, many, maybe, text

CommitRef = NewType("CommitRef", str)


class Backing(Enum):
    """What makes the fence decision still true when the store applies it. The head rule itself never changes."""

    SOFT = "soft"
    ATOMIC = "atomic"
    CONDITIONAL = "conditional"
    LOCKED = "locked"


class Operation(Enum):
    """The class of a publication. Maintenance preserves content and commutes; a logical change does not (H-11)."""

    LOGICAL = "logical"
    MAINTENANCE = "maintenance"


class OnAbandoned(Enum):
    """What a retry makes of an earlier attempt's publication that nobody accepted. ``soft`` always replaces it."""

    ADOPT = "adopt"
    REPLACE = "replace"


class TaskStatus(Enum):
    """What the orchestrator says of a task."""

    SCHEDULED = "SCHEDULED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"

    @property
    def is_open(self) -> bool:
        """Return whether a result may still be accepted."""
        return self in {TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS}


@frozen(cache_hash=True, repr=False)
class Target(Value):
    """The branch a result is published to."""

    repository: str = field(validator=text)
    branch: str = field(validator=text)

    def __str__(self) -> str:
        return f"{self.repository}/{self.branch}"


@frozen(cache_hash=True, repr=False)
class Commit(Value):
    """One commit as the store shows it. Message and metadata are for people; no decision reads them (P-13)."""

    ref: CommitRef = field(validator=text)
    parents: tuple[CommitRef, ...] = field(validator=many(text))
    tree: str = field(validator=text)
    message: str = field(default="", validator=line)
    metadata: tuple[tuple[str, str], ...] = field(default=(), validator=many(many(line)))


@frozen(cache_hash=True, repr=False)
class Head(Value):
    """The tip of the target and whether it carries uncommitted objects, from one coherent read (N-14)."""

    commit: Commit = field(validator=a(Commit))
    dirty: bool = field(default=False, validator=flag)


@frozen(cache_hash=True, repr=False)
class StagedRef(Value):
    """A staged commit with everything needed to publish or remove it from a process that knows nothing else (P-25)."""

    repository: str = field(validator=text)
    branch: str = field(validator=text)
    commit: CommitRef = field(validator=text)
    tree: str = field(validator=text)


@frozen(cache_hash=True, repr=False)
class Attempt(Value):
    """One execution of one attempt, with everything pinned at poll time.

    ``number`` orders the attempts of one logical task: the orchestrator port gives each a greater number than any
    before it. ``execution`` is minted for each actual run, so that two deliveries of one attempt differ (P-40); it is
    also the nonce by which claims and results are recognised.
    """

    workflow_id: str = field(validator=text)
    task_id: str = field(validator=text)
    retry_count: int = field(validator=count)
    logical_task: str = field(validator=text)
    number: int = field(validator=count)
    execution: str = field(validator=text)
    target: Target = field(validator=a(Target))
    input: CommitRef = field(validator=text)
    backing: Backing = field(validator=a(Backing))
    worker_id: str = field(default="", validator=line)
    started_at: int = field(default=0, validator=count)
    poll_count: int = field(default=0, validator=count)
    read_only: bool = field(default=False, validator=flag)
    operation: Operation = field(default=Operation.LOGICAL, validator=a(Operation))
    over_maintenance: bool = field(default=False, validator=flag)
    on_abandoned: OnAbandoned = field(default=OnAbandoned.ADOPT, validator=a(OnAbandoned), metadata=ADDED)
    ledger: bool = field(default=False, validator=flag)
    epoch: int = field(default=0, validator=count)
    budget: PublishBudget = field(default=Factory(PublishBudget), validator=a(PublishBudget))
    staging_name: str = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.over_maintenance and not self.ledger:
            message = "Attempt.over_maintenance needs ledger=True: only the ledger proves a commit to be maintenance"
            raise ValueError(message)
        name = staging_name(self.target, self.logical_task, self.number, self.retry_count, self.task_id, self.execution)
        object.__setattr__(self, "staging_name", name)

    @property
    def adopts(self) -> bool:
        """Return whether it takes over what its task has published; ``soft`` replaces it, whatever the task says."""
        return self.on_abandoned is OnAbandoned.ADOPT and self.backing is not Backing.SOFT


@frozen(cache_hash=True, repr=False)
class TaskSnapshot(Value):
    """A task as a reload shows it, with the workflow's state and, once it has ended, whose result was accepted."""

    workflow_id: str = field(validator=text)
    task_id: str = field(validator=text)
    retry_count: int = field(validator=count)
    status: TaskStatus = field(validator=a(TaskStatus))
    worker_id: str = field(default="", validator=line)
    started_at: int = field(default=0, validator=count)
    poll_count: int = field(default=0, validator=count)
    workflow_running: bool = field(default=True, validator=flag)
    result_execution: str | None = field(default=None, validator=maybe(text))
    result_ref: CommitRef | None = field(default=None, validator=maybe(text))


@frozen(cache_hash=True, repr=False)
class Claim(Value):
    """A create-if-absent record in the store: this execution, and no other, may publish for this attempt.

    ``tree`` is the tree the execution is about to publish on top of ``parent``; a no-op has none. The pair is what the
    owner rule compares, because commit ids are not predictable and metadata grants nothing.

    ``result`` is what the execution is about to report: it is on record before the publication is sent, so whoever
    finds that publication later can report it. ``None``: too long to be kept here, or made by an older release.
    """

    target: Target = field(validator=a(Target))
    logical_task: str = field(validator=text)
    workflow_id: str = field(validator=text)
    task_id: str = field(validator=text)
    number: int = field(validator=count)
    execution: str = field(validator=text)
    parent: CommitRef = field(validator=text)
    tree: str | None = field(default=None, validator=maybe(text))
    result: str | None = field(default=None, validator=maybe(line), metadata=ADDED)


@frozen(cache_hash=True, repr=False)
class Content(Value):
    """Digests of the logical content of the input and of what is to be published, whatever the layout of either.

    What is logical is the workspace's to say: the rows of a data set, whichever files hold them.
    """

    before: str = field(validator=text)
    after: str = field(validator=text)

    @property
    def is_preserved(self) -> bool:
        """Return whether only the layout changes."""
        return self.before == self.after


@frozen(cache_hash=True, repr=False)
class Maintained(Value):
    """A commit the ledger proves to be accepted maintenance: content-preserving, directly on ``parent``."""

    parent: CommitRef = field(validator=text)
    ref: CommitRef = field(validator=text)


#: How long a result may be that a claim keeps, in characters. A publication with a longer one cannot be adopted.
LONGEST_RESULT = 65_536


def claim_of(attempt: Attempt, staged: StagedRef | None, result: str = "{}") -> Claim:
    """Make the claim this execution wants to win: to publish this on its input, or nothing, and report that result."""
    return Claim(
        target=attempt.target,
        logical_task=attempt.logical_task,
        workflow_id=attempt.workflow_id,
        task_id=attempt.task_id,
        number=attempt.number,
        execution=attempt.execution,
        parent=attempt.input,
        tree=None if staged is None else staged.tree,
        result=result if len(result) <= LONGEST_RESULT else None,
    )
