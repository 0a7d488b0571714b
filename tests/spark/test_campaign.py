"""Campaigns on Spark: the same digest for each schedule on any number of partitions, and on either engine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from perago_core.values import Backing
from perago_simulation.campaign import Campaign, Folder, Summary, carry_out
from perago_simulation.world.settings import setting
from perago_spark.campaign import mapped

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
CAMPAIGN = Campaign(setting=setting(Backing.SOFT, crashes=1, no_ops=True))
SCHEDULES = 640


def here(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    return map(function, items)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Make them here, one after the other."""
    return carry_out(CAMPAIGN, Folder(tmp_path_factory.mktemp("here")), SCHEDULES, here)


@pytest.mark.parametrize("partitions", [2, 8, 32])
def test_a_schedule_has_one_digest_on_any_number_of_partitions(
    spark: SparkSession, tmp_path: Path, reference: Summary, partitions: int
) -> None:
    """Acceptance 10; and Spark itself reads the outcomes as one table."""

    def engine(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        assert len(items) == partitions
        return mapped(spark.sparkContext, function, items)

    found = carry_out(CAMPAIGN, Folder(tmp_path), SCHEDULES, engine, piece=SCHEDULES // partitions)
    assert found == reference
    table = spark.read.parquet(str(tmp_path / "outcomes"))
    assert table.selectExpr("count(*)", "count(distinct seed)", "sum(steps)").first() == (
        SCHEDULES,
        SCHEDULES,
        reference.steps,
    )
    broken = table.where("violation is not null").groupBy("violation").count().collect()
    assert {each["violation"]: each["count"] for each in broken} == {
        each.property: each.schedules for each in reference.broken
    }


def test_a_task_that_fails_is_told(spark: SparkSession) -> None:
    def half(item: int) -> int:
        if item == 3:
            raise ValueError("a bad item")
        return item // 2

    with pytest.raises(Exception, match="a bad item"):
        list(mapped(spark.sparkContext, half, list(range(4))))
    assert sorted(mapped(spark.sparkContext, half, [0, 2, 4])) == [0, 1, 2]


def test_the_command_runs_a_campaign_on_spark_and_goes_on_in_processes(tmp_path: Path, reference: Summary) -> None:
    """One folder, two engines, one digest."""
    asked = ["--backing", "soft", "--crashes", "1", "--no-ops", "--out", str(tmp_path / "out"), "--json"]
    first = _perago("campaign", "--on", "spark", "--master", "local[2]", "--schedules", "400", "--piece", "100", *asked)
    assert first["schedules"] == 400
    second = _perago("campaign", "--on", "processes", "--schedules", str(SCHEDULES), "--resume", *asked)
    assert second["digest"] == reference.digest
    assert second["outcomes"] == reference.outcomes


def test_a_spark_that_cannot_work_says_so_in_one_line(tmp_path: Path) -> None:
    wrong = "spark.pyspark.python=/no/such/python"
    asked = ("campaign", "--on", "spark", "--schedules", "10", "--conf", wrong, "--out", str(tmp_path / "out"))
    ran = subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", *asked], capture_output=True, text=True, check=False
    )
    told = " ".join(ran.stderr.partition("error: ")[2].split())
    assert ran.returncode == 1
    assert told.startswith(
        "expected a Python that Spark can start for its workers; found nothing that runs at /no/such"
    )
    assert len(told) < 400


def _perago(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "perago_worker", *arguments]
    told = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)  # noqa: S603  our own
    assert told.returncode == 1, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found
