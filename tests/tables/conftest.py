"""One Spark with Delta or with Iceberg, in an environment of its own: ``make test-tables``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from perago_spark import Launch, SparkSettings, SparkTask, SparkWorkspace, WarmBodies
from tests.spark.conftest import SETTINGS
from tests.spark.lake import Lake
from tests.tables import delta, iceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.tables.rounds import TableHarness


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Delta is for Spark 4.2 and Iceberg for 4.1, and neither for the newest. Spark's own warnings are not ours."""
    for item in items:
        if Path(__file__).parent in Path(item.path).parents:
            wanted = "4.1" if "iceberg" in Path(item.path).name else "4.2"
            if not version("pyspark").startswith(f"{wanted}."):
                item.add_marker(pytest.mark.skip(reason=f"needs Spark {wanted}: make test-tables"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def settings() -> SparkSettings:
    found = iceberg.settings() if version("pyspark").startswith("4.1.") else delta.settings()
    return evolve(SETTINGS, conf={**SETTINGS.conf, **found, "spark.driver.memory": "768m"})


@pytest.fixture(scope="session")
def spark(settings: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from perago_spark.process.java import java_environment  # noqa: PLC0415  only with Spark
    from perago_spark.process.session import open_session  # noqa: PLC0415  as above

    os.environ.update(java_environment(os.environ))
    os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("stands"))  # where Java is started, relative locations begin
    session = open_session(settings, tmp_path_factory.mktemp("spark"))
    os.chdir(before)
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture(scope="session")
def bodies(settings: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmBodies]:
    root = tmp_path_factory.mktemp("bodies")
    made = WarmBodies(Launch("tests.spark.bodies:call", settings.text(), dict(os.environ), root))
    yield made
    made.close()


@pytest.fixture
def harness(lake: Lake, bodies: WarmBodies, tmp_path: Path) -> TableHarness:
    from tests.spark.faults import Marks  # noqa: PLC0415  only with Spark
    from tests.tables.rounds import TableHarness  # noqa: PLC0415  as above

    tasks = {"writes_rows": SparkTask("writes_rows", prefix="sales/", timeout=240.0)}
    (tmp_path / "marks").mkdir()
    made = TableHarness(lake, SparkWorkspace(lake.store, tasks, bodies), bodies, Marks(tmp_path / "marks"))
    made.kind = "iceberg" if version("pyspark").startswith("4.1.") else "delta"
    return made
