"""The four ports and the sink: who does what the core asks for, and the three answers each call may give.

Each call is one crash boundary: the process may die before it, after it, or while nobody knows. So each call does one
thing. An adapter translates an answer of its system into ``Done``, ``NotDone`` or ``Unknown`` and decides nothing.

What a runtime and its operators ask of the same systems, and no machine does, stands at the end: *Administration*.

The protocols are written synchronously. ``adrive`` takes ports with the same methods as coroutines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

from attrs import field, frozen

from perago_core.answers import Answer
from perago_core.value import Value, a, count, line, maybe, seconds, text
from perago_core.values import Attempt, Claim, Commit, CommitRef, Head, Landed, StagedRef, Target, TaskSnapshot

if TYPE_CHECKING:
    from perago_core.attempt.messages import BodyEvent
    from perago_core.plan import PublishPlan
    from perago_core.policy.messages import Capability
    from perago_core.results import Result


@frozen(repr=False)
class Assignment(Value):
    """A task the orchestrator handed out: the snapshot at poll time, its place in its logical task, its input.

    ``response_timeout``: after how many seconds of silence it is given to somebody else; ``None``: it does not say.
    """

    snapshot: TaskSnapshot = field(validator=a(TaskSnapshot))
    task_name: str = field(validator=text)
    logical_task: str = field(validator=text)
    number: int = field(validator=count)
    input: str = field(default="{}", validator=line)
    response_timeout: float | None = field(default=None, validator=maybe(seconds))


class Orchestrator(Protocol):
    """Hands out attempts and alone decides which result counts."""

    def poll(self, worker_id: str, task_names: tuple[str, ...], limit: int) -> Answer[tuple[Assignment, ...]]:
        """Take up to ``limit`` tasks. An unknown answer may have assigned tasks nobody will run."""
        ...

    def reload(self, workflow_id: str | None, task_id: str) -> Answer[TaskSnapshot | None]:
        """Read the task and its workflow now, whichever that is if none is given; ``None`` says that it is gone."""
        ...

    def extend(self, attempt: Attempt) -> Answer[None]:
        """Send one heartbeat. It never tells of loss; only a reload does."""
        ...

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        """Send the result. ``Done`` says that it was received, not that it was accepted."""
        ...


@frozen(repr=False)
class Stored(Value):
    """What a sink put somewhere: enough to link it later, from another process."""

    path: str = field(validator=text)
    address: str = field(validator=text)
    checksum: str = field(validator=line)
    size: int = field(validator=count)


class Sink(Protocol):
    """Where an execution writes: one staging name, picklable, usable anywhere, also on a Spark executor.

    ``put`` may run many times for one path, in many places. Only what ``link`` names on the driver side becomes part of
    the staged commit, so the uploads of losers never do.
    """

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Store bytes for a path without making them part of the staging branch."""
        ...

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        """Make stored bytes visible on the staging branch, and remove paths from it."""
        ...

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List what the staging branch shows under a prefix."""
        ...

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        """Write a manifest under a name that readers of the data ignore."""
        ...


class Source(Protocol):
    """Where an execution reads: one immutable commit, picklable, usable anywhere."""

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List the objects of the commit under a prefix."""
        ...

    def get(self, path: str) -> Answer[BinaryIO]:
        """Open one object of the commit."""
        ...


#: How many commits ``Store.since`` reads at most. Who is farther behind begins again from a newer input.
FARTHEST = 1024
#: How many paths of one commit it names.
NAMED = 3


