"""``@task`` on Spark data sets, beside one on files, through the worker's own parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_core.driver import drive
from perago_core.results import Completed, Failed, FailedTerminally, Result
from perago_spark import SparkWorkspace, WarmBodies
from perago_worker.api.errors import TaskDefinitionError
from perago_worker.api.registry import Registry
from perago_worker.api.task import Workspace, task
from perago_worker.bodies.pool import Bodies
from perago_worker.folders.cache import Cache
from perago_worker.folders.workspace import LocalWorkspace
from perago_worker.spark import Workspaces, spark_tasks
from tests.spark.lake import Lake

pytest.importorskip("pyspark")

MODULE = "tests.spark.sample_tasks"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.of_modules(MODULE)


@pytest.fixture(scope="module")
def files(registry: Registry) -> Iterator[Bodies]:
    made = Bodies(registry.modules())
    yield made
    made.close()


def run(lake: Lake, workspace: Workspaces, name: str, **params: object) -> Result | None:
    attempt = lake.attempt(name)
    workspace.accept(attempt, name, json.dumps(params))
    return drive(attempt, lake.ports(workspace)).result


def test_tasks_of_both_kinds_run_in_one_worker(
    lake: Lake, registry: Registry, files: Bodies, bodies: WarmBodies, tmp_path: Path
) -> None:
    """Parameters, pre- and post-checks and results are those of any task (S-36)."""
    local = LocalWorkspace(lake.store, registry, files, tmp_path / "work", Cache(tmp_path / "cache", 1 << 30))
    both = Workspaces(local, SparkWorkspace(lake.store, spark_tasks(registry), bodies), registry)
    made = run(lake, both, "spark.ingest", rows=50)
    assert isinstance(made, Completed), made
    assert json.loads(made.output) == {"rows": 50}
    noted = run(lake, both, "files.note")
    assert isinstance(noted, Completed), noted
    assert {each.split("/")[0] for each in lake.paths()} == {"README", "sales", "notes"}
    before = lake.head
    bad = run(lake, both, "spark.ingest", rows="many")
    assert isinstance(bad, FailedTerminally)
    assert "rows: Input should be a valid integer" in str(bad.refusal)
    hopeless = run(lake, both, "spark.ingest", rows=-1)
    assert isinstance(hopeless, FailedTerminally)
    empty = run(lake, both, "spark.ingest", rows=0)
    assert isinstance(empty, Failed)
    assert "post-check: some_rows returned False" in str(empty.refusal)
    assert (lake.head, lake.stagings()) == (before, ())


def test_a_workspace_of_no_kind_is_refused_where_it_is_declared() -> None:
    def wrong(ws: dict[str, int]) -> None:
        del ws

    with pytest.raises(TaskDefinitionError, match=r"Annotate it with pathlib\.Path, or SparkDatasets"):
        task(name="wrong", workspace=Workspace())(wrong)
