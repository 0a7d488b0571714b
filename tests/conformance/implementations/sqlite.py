"""The embedded orchestrator and coordination store join the suites, on a clock that sleeping puts forward."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen

from perago_clock import MachineClock
from perago_conformance.harness import Accepted, CoordinationHarness, OrchestratorHarness, Recipe
from perago_core.ports import Coordination, Orchestrator
from perago_core.values import CommitRef, Target, TaskStatus
from perago_local.coordination import SqliteCoordination
from perago_local.orchestrator import SqliteOrchestrator
from perago_local.orchestrator.workflow import TaskDefinition, WorkflowStep
from tests.conformance.opener import Opener
from tests.conformance.skipping_clock import SkippingClock

#: Seconds that no machine is too busy for; waiting them out costs nothing on this clock.
LONG = 300.0


@frozen
class SqliteOrchestratorHarness:
    path: Path
    port: SqliteOrchestrator
    clock: MachineClock
    response_timeout: float = LONG

    @property
    def recipe(self) -> Recipe[Orchestrator]:
        return partial(SqliteOrchestrator, self.path)

    def start(self, steps: tuple[str, ...], target: Target, ref: CommitRef, retries: int = 2) -> str:
        for step in steps:
            definition = TaskDefinition(
                step,
                retry_count=retries,
                retry_delay=0.0,
                response_timeout=self.response_timeout,
            )
            self.port.register(definition)
        return self.port.start_workflow(
            "suite", tuple(WorkflowStep(step, step) for step in steps), target=target, ref=ref
        )

    def terminate(self, workflow_id: str) -> None:
        self.port.terminate(workflow_id)

    def redeliver(self, workflow_id: str, task_id: str) -> None:
        assert any(task.task_id == task_id for task in self.port.tasks(workflow_id))
        self.port.requeue(task_id)

    def accepted(self, workflow_id: str) -> tuple[Accepted, ...]:
        return tuple(
            Accepted(task.step, task.task_id, task.result_ref, task.output)
            for task in self.port.tasks(workflow_id)
            if task.status is TaskStatus.COMPLETED and task.result_ref is not None and task.output is not None
        )


@frozen
class SqliteCoordinationHarness:
    path: Path
    port: SqliteCoordination
    clock: MachineClock
    ttl: float = LONG

    @property
    def recipe(self) -> Recipe[Coordination]:
        return partial(SqliteCoordination, self.path)


@contextmanager
def open_orchestrator(folder: Path) -> Generator[OrchestratorHarness]:
    path, clock = folder / "orchestrator.db", SkippingClock()
    with closing(SqliteOrchestrator(path, clock=clock)) as port:
        yield SqliteOrchestratorHarness(path, port, clock)


@contextmanager
def open_coordination(folder: Path) -> Generator[CoordinationHarness]:
    path, clock = folder / "coordination.db", SkippingClock()
    with closing(SqliteCoordination(path, clock=clock)) as port:
        yield SqliteCoordinationHarness(path, port, clock)


ORCHESTRATORS: Mapping[str, Opener[OrchestratorHarness]] = {"sqlite": open_orchestrator}
COORDINATIONS: Mapping[str, Opener[CoordinationHarness]] = {"sqlite": open_coordination}
LEASES = COORDINATIONS
