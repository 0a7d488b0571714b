"""Small in-memory ports for the driver's tests: they really hold commits, branches, claims, tasks and keys.

A ``Fault`` makes one call of one port go wrong in one of three ways: refused (nothing happened), lost (it happened, the
answer did not arrive), dropped (it did not happen, and nobody can tell).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, TypeAlias

from attrs import Factory, define, evolve, field

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.attempt.messages import BodyDone, BodyEvent
from perago_core.driver import Ports, drive
from perago_core.failpoints import Failpoint
from perago_core.names import EVERY
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.policy.messages import Capability
from perago_core.ports import Entry
from perago_core.results import Completed, Result, status_of
from perago_core.values import (
    Attempt,
    Backing,
    Claim,
    Commit,
    CommitRef,
    Head,
    Operation,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
)

TARGET = Target("repo", "main")
INPUT = CommitRef("A")


class CrashError(BaseException):
    """The process is gone. Not an ``Exception``: nothing in the core may survive it."""


class Fault(Enum):
    """How a call goes wrong."""

    REFUSED = "refused"
    LOST = "lost"
    DROPPED = "dropped"


@define
class MemoryClock:
    """Time that passes only when somebody waits, or when told to."""

    time: float = 0.0

    def now(self) -> float:
        return self.time

    def wall(self) -> int:
        return int(self.time * 1000)

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@define
class MemorySink:
    """The changes an execution wants to stage."""

    store: MemoryStore
    name: str

    def write(self, tree: str) -> None:
        self.store.uploads[self.name] = tree


@define
class MemoryStore:
    """Commits, branches and claims, with the calls of the ``Store`` port."""

    commits: dict[str, Commit] = Factory(dict[str, Commit])
    branches: dict[str, CommitRef] = Factory(dict[str, CommitRef])
    uploads: dict[str, str] = Factory(dict[str, str])
    records: list[Claim] = Factory(list[Claim])
    raised: dict[str, Claim] = Factory(dict[str, Claim])
    dirty: bool = False
    capability: Capability = Capability.ATOMIC
    minted: int = 0

    def __attrs_post_init__(self) -> None:
        self.commits[INPUT] = Commit(INPUT, (), "tree-A")
        self.branches[TARGET.branch] = INPUT

    def make(self, parent: CommitRef, tree: str, ref: str | None = None) -> Commit:
        self.minted += 1
        commit = Commit(CommitRef(ref or f"c{self.minted}"), (parent,), tree)
        self.commits[commit.ref] = commit
        return commit

    def history(self) -> list[str]:
        """Give the target's first-parent chain, newest first."""
        chain = [self.branches[TARGET.branch]]
        while self.commits[chain[-1]].parents:
            chain.append(self.commits[chain[-1]].parents[0])
        return list(chain)

    def head(self, target: Target) -> Answer[Head | None]:
        ref = self.branches.get(target.branch)
        return Done(None if ref is None else Head(self.commits[ref], dirty=self.dirty))

    def look(self, _repository: str, ref: CommitRef) -> Answer[Commit | None]:
        return Done(self.commits.get(ref))

    def sink(self, _target: Target, name: str) -> MemorySink:
        return MemorySink(self, name)

    def open_staging(self, _target: Target, name: str, at: CommitRef) -> Answer[None]:
        if name in self.branches:
            return NotDone(f"{name} exists")
        self.branches[name] = at
        return Done(None)

    def commit(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        parent = self.commits[self.branches[name]]
        tree = self.uploads.get(name, parent.tree)
        if tree == parent.tree:
            return Done(None)
        made = self.make(parent.ref, tree)
        self.commits[made.ref] = evolve(made, message=message)
        self.branches[name] = made.ref
        return Done(StagedRef(target.repository, name, made.ref, tree))

    def claim(self, claim: Claim) -> Answer[Claim]:
        for record in self.records:
            if record.task_id == claim.task_id and record.number == claim.number:
                return Done(record)
        standing = self.raised.get(claim.logical_task)
        if standing is not None and standing.number >= claim.number:
            return Done(standing)
        self.records.append(claim)
        self.raised[claim.logical_task] = claim
        return Done(claim)

    def read_claim(self, claim: Claim) -> Answer[Claim | None]:
        found = [each for each in self.records if each.task_id == claim.task_id and each.number == claim.number]
        return Done(found[0] if found else None)

    def claims(self, _target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        return Done(tuple(each for each in self.records if each.logical_task == logical_task))

    def staging_names(self, _repository: str, prefix: str = EVERY) -> Answer[tuple[str, ...]]:
        return Done(tuple(sorted(name for name in self.branches if name.startswith(prefix))))

    def barrier(self, _target: Target) -> Answer[None]:
        return NotDone("the target has uncommitted objects") if self.dirty else Done(None)

    def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        if plan.name is not None and plan.name not in self.branches:
            return NotDone(f"{plan.name} does not exist")
        head = self.branches[plan.target.branch]
        if plan.condition is not Condition.NONE and head != plan.expected:
            return NotDone(f"expected head {plan.expected}, found {head}")
        if plan.claim is not None and self.raised.get(plan.claim.logical_task) != plan.claim:
            return NotDone("another claim stands")
        ref = plan.commit
        if plan.kind is PlanKind.MERGE:
            ref = self.make(head, self.commits[plan.commit].tree).ref
        self.branches[plan.target.branch] = ref
        return Done(ref)

    def drop(self, _target: Target, name: str) -> Answer[None]:
        self.branches.pop(name, None)
        return Done(None)

    def probe(self) -> Answer[Capability]:
        return Done(self.capability)


@define
class MemoryOrchestrator:
    """Tasks and their accepted results, with the calls of the ``Orchestrator`` port."""

    tasks: dict[str, TaskSnapshot] = Factory(dict[str, TaskSnapshot])
    reports: list[tuple[str, Result]] = Factory(list[tuple[str, Result]])

    def assign(self, attempt: Attempt) -> None:
        self.tasks[attempt.task_id] = TaskSnapshot(
            attempt.workflow_id,
            attempt.task_id,
            attempt.retry_count,
            TaskStatus.IN_PROGRESS,
            attempt.worker_id,
            attempt.started_at,
            attempt.poll_count,
        )

    def end(self, task_id: str, status: TaskStatus) -> None:
        self.tasks[task_id] = evolve(self.tasks[task_id], status=status)

    def accepted(self) -> list[CommitRef]:
        return [task.result_ref for task in self.tasks.values() if task.result_ref is not None]

    def reload(self, _workflow_id: str | None, task_id: str) -> Answer[TaskSnapshot | None]:
        return Done(self.tasks.get(task_id))

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        self.reports.append((attempt.execution, result))
        task = self.tasks.get(attempt.task_id)
        if task is not None and task.status.is_open:
            self.tasks[attempt.task_id] = evolve(
                task,
                status=status_of(result),
                result_execution=attempt.execution,
                result_ref=result.ref if isinstance(result, Completed) else None,
            )
        return Done(None)


@define
class MemoryWorkspace:
    """A body that produces ``tree`` (``None``: changes nothing), or whatever events it is given."""

    tree: str | None = "tree-1"
    events: list[BodyEvent] = Factory(list[BodyEvent])
    removed: list[str] = Factory(list[str])

    def prepare(self, _attempt: Attempt) -> Answer[None]:
        return Done(None)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        if self.events:
            return Done(self.events.pop(0))
        return Done(BodyDone(attempt.execution, self.tree is not None, '{"rows":1}'))

    def resume(self, attempt: Attempt, sink: MemorySink) -> Answer[BodyEvent]:
        if self.tree is not None:
            sink.write(self.tree)
        return self.run(attempt)

    def upload(self, _attempt: Attempt, sink: MemorySink) -> Answer[None]:
        if self.tree is not None:
            sink.write(self.tree)
        return Done(None, operations=3)

    def remove(self, attempt: Attempt) -> Answer[None]:
        self.removed.append(attempt.execution)
        return Done(None)


@define
class MemoryCoordination:
    """Keys and leases on the clock of the world, with the calls of the ``Coordination`` port."""

    clock: MemoryClock
    entries: dict[str, tuple[str, str | None]] = Factory(dict[str, tuple[str, str | None]])
    leases: dict[str, tuple[float, float]] = Factory(dict[str, tuple[float, float]])
    granted: int = 0

    def _expire(self) -> None:
        dead = {lease for lease, (until, _ttl) in self.leases.items() if until <= self.clock.time}
        for lease in dead:
            self._end(lease)

    def _end(self, lease: str) -> None:
        self.leases.pop(lease, None)
        self.entries = {key: entry for key, entry in self.entries.items() if entry[1] != lease}

    def get(self, key: str) -> Answer[Entry | None]:
        self._expire()
        return Done(Entry(key, self.entries[key][0]) if key in self.entries else None)

    def create_if_absent(self, key: str, value: str, lease: str | None = None) -> Answer[Entry]:
        self._expire()
        if lease is not None and lease not in self.leases:
            return NotDone(f"no lease {lease}")
        self.entries.setdefault(key, (value, lease))
        return Done(Entry(key, self.entries[key][0]))

    def swap(self, key: str, expected: str | None, value: str | None) -> Answer[bool]:
        self._expire()
        found = self.entries.get(key)
        if (None if found is None else found[0]) != expected:
            return Done(value=False)
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = (value, None)
        return Done(value=True)

    def list(self, prefix: str) -> Answer[tuple[Entry, ...]]:
        self._expire()
        keys = sorted(key for key in self.entries if key.startswith(prefix))
        return Done(tuple(Entry(key, self.entries[key][0]) for key in keys))

    def grant(self, ttl: float) -> Answer[str]:
        self.granted += 1
        lease = f"lease-{self.granted}"
        self.leases[lease] = (self.clock.time + ttl, ttl)
        return Done(lease)

    def keep_alive(self, lease: str) -> Answer[bool]:
        self._expire()
        if lease not in self.leases:
            return Done(value=False)
        _until, ttl = self.leases[lease]
        self.leases[lease] = (self.clock.time + ttl, ttl)
        return Done(value=True)

    def revoke(self, lease: str) -> Answer[None]:
        self._end(lease)
        return Done(None)


Faults: TypeAlias = Mapping[str, Mapping[str, Sequence[Fault | None]]]


class Faulty:
    """A port some of whose calls go wrong: ``faults`` gives each method its faults, first call first."""

    def __init__(self, port: object, faults: Mapping[str, Sequence[Fault | None]]) -> None:
        self._port = port
        self._faults = {method: list(waiting) for method, waiting in faults.items()}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._port, name)

        def call(*args: object) -> object:
            waiting = self._faults.get(name, [])
            fault = waiting.pop(0) if waiting else None
            if fault is Fault.REFUSED:
                return NotDone("refused by the test")
            if fault is Fault.DROPPED:
                return Unknown("dropped by the test")
            answer = method(*args)
            return Unknown("lost by the test") if fault is Fault.LOST else answer

        return call


@define
class World:
    """The four ports and the clock, together."""

    clock: MemoryClock = Factory(MemoryClock)
    store: MemoryStore = Factory(MemoryStore)
    orchestrator: MemoryOrchestrator = Factory(MemoryOrchestrator)
    workspace: MemoryWorkspace = Factory(MemoryWorkspace)
    coordination: MemoryCoordination = field(
        default=Factory(lambda self: MemoryCoordination(self.clock), takes_self=True),
    )

    def ports(self, faults: Faults | None = None, **more: Any) -> Ports:  # noqa: ANN401
        """Wrap the ports for one execution, some of their calls faulty."""
        wrong = faults or {}
        ports: dict[str, Any] = {
            name: Faulty(getattr(self, name), wrong[name]) if name in wrong else getattr(self, name)
            for name in ("orchestrator", "store", "workspace", "coordination", "clock")
        }
        return Ports(**{**ports, **more})

    def attempt(self, number: int = 1, backing: Backing = Backing.SOFT, **more: Any) -> Attempt:  # noqa: ANN401
        """Hand out an attempt of the one logical task, with its task in progress."""
        given: dict[str, Any] = {
            "workflow_id": "wf",
            "task_id": f"task-{number}",
            "retry_count": number - 1,
            "logical_task": "wf/clean/1",
            "number": number,
            "execution": f"run-{number}",
            "target": TARGET,
            "input": INPUT,
            "backing": backing,
            "worker_id": f"worker-{number}",
            "operation": Operation.LOGICAL,
        }
        attempt = Attempt(**{**given, **more})
        self.orchestrator.assign(attempt)
        return attempt

    def abandon(self, backing: Backing, *, ledger: bool) -> CommitRef:
        """Publish with attempt 1, kill it before its report, let the orchestrator time it out (P-16)."""

        def crash_before_report(point: Failpoint) -> None:
            if str(point) == "orchestrator.report.before":
                raise CrashError

        with suppress(CrashError):
            drive(self.attempt(1, backing, ledger=ledger), self.ports(reached=crash_before_report))
        self.orchestrator.end("task-1", TaskStatus.TIMED_OUT)
        self.clock.sleep(60)
        return self.branch_head()

    def branch_head(self) -> CommitRef:
        """Give the target's tip."""
        return self.store.branches[TARGET.branch]