class Store(Protocol):
    """Holds the data as branches of commits. ``publish`` is the only call that moves a branch."""

    def head(self, target: Target) -> Answer[Head | None]:
        """Read the tip of the target in one coherent read; ``None`` says that the branch is missing."""
        ...

    def look(self, repository: str, ref: CommitRef) -> Answer[Commit | None]:
        """Read one commit by its id."""
        ...

    def since(
        self, repository: str, base: CommitRef, head: CommitRef, prefixes: tuple[str, ...]
    ) -> Answer[tuple[Landed, ...] | None]:
        """List what lies above a commit up to a head, newest first; each with paths that differ between the two.

        Only paths under the prefixes, a few for each commit, under the commit that was last to change them. ``None``:
        the base is no first-parent ancestor of the head, or more than ``FARTHEST`` commits below it. Both are
        immutable, so the answer never changes. Asked for tasks that declare what they read and write, for what lies
        above a fixed input, and for streams.
        """
        ...

    def read(self, repository: str, ref: CommitRef) -> Source:
        """Return the reader of an immutable commit; makes no call itself."""
        ...

    def sink(self, target: Target, name: str) -> Sink:
        """Return the writer of a staging name; makes no call itself, so any process can derive it (P-25)."""
        ...

    def open_staging(self, target: Target, name: str, at: CommitRef) -> Answer[None]:
        """Create the staging name at a commit; not done if the name exists, whoever made it (P-42)."""
        ...

    def commit(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit what the sink linked; ``None`` says there was nothing to commit (S-12)."""
        ...

    def revert(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit, on a staging name, the content before the commit it stands at: that of its first parent.

        Published, it undoes that commit and nothing else. ``None`` says that it changed nothing.
        """
        ...

    def claim(self, claim: Claim) -> Answer[Claim]:
        """Create the claim if there is none of its ``key`` and, on an atomic store, raise the task's by its ``rank``.

        Strictly upward. ``Done`` carries the claim that stands, which may be somebody else's.
        """
        ...

    def read_claim(self, claim: Claim) -> Answer[Claim | None]:
        """Read the claim that stands for this claim's attempt."""
        ...

    def claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of one logical task."""
        ...

    def staging_names(self, repository: str, prefix: str) -> Answer[tuple[str, ...]]:
        """List the staging names that exist and begin with this; every name made before the call is among them."""
        ...

    def barrier(self, target: Target) -> Answer[None]:
        """Make sure that requests the store had begun before now have ended; not done on a dirty target."""
        ...

    def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        """Move the target as the plan says and give the published commit. Never sent again by anybody.

        A commit that is made for it says what the staged one does, or ``names.merge_message`` of its name, so that no
        other task takes it for its own; and, if the plan is over others, ``names.over_message`` of that.
        """
        ...

    def drop(self, target: Target, name: str) -> Answer[None]:
        """Delete a staging name; done also when it is not there."""
        ...

    def probe(self) -> Answer[Capability]:
        """Find out by behaviour what the store can condition a publication on; not done: proved unable."""
        ...


class Workspace(Protocol):
    """Runs the body: pre-check, body, post-check, diff. A body may ask for staging while it runs."""

    def prepare(self, attempt: Attempt) -> Answer[None]:
        """Make the input available to the body."""
        ...

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Run checks and body until it ends or asks for staging; ``Unknown`` says that the body was lost."""
        ...

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:
        """Go on with a body that asked for staging."""
        ...

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        """Write what changed through the sink."""
        ...

    def remove(self, attempt: Attempt) -> Answer[None]:
        """Remove the local workspace; done also when it is not there."""
        ...


@frozen(repr=False)
class Entry(Value):
    """One key of the coordination store with its value."""

    key: str = field(validator=text)
    value: str = field(validator=line)


class Coordination(Protocol):
    """A small, strongly consistent key-value store. Lock, consensus, intents and audit are built on it in the core."""

    def get(self, key: str) -> Answer[Entry | None]:
        """Read one key."""
        ...

    def create_if_absent(self, key: str, value: str, lease: str | None = None) -> Answer[Entry]:
        """Create the key unless it exists, bound to a lease if one is given; give the entry that stands."""
        ...

    def swap(self, key: str, expected: str | None, value: str | None) -> Answer[bool]:
        """Change the value if it is ``expected`` (``None``: absent); ``None`` as the value deletes the key."""
        ...

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Answer[tuple[Entry, ...]]:
        """List the entries under a prefix in key order, as they all stood at one moment.

        ``after``: only keys after this one. ``limit``: no more than so many, so that somebody who goes through all of
        history pays for it a part at a time.
        """
        ...

    def grant(self, ttl: float) -> Answer[str]:
        """Get a lease; keys bound to it vanish when it ends."""
        ...

    def keep_alive(self, lease: str) -> Answer[bool]:
        """Renew a lease; ``False`` says that it is gone."""
        ...

    def revoke(self, lease: str) -> Answer[None]:
        """End a lease and its keys; done also when it is gone."""
        ...


class Clock(Protocol):
    """Monotonic seconds and a way to wait. Handed in by the runtime, because the core has no clock."""

    def now(self) -> float:
        """Give monotonic seconds."""
        ...

    def wall(self) -> int:
        """Give milliseconds since the epoch, for records only."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


# ---- Administration: what a runtime and its operators ask for, and no machine does


class ManagedOrchestrator(Orchestrator, Protocol):
    """An orchestrator that keeps a log of each task, for people."""

    def log(self, task_id: str, line: str, /) -> None:
        """Append a line. One that cannot be written raises; nothing rests on it."""
        ...


@runtime_checkable
class Nudgeable(Protocol):
    """An orchestrator that looks for silent workers late by itself, and at once when it is asked to."""

    def nudge(self, workflow_id: str) -> Answer[None]:
        """Have it look whether an attempt of this workflow has fallen silent. Harmless if none has."""
        ...

    def reload(self, workflow_id: str, task_id: str) -> Answer[TaskSnapshot | None]:
        """Read the task and its workflow now, as the port does."""
        ...


class ManagedStore(Store, Protocol):
    """A store whose history can be listed and whose claims can be collected."""

    def history(self, target: Target, limit: int = 100, at: CommitRef | None = None) -> Answer[tuple[Commit, ...]]:
        """List the target's commits by first parent, newest first; ``at``: from this one down, not from the head."""
        ...

    def all_claims(self, repository: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of all tasks."""
        ...

    def remove_claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """Remove the claims of a settled task whose names are gone and after which a barrier answered (RT-10)."""
        ...


@runtime_checkable
class BranchCreator(Protocol):
    """A store that belongs to the project, so that a missing branch is made. A shared one has what people made."""

    def create(self, target: Target, files: Mapping[str, bytes] | None = None) -> Answer[CommitRef]:
        """Make the branch at a first commit that holds these files, and its repository if there is none."""
        ...


@runtime_checkable
class SeveralTargets(Protocol):
    """A store that can move several branches in one step, as the plan of an attempt with further targets asks."""

    def moves_together(self, targets: tuple[Target, ...]) -> Answer[None]:
        """Say whether it can move these; not done: why not, and what to do instead."""
        ...


@runtime_checkable
class RunBranches(Protocol):
    """A store that holds what a run writes apart until it is promoted: branches that are made, and go again.

    Only branches of runs (``names.run_branch``) are made and removed; everything else is refused.
    """

    def branch_off(self, target: Target, at: CommitRef) -> Answer[None]:
        """Make the branch at a commit; not done if there is one."""
        ...

    def run_branches(self, repository: str) -> Answer[tuple[str, ...]]:
        """List the branches of runs."""
        ...

    def remove_branch(self, target: Target) -> Answer[None]:
        """Remove the branch, and nothing of what it shares with others; done also when it is not there."""
        ...


@runtime_checkable
class ObjectCollector(Protocol):
    """A store whose objects nobody else collects: neither a server of its own nor a command such as ``git gc``."""

    def collect_objects(
        self, repository: str, kept: Collection[CommitRef], older_than: float, *, dry_run: bool = False
    ) -> Answer[int]:
        """Remove what no branch, name or claim reaches and is older than so many seconds, except these commits."""
        ...


class TaskWorkspace(Workspace, Protocol):
    """A workspace that is told which task an attempt runs, and can stop its body from another thread."""

    def accept(self, attempt: Attempt, task_name: str, params: str) -> None:
        """Take note of what the attempt runs, before anything else is asked for it."""
        ...

    def cancel(self, attempt: Attempt, reason: str) -> None:
        """Stop the body at once; the call that waits for it answers that the body was lost."""
        ...

    def cancel_all(self, reason: str) -> None:
        """Stop every body at once."""
        ...


@runtime_checkable
class Cautioned(Protocol):
    """A store, of data or for coordination, that knows what is to be said of the server or the place it talks to."""

    def caution(self) -> Answer[str]:
        """Return a known defect of this server's version, or what this place is good for; blank: nothing."""
        ...


@runtime_checkable
class Leaseless(Protocol):
    """A coordination store without leases: nothing in it vanishes by itself, so it neither locks nor tells who lives.

    Workers on it show no signs of life, and the policy they have agreed on is not changed under way.
    """

    def instead_of_leases(self) -> str:
        """Say what to use by whoever needs leases."""
        ...


@runtime_checkable
class Overwriting(Protocol):
    """A store that moves a branch by a condition on a write and by nothing else, and names no call that stops a writer.

    Where its server does not look at the condition, whoever has lost the lease overwrites what was accepted since.
    """

    def despite_leases(self) -> str:
        """Say what a lease does not keep where conditions were not proved, and what to use."""
        ...


@runtime_checkable
class Closeable(Protocol):
    """An adapter that keeps connections or files open."""

    def close(self) -> None:
        """Close them; a second time does nothing."""
        ...


#: Each port with the calls that cross a process boundary, and what each call is charged to in the cost table (H-05).
PORT_CALLS: Mapping[str, Mapping[str, str]] = {
    "orchestrator": {"poll": "task", "reload": "task", "extend": "task", "report": "task"},
    "store": {
        "head": "head",
        "look": "head",
        "since": "head",
        "open_staging": "stage",
        "commit": "stage",
        "revert": "stage",
        "drop": "stage",
        "claim": "claim",
        "read_claim": "claim",
        "claims": "claim",
        "staging_names": "revoke",
        "barrier": "revoke",
        "publish": "target",
        "probe": "consensus",
    },
    "workspace": {"prepare": "local", "run": "local", "resume": "local", "upload": "stage", "remove": "local"},
    "coordination": {
        "get": "ledger",
        "create_if_absent": "ledger",
        "swap": "ledger",
        "list": "ledger",
        "grant": "lock",
        "keep_alive": "lock",
        "revoke": "lock",
    },
}
