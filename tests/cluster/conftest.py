"""Spark on a cluster and behind a server, and bodies that use it. Run by ``make test-servers``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perago_spark import Launch, SparkSettings, SparkTask, SparkWorkspace, WarmBodies
from tests.cluster.servers import Connect, Standalone, connect, search_path, standalone
from tests.spark.fault_harness import FaultHarness, harness_of
from tests.spark.lake import Lake
from tests.support.servers.fixtures import lakefs_server

__all__ = ["lakefs_server"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    with connect(tmp_path_factory.mktemp("connect")) as started:
        yield started


@pytest.fixture(scope="module")
def conf() -> dict[str, str]:
    """What one file sets otherwise, by a fixture of the same name."""
    return {}


@pytest.fixture(scope="module")
def settings(cluster: Standalone, conf: dict[str, str]) -> SparkSettings:
    """How bodies run: on the cluster, unless a file says otherwise."""
    return SparkSettings(
        cluster.url,
        {
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": "2",
            "spark.pyspark.python": sys.executable,
            "spark.executorEnv.PYTHONPATH": search_path(),
            # Both executors before the first task, so that a copy of it has somewhere to go.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            **conf,
        },
    )


@pytest.fixture(scope="module")
def bodies(settings: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmBodies]:
    """Bodies that the tests of one file share."""
    root = tmp_path_factory.mktemp("bodies")
    made = WarmBodies(Launch("tests.spark.bodies:call", settings.text(), dict(os.environ), root))
    yield made
    made.close()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def harness(lake: Lake, bodies: WarmBodies, tmp_path: Path) -> Iterator[FaultHarness]:
    from tests.spark.bodies import TASKS  # noqa: PLC0415  its module imports Spark

    tasks = {name: SparkTask(name, prefix="sales/", timeout=1200.0) for name in TASKS}
    yield from harness_of(lake, SparkWorkspace(lake.store, tasks, bodies), bodies, tmp_path / "marks")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Spark's own warnings are not ours: it leaves sockets to the collector, and warns about its dependencies."""
    for item in items:
        if Path(__file__).parent in Path(item.path).parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
