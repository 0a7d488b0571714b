"""What an orchestrator is told about a task, and who may start when it was told something else."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from perago_conductor.documents import response_timeout, task_document
from perago_core.budget import PublishBudget
from perago_core.pipelines import DeclaredTask
from perago_worker.api.task import TaskDefinition, Workspace, definition_of, task
from perago_worker.pipelines.taskdefs import settle_drift
from perago_worker.runtime.bootstrap import StartError

BUDGET = PublishBudget(heartbeat_interval=2.5, completion_reserve=10)


def _task(seconds: float) -> TaskDefinition:
    @task(name="work", workspace=Workspace(), response_timeout=seconds, retry_delay=0.2)
    def work(workspace: Path) -> int:
        return len(workspace.name)

    found = definition_of(work)
    assert found is not None
    return found


@pytest.mark.parametrize(("declared", "told"), [(600, 600), (60.2, 61), (3, 13), (12.5, 13)])
def test_the_response_timeout_is_whole_never_shorter_than_declared_and_covers_the_report(
    declared: float, told: int
) -> None:
    """T-P5: a budget never lowers it. Conductor cuts fractions off."""
    assert response_timeout(_task(declared), BUDGET) == told


def test_a_definition_has_no_fractions_and_both_schemas() -> None:
    told = task_document(_task(1.5), BUDGET)
    assert told["retryDelaySeconds"] == 1
    assert all(not isinstance(value, float) for value in told.values())
    assert told["inputSchema"]["data"]["required"] == ["workspace"]
    assert told["outputSchema"]["data"]["required"] == ["result", "workspace"]


@define
class Shared:
    """A place where others register too; it keeps what it was told last."""

    shared: bool = True
    kept: dict[str, Mapping[str, Any]] = field(factory=dict[str, Mapping[str, Any]])

    def register(self, tasks: Iterable[DeclaredTask]) -> None:
        self.kept |= {each.name: self.described(each) for each in tasks}

    def described(self, task: DeclaredTask) -> Mapping[str, Any]:
        return task_document(task, BUDGET)

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        return self.kept


def test_nobody_starts_on_somebody_elses_definition_unless_told(caplog: pytest.LogCaptureFixture) -> None:
    place, mine = Shared(), {"work": _task(100)}
    with pytest.raises(StartError, match="work: declared, and not registered"):
        settle_drift(mine, place, "fail")
    place.register([_task(50)])
    with pytest.raises(StartError, match="responseTimeoutSeconds: declared 100, registered 50"):
        settle_drift(mine, place, "fail")
    with caplog.at_level(logging.WARNING, logger="perago"):
        settle_drift(mine, place, "warn")
    assert "registered 50" in caplog.text
    assert place.kept["work"]["responseTimeoutSeconds"] == 50
    settle_drift(mine, place, "register")
    assert place.kept["work"]["responseTimeoutSeconds"] == 100
    settle_drift(mine, place, "fail")


def test_where_nobody_else_registers_a_start_registers() -> None:
    place = Shared(shared=False)
    settle_drift({"work": _task(100)}, place, "fail")
    assert "work" in place.kept
