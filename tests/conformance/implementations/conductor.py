"""Conductor joins the orchestrator suite: one real server for the whole run, a domain of its own for each test."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path

from attrs import frozen

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conformance.harness import Accepted, OrchestratorHarness, Recipe
from perago_conformance.support import race
from perago_core.ports import Orchestrator
from perago_core.values import CommitRef, Target
from tests.conformance.opener import Opener
from tests.local.coordinating import RealClock
from tests.support.conductor.operating import Operator
from tests.support.servers.sharing import shared_conductor

NEEDS_SERVERS = True

#: Long enough for a busy machine to send a heartbeat, or to run a race, in time.
TIMEOUT = 15


@frozen
class DecidingClock(RealClock):
    """Real time; after a sleep Conductor is made to look at what is due, which by itself may take it minutes."""

    operator: Operator

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self.operator.decide()


@frozen
class ConductorHarness:
    port: ConductorOrchestrator
    operator: Operator
    clock: DecidingClock
    response_timeout: float = TIMEOUT

    @property
    def recipe(self) -> Recipe[Orchestrator]:
        return partial(ConductorOrchestrator, self.operator.url, domain=self.operator.domain, timeout=60.0)

    def start(self, steps: tuple[str, ...], target: Target, ref: CommitRef, retries: int = 2) -> str:
        return self.operator.start(steps, target, ref, retries=retries)

    def terminate(self, workflow_id: str) -> None:
        self.operator.terminate(workflow_id)

    def redeliver(self, workflow_id: str, task_id: str) -> None:
        (task,) = (each for each in self.operator.tasks(workflow_id) if each["taskId"] == task_id)
        self.operator.requeue(task["taskType"])

    def accepted(self, workflow_id: str) -> tuple[Accepted, ...]:
        """Give what each completed step handed on: to the next step, or as the output of the whole."""
        workflow = self.operator.workflow(workflow_id)
        shown: list[Accepted] = []
        for task in self.operator.tasks(workflow_id):
            if task["status"] == "COMPLETED":
                last = task["referenceTaskName"] == workflow["workflowDefinition"]["tasks"][-1]["taskReferenceName"]
                output = workflow["output"] if last else task["outputData"]
                ref, result = CommitRef(output["workspace"]["ref"]), json.dumps(output["result"])
                shown.append(Accepted(task["referenceTaskName"], task["taskId"], ref, result))
        return tuple(shown)


@cache
def _racers_are_warm(url: str) -> None:
    """Let the racing processes start before the first task is handed out: it would time out while they import."""
    assert list(race(None, partial(ConductorOrchestrator, url), _nothing, rounds=1, threads=1))


def _nothing(_port: object, _number: int, _racer: int) -> None:
    """Be there."""


@contextmanager
def open_orchestrator(_folder: Path) -> Generator[OrchestratorHarness]:
    url, domain = shared_conductor().api, uuid.uuid4().hex[:12]
    _racers_are_warm(url)
    with (
        closing(Operator(url, domain, response_timeout=TIMEOUT)) as operator,
        closing(ConductorOrchestrator(url, domain=domain, timeout=60.0)) as port,
    ):
        yield ConductorHarness(port, operator, DecidingClock(operator))


ORCHESTRATORS: Mapping[str, Opener[OrchestratorHarness]] = {"conductor": open_orchestrator}
