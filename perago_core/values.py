"""The nouns of the protocol as frozen values: targets, commits, attempts, what a reload or a head read shows.

Everything pinned when an attempt is polled lives in ``Attempt`` and is never read again. The named fresh reads are the
exceptions, and these are all of them: task reloads, the head observation, the lease deadline, the open intents of this
target.
"""

from __future__ import annotations

from enum import Enum
from typing import NewType

from attrs import Factory, evolve, field, frozen

from perago_core.budget import PublishBudget
from perago_core.names import staging_name
from perago_core.value import ADDED, DECLARED, Value, a, count, flag, line, many, maybe, seconds, text

CommitRef = NewType("CommitRef", str)


class Backing(Enum):
    """What makes the fence decision still true when the store applies it. The head rule itself never changes."""

    SOFT = "soft"
    ATOMIC = "atomic"
    CONDITIONAL = "conditional"
    LOCKED = "locked"


#: The backings whose store checks the head in its own update: on these several workflows may share a branch.
SHARING = frozenset({Backing.ATOMIC, Backing.CONDITIONAL})


class Operation(Enum):
    """The class of a publication. Maintenance preserves content and commutes; a logical change does not (H-11)."""

    LOGICAL = "logical"
    MAINTENANCE = "maintenance"


class OnAbandoned(Enum):
    """What a retry makes of an earlier attempt's publication that nobody accepted. ``soft`` always replaces it."""

    ADOPT = "adopt"
    REPLACE = "replace"


class OnConflict(Enum):
    """What a task does whose declared paths somebody else has changed while it worked: begin again there, or fail."""

    RERUN = "rerun"
    FAIL = "fail"


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
    """One commit as the store shows it. Message and metadata are for people; they give no right (P-13)."""

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
class StagedBeside(Value):
    """What an execution has staged for a further target of its own."""

    target: Target = field(validator=a(Target))
    commit: CommitRef = field(validator=text)
    tree: str = field(validator=text)


@frozen(cache_hash=True, repr=False)
class StagedRef(Value):
    """A staged commit with everything needed to publish or remove it from a process that knows nothing else (P-25).

    ``beside``: what the same execution has staged for its further targets; those it leaves as they are have none.
    """

    repository: str = field(validator=text)
    branch: str = field(validator=text)
    commit: CommitRef = field(validator=text)
    tree: str = field(validator=text)
    beside: tuple[StagedBeside, ...] = field(default=(), validator=many(a(StagedBeside)), metadata=DECLARED)


@frozen(cache_hash=True, repr=False)
class Beside(Value):
    """A further target of an attempt, and the commit it starts from there."""

    target: Target = field(validator=a(Target))
    input: CommitRef = field(validator=text)


