"""Data sets as a body has them, in this process: each task reads the head, and what it wrote becomes the head."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perago_core.values import CommitRef
from perago_spark.api.datasets import DatasetScope, SparkDatasets
from tests.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def datasets(spark: SparkSession, lake: Lake, at: CommitRef, *, maintenance: bool = False) -> SparkDatasets:
    """Give the data sets of a task that reads this commit; its staging name begins at the first write."""
    given = DatasetScope(f"run-{lake.names}", lake.source(at), "", read_only=False, maintenance=maintenance)
    return SparkDatasets(spark, given, lambda: lake.stage(at))


class TaskRunner:
    """A lake whose commits are made one after the other by tasks of this process."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.spark = spark
        self.lake = lake
        self.at = lake.head

    @contextmanager
    def task(self, *, maintenance: bool = False) -> Generator[SparkDatasets]:
        """Run a task; if it ends well and has changed something, its commit is what the next one reads."""
        ws = datasets(self.spark, self.lake, self.at, maintenance=maintenance)
        yield ws
        assert ws.unfinished == ()
        if ws.changed:
            made = self.lake.committed()
            assert made is not None
            self.at = made

    def rows(self, name: str) -> list[int]:
        """Read the column ``id`` of a data set, sorted."""
        found = datasets(self.spark, self.lake, self.at).read(name).select("id").collect()
        return sorted(each["id"] for each in found)

    def files(self, name: str) -> int:
        """Count the data files of a data set."""
        return sum(each.startswith(f"{name}/") and each.endswith(".parquet") for each in self.lake.paths(self.at))
