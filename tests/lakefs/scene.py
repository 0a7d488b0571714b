"""A repository of its own on a real server, tasks to publish to it, and the ports an attempt is driven over.

Only the store is real here: the clock and the keys are simulated and the orchestrator says what it is told, so what a
test sees is what lakeFS did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from io import BytesIO
from secrets import token_hex
from typing import Any

from attrs import Factory, define, evolve, field, frozen

from perago_conformance.support import done
from perago_core.answers import Answer, Done
from perago_core.attempt.messages import BodyDone, BodyEvent
from perago_core.driver import Ports, drive
from perago_core.failpoints import Failpoint
from perago_core.ports import Sink
from perago_core.results import Completed, Outcome, Result, status_of
from perago_core.values import Attempt, Backing, CommitRef, OnAbandoned, Target, TaskSnapshot, TaskStatus
from perago_lakefs import Connection, LakeFSStore
from perago_lakefs.install import install
from perago_simulation.ports import SimulatedWorld
from tests.core.world import CrashError
from tests.support.lakefs.stranger import Stranger
from tests.support.servers.lakefs import LakeFS

Files = Mapping[str, bytes]


@frozen
class Body:
    """A workspace whose body writes these files, through the sink of whatever store there is."""

    files: Files

    def prepare(self, _attempt: Attempt) -> Answer[None]:
        return Done(None)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        return Done(BodyDone(attempt.execution, bool(self.files), "{}"))

    def resume(self, attempt: Attempt, _sink: Sink) -> Answer[BodyEvent]:
        return self.run(attempt)

    def upload(self, _attempt: Attempt, sink: Any) -> Answer[None]:  # noqa: ANN401  a sink that can also write
        for path, data in self.files.items():
            done(sink.write(path, BytesIO(data)))
        return Done(None)

    def remove(self, _attempt: Attempt) -> Answer[None]:
        return Done(None)


@define
class ToldOrchestrator:
    """What an attempt asks of an orchestrator, over tasks in the states the test says.

    Not the simulated one, which numbers deliveries itself and hands none out after a terminal failure: here one attempt
    is delivered twice under one number, and attempts follow whatever the one before them came to.
    """

    tasks: dict[str, TaskSnapshot] = Factory(dict[str, TaskSnapshot])

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
class Scene:
    """One repository with a branch ``main``, at a commit that tasks take as their input."""

    store: LakeFSStore
    stranger: Stranger
    target: Target
    input: CommitRef
    orchestrator: ToldOrchestrator = field(factory=ToldOrchestrator)

    @classmethod
    def on(cls, server: LakeFS, *, hooked: bool = True, publish_timeout: float = 30.0) -> Scene:
        name = f"lake-{token_hex(6)}"
        connection = Connection(server.url, server.access_key, server.secret_key, publish_timeout=publish_timeout)
        target, stranger = Target(name, "main"), Stranger(connection)
        stranger.create_repository(name, target.branch, f"{server.namespaces}/{name}")
        if hooked:
            done(install(connection, target))
        at = stranger.commits(target, {"data.txt": b"of the input", "keep.txt": b"keep"})
        return cls(LakeFSStore(connection, (name,)), stranger, target, at)

    def through(self, url: str, publish_timeout: float = 30.0) -> LakeFSStore:
        """Give the store reached another way."""
        connection = evolve(self.stranger.connection, url=url, publish_timeout=publish_timeout)
        return LakeFSStore(connection, (self.target.repository,))

    def attempt(self, number: int = 1, backing: Backing = Backing.CONDITIONAL, task: str = "wf/step") -> Attempt:
        """Hand out an attempt with an execution of its own; every earlier one of the task is given up."""
        for each in range(1, number):
            with suppress(KeyError):
                snapshot = self.orchestrator.tasks[f"{task}-{each}"]
                if snapshot.status.is_open:
                    self.orchestrator.end(f"{task}-{each}", TaskStatus.TIMED_OUT)
        made = Attempt(
            workflow_id="wf",
            task_id=f"{task}-{number}",
            retry_count=number - 1,
            logical_task=task,
            number=number,
            execution=token_hex(8),
            target=self.target,
            input=self.input,
            backing=backing,
            # What is asked of a relocation: one that adopts makes none, and tests/conductor/test_adoption.py has it.
            on_abandoned=OnAbandoned.REPLACE,
        )
        self.orchestrator.assign(made)
        return made

    def run(
        self,
        attempt: Attempt,
        files: Files | None = None,
        reached: Callable[[Failpoint], None] | None = None,
        store: LakeFSStore | None = None,
    ) -> Outcome:
        """Drive an attempt whose body writes these files."""
        return drive(attempt, self.ports(files or {}, reached, store))

    def ports(
        self, files: Files, reached: Callable[[Failpoint], None] | None = None, store: LakeFSStore | None = None
    ) -> Ports:
        orchestrator: Any = self.orchestrator
        workspace: Any = Body(files)
        simulated = SimulatedWorld()
        return Ports(
            orchestrator=orchestrator,
            store=store or self.store,
            workspace=workspace,
            coordination=simulated.coordination(),
            clock=simulated.clock(),
            reached=reached,
        )

    def abandon(self, attempt: Attempt, files: Files) -> CommitRef:
        """Let an attempt publish and die before it can say so; give the head it left."""
        with suppress(CrashError):
            self.run(attempt, files, crashing("orchestrator.report.before"))
        assert self.head() != self.input, "it died before it had published"
        return self.head()

    def head(self) -> CommitRef:
        return self.stranger.head(self.target)

    def history(self) -> list[CommitRef]:
        """Give the branch by first parent, newest first, down to the input."""
        log = [CommitRef(each["id"]) for each in self.stranger.log(self.target)]
        return log[: log.index(self.input) + 1]

    def file(self, path: str = "data.txt", ref: str = "main") -> bytes | None:
        return self.stranger.reads(self.target.repository, ref, path)


def crashing(name: str) -> Callable[[Failpoint], None]:
    """Die at a failpoint."""
    return doing(name, _die)


def _die() -> None:
    raise CrashError


def doing(name: str, act: Callable[[], object]) -> Callable[[Failpoint], None]:
    """Let something happen the first time a failpoint is reached."""
    wanted, left = Failpoint.parse(name), [act]

    def reached(point: Failpoint) -> None:
        if point == wanted and left:
            left.pop()()

    return reached
