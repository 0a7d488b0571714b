"""One Spark for the data source, one warm body for the workspace. Skipped where Spark is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perago_spark import Launch, SparkSettings, SparkTask, SparkWorkspace, WarmBodies
from tests.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = SparkSettings(
    master="local[2,2]",
    conf={
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        # Small frames: compiling a query takes longer than running it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    },
)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from perago_spark.process.java import java_environment  # noqa: PLC0415  only with Spark
    from perago_spark.process.session import open_session  # noqa: PLC0415  as above

    os.environ.update(java_environment(os.environ))
    os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
    session = open_session(SETTINGS, tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    return Launch("tests.spark.bodies:call", SETTINGS.text(), dict(os.environ), tmp_path_factory.mktemp("bodies"))


@pytest.fixture(scope="session")
def bodies(launch: Launch) -> Iterator[WarmBodies]:
    pytest.importorskip("pyspark")
    made = WarmBodies(launch)
    yield made
    made.close()


@pytest.fixture
def printed() -> list[str]:
    return []


@pytest.fixture
def workspace(bodies: WarmBodies, lake: Lake, printed: list[str]) -> SparkWorkspace:
    from tests.spark.bodies import TASKS  # noqa: PLC0415  its module imports Spark

    tasks = {name: SparkTask(name, prefix="sales/", timeout=240.0) for name in TASKS}
    return SparkWorkspace(lake.store, tasks, bodies, listener=lambda _attempt, line: printed.append(line))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Spark's own warnings are not ours: it leaves sockets to the collector, and warns about its dependencies."""
    for item in items:
        if Path(__file__).parent in Path(item.path).parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