@frozen(cache_hash=True, repr=False)
class Scope(Value):
    """What a task declares to read and to write of a branch that others write to as well: the beginnings of paths.

    Declared once, and then everything: a path that is read and not declared voids what is promised.

    ``apart``: it may be published above work that nobody has accepted, if that changes nothing under these and nothing
    of its own. They are what its whole pipeline declares, so that no step begins on unaccepted work that another step
    was indifferent to. Empty: it waits until everything below is accepted.
    """

    reads: tuple[str, ...] = field(default=(), validator=many(line))
    writes: tuple[str, ...] = field(default=(), validator=many(line))
    apart: tuple[str, ...] = field(default=(), validator=many(line), metadata=DECLARED)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return what it depends on: what it reads and what it writes, without those that lie inside another."""
        return _outermost(*self.reads, *self.writes)

    @property
    def stacks(self) -> bool:
        """Return whether it may be published above work that nobody has accepted."""
        return bool(self.apart)

    @property
    def kept_apart(self) -> tuple[str, ...]:
        """Return what unaccepted work below it must not have changed."""
        return _outermost(*self.apart, *self.prefixes)

    def allows(self, path: str) -> bool:
        """Return whether a path may be written."""
        return path.startswith(self.writes)

    def meets(self, other: Scope) -> str | None:
        """Name something that one of the two writes and the other one reads or writes; ``None``: they are disjoint."""
        for one, two in ((self, other), (other, self)):
            for written in one.writes:
                for each in two.prefixes:
                    if written.startswith(each) or each.startswith(written):
                        return max(written, each, key=len)
        return None


def _outermost(*prefixes: str) -> tuple[str, ...]:
    """Return prefixes once each, without those that lie inside another."""
    every = sorted(set(prefixes))
    return tuple(each for each in every if not any(each != one and each.startswith(one) for one in every))


@frozen(cache_hash=True, repr=False)
class Landed(Value):
    """A commit that came onto a branch, with a few of the paths asked about that it was the last to change."""

    commit: Commit = field(validator=a(Commit))
    touched: tuple[str, ...] = field(default=(), validator=many(text))


@frozen(cache_hash=True, repr=False)
class Between(Value):
    """What lies between an input and the head above it, newest first, by first parents.

    ``commits``: ``None`` if the input is not below the head, or too far. ``unaccepted``: a publication of a task of
    ours that nobody has accepted, and above which this one must not be published; ``owner`` is that task. ``over``, of
    a task that stacks: all that nobody has accepted. ``waited``: for how many seconds this was looked at again and
    again, ``waited_for`` the task whose turn it was.
    """

    commits: tuple[Landed, ...] | None = field(default=None, validator=maybe(many(a(Landed))))
    unaccepted: CommitRef | None = field(default=None, validator=maybe(text))
    owner: str = field(default="", validator=line)
    waited: float = field(default=0.0, validator=seconds)
    waited_for: str = field(default="", validator=line)
    over: tuple[CommitRef, ...] = field(default=(), validator=many(text), metadata=DECLARED)


@frozen(cache_hash=True, repr=False)
class Attempt(Value):
    """One execution of one attempt, with everything pinned at poll time.

    ``number`` orders the attempts of one logical task: the orchestrator port gives each a greater number than any
    before it. ``execution`` is minted for each actual run, so that two deliveries of one attempt differ (P-40); it is
    also the nonce by which claims and results are recognised.

    ``beside``: further targets, which move in the same step as the first, or not at all. Claims, result and adoption
    are of the first one, which therefore changes whenever one of them does.
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
    scope: Scope | None = field(default=None, validator=maybe(a(Scope)), metadata=DECLARED)
    on_conflict: OnConflict = field(default=OnConflict.RERUN, validator=a(OnConflict), metadata=DECLARED)
    beside: tuple[Beside, ...] = field(default=(), validator=many(a(Beside)), metadata=DECLARED)
    staging_name: str = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.over_maintenance and not self.ledger:
            message = "Attempt.over_maintenance needs ledger=True: only the ledger proves a commit to be maintenance"
            raise ValueError(message)
        if self.shares and self.ledger:
            message = "Attempt.scope needs ledger=False: an intent names one parent and one tree, and blocks the branch"
            raise ValueError(message)
        if self.beside:
            self._check_beside()
        name = staging_name(self.target, self.logical_task, self.number, self.retry_count, self.task_id, self.execution)
        object.__setattr__(self, "staging_name", name)

    def _check_beside(self) -> None:
        """Several targets need one step that moves them all, and an earlier attempt's of them are never replaced."""
        named = [self.target, *(each.target for each in self.beside)]
        plain = self.scope is None and not self.over_maintenance
        fits = self.adopts and self.operation is Operation.LOGICAL and plain
        if self.backing is not Backing.ATOMIC or not fits or len(set(named)) != len(named):
            message = (
                "Attempt.beside needs different targets, backing=ATOMIC, no scope, and a logical operation that adopts "
                f"and does not go over maintenance, not {[str(each) for each in named]} with {self.backing}, "
                f"{self.operation}, {self.on_abandoned}, {self.scope}, over_maintenance={self.over_maintenance}"
            )
            raise ValueError(message)

    @property
    def parts(self) -> tuple[Attempt, ...]:
        """Return the same execution as each of its targets sees it, the first one first."""
        if not self.beside:
            return (self,)
        others = (evolve(self, target=each.target, input=each.input, beside=()) for each in self.beside)
        return (self, *others)

    @property
    def adopts(self) -> bool:
        """Return whether it takes over what its task has published; ``soft`` replaces it, whatever the task says."""
        return (self.on_abandoned is OnAbandoned.ADOPT or self.shares) and self.backing is not Backing.SOFT

    @property
    def shares(self) -> bool:
        """Return whether it may be published onto what others have published since its input.

        Only where the store checks the head in its own update: a lease without that keeps no stranger away.
        """
        return self.scope is not None and self.backing in SHARING and self.operation is Operation.LOGICAL

    @property
    def stacks(self) -> bool:
        """Return whether it may be published above work that nobody has accepted."""
        return self.shares and self.scope is not None and self.scope.stacks


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

    ``staged``: the commit it is about to publish, of a task that declares its scope. Published onto what others have
    published, it has another parent and another tree, and is known by the staged commit, which is its second parent.

    ``reverts``: the publication that a recovery, and no attempt, is about to undo; ``staged`` undoes it. It acts for
    the newest attempt that has claimed, and ``turn`` counts such recoveries: each is above that attempt and every
    recovery before it, and below the next attempt.

    ``stacks``: it may be published above unaccepted work. A release that knows nothing of that cannot read such a claim
    and stays away: it would take all that lies below an accepted publication for accepted.
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
    staged: CommitRef | None = field(default=None, validator=maybe(text), metadata=DECLARED)
    reverts: CommitRef | None = field(default=None, validator=maybe(text), metadata=DECLARED)
    turn: int = field(default=0, validator=count, metadata=DECLARED)
    stacks: bool = field(default=False, validator=flag, metadata=DECLARED)

    @property
    def rank(self) -> tuple[int, int]:
        """Return what orders the claims of a task: a store that knows claims raises them by this, strictly upward."""
        return self.number, self.turn

    @property
    def key(self) -> tuple[str, ...]:
        """Return what no two claims of a task share; the deliveries of one attempt do: one of them publishes."""
        own = (self.workflow_id, self.task_id)
        return own if not self.turn else (*own, f"recovery {self.turn}")


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


def staged_for(part: Attempt, staged: StagedRef | None) -> StagedRef | StagedBeside | None:
    """Return what is staged for one of an attempt's ``parts``; ``None``: it leaves that target as it is."""
    if staged is None or (staged.repository, staged.branch) == (part.target.repository, part.staging_name):
        return staged
    return next((each for each in staged.beside if each.target == part.target), None)


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
        staged=staged.commit if attempt.shares and staged is not None else None,
        stacks=attempt.stacks,
    )
