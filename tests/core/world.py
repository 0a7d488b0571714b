"""The simulated world as the driver's tests use it: one repository, one branch, one workflow for each step.

Store, orchestrator, workspace, coordination store and clock are the public ones of ``perago_simulation.ports``, which
the conformance suites check; here stands only how a test hands out attempts, and what it looks at afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import evolve, fields

from perago_core.answers import Done
from perago_core.driver import Ports, drive
from perago_core.failpoints import Failpoint
from perago_core.ports import Assignment
from perago_core.results import Completed, Result
from perago_core.values import Attempt, Backing, CommitRef, OnAbandoned, Target
from perago_simulation.ports import Body, SimulatedWorld
from perago_simulation.world.capabilities import Capabilities

TARGET = Target("repo", "main")
FILES = {"data": b"of the input"}
#: Commit ids are digests, so the first commit has the same one in every world.
INPUT = SimulatedWorld().store().create(TARGET, FILES)
#: A store on which every backing runs.
ABLE_TO_ALL = Capabilities(**{each.name: each.name != "overwrites" for each in fields(Capabilities)})
RETRIES = 9
#: No time-out but those a test asks for.
FOREVER = 1e9


class CrashError(BaseException):
    """The process is gone. Not an ``Exception``: nothing in the core may survive it."""


def writes(data: bytes = b"1") -> Body:
    """Give a body that writes two files."""

    def body(files: Any) -> None:  # noqa: ANN401  a mapping from paths to bytes
        files.update({"data": data, "more": data})

    return body


def changes_nothing(_files: object) -> None:
    """Be a body that leaves its files as they are."""


class Answering:
    """A port whose calls of one method happen, and are then answered as the test says: what no honest port answers."""

    def __init__(self, port: object, method: str, answer: Callable[..., object]) -> None:
        self._port = port
        self._method = method
        self._answer = answer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._port, name)

        def call(*args: object) -> object:
            given = method(*args)
            return self._answer(given, *args)

        return call if name == self._method else method


class World(SimulatedWorld):
    """A simulated world whose one branch stands at ``INPUT``."""

    def __init__(self) -> None:
        super().__init__(ABLE_TO_ALL)
        self.store().create(TARGET, FILES)
        self._workflows: dict[str, str] = {}

    def attempt(
        self,
        number: int = 1,
        backing: Backing = Backing.SOFT,
        *,
        step: str = "clean",
        body: Body | None = None,
        **more: Any,  # noqa: ANN401  other fields of the attempt
    ) -> Attempt:
        """Hand out an attempt of the step, with its task in progress; the tasks of those before it have timed out.

        Unless the test wants it otherwise, it replaces what they have left, as ``soft`` does.
        """
        assignment = self._assignment(step, number)
        task = assignment.snapshot
        plain = Attempt(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            retry_count=task.retry_count,
            logical_task=assignment.logical_task,
            number=number,
            execution=f"run-{number}",
            target=TARGET,
            input=INPUT,
            backing=backing,
            worker_id=task.worker_id,
            started_at=task.started_at,
            poll_count=task.poll_count,
            on_abandoned=OnAbandoned.REPLACE,
        )
        attempt = evolve(plain, **more)
        self.workspace().accept(attempt, body or writes())
        return attempt

    def _assignment(self, step: str, number: int) -> Assignment:
        if step not in self._workflows:
            self._workflows[step] = self.orchestrator().start(
                (step,), TARGET, INPUT, retries=RETRIES, response_timeout=FOREVER
            )
        self.give_up_open_tasks(step)
        while True:
            polled = self.orchestrator().poll(f"worker-{number}", (step,), 1)
            assert isinstance(polled, Done)
            (assignment,) = polled.value
            if assignment.number == number:
                return assignment
            self.give_up_open_tasks(step)

    def give_up_open_tasks(self, step: str = "clean") -> None:
        """Time out every task of the step that somebody works on."""
        workflow_id = self._workflows[step]
        for task in list(self.orchestrator().workflow(workflow_id).tasks):
            if task.status.is_open and task.queued_at is None:
                self.orchestrator().give_up(workflow_id, task.id)

    def abandon(self, backing: Backing, *, ledger: bool) -> CommitRef:
        """Publish with attempt 1, kill it before its report, let the orchestrator time it out (P-16)."""
        self.crash(self.attempt(1, backing, ledger=ledger), "orchestrator.report.before")
        return self.branch_head()

    def crash(self, attempt: Attempt, where: str) -> None:
        """Let an attempt of the usual step die at a failpoint, its task time out, and leases end."""

        def reached(point: Failpoint) -> None:
            if str(point) == where:
                raise CrashError

        with suppress(CrashError):
            drive(attempt, self.ports(reached=reached))
        self.give_up_open_tasks()
        self.clock().sleep(60)

    # -----------------------------------------------------------------------------------------------------------------
    # What is there

    def branch_head(self) -> CommitRef:
        """Give the target's tip."""
        return self.history()[0]

    def history(self) -> list[CommitRef]:
        """Give the target's first-parent chain, newest first."""
        repository = self.store().repositories[TARGET.repository]
        chain = [repository.branches[TARGET.branch].at]
        while parents := repository.commits[chain[-1]].parents:
            chain.append(parents[0])
        return chain

    def branches(self) -> set[str]:
        """Name the branches of the repository: the target, and the staging names that are left."""
        return set(self.store().repositories[TARGET.repository].branches)

    def results(self) -> list[Result]:
        """Give the results the orchestrator has taken, in the order of their tasks."""
        found = (self.orchestrator().workflow(each).tasks for each in self._workflows.values())
        return [task.result for tasks in found for task in tasks if task.result is not None]

    def accepted(self) -> list[CommitRef]:
        """Give the accepted commits."""
        return [result.ref for result in self.results() if isinstance(result, Completed)]


def ports_with(world: World, **others: Any) -> Ports:  # noqa: ANN401  whatever stands in for a port
    """Give the world's ports, some of them replaced."""
    own: dict[str, Any] = {
        "orchestrator": world.orchestrator(),
        "store": world.store(),
        "workspace": world.workspace(),
        "coordination": world.coordination(),
        "clock": world.clock(),
    }
    return Ports(**{**own, **others})
