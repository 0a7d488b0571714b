"""Iceberg tables on a branch: whoever stands at the root of a checked-out commit reads them, with nothing of ours."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perago_spark.errors import DatasetError
from tests.spark.lake import Lake, TaskRunner, datasets

pytest.importorskip("pyspark")

from tests.tables.reading import checked_out, read_by_iceberg_on_spark, read_by_pyiceberg
from tests.tables.story import Story, by_id, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_commit_is_a_version_that_plain_readers_read(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Metadata names the table's path on the branch, and the table lies there in every checkout."""
    story = Story(spark, lake, "iceberg")
    story.play()
    roots = [checked_out(lake, ref, tmp_path / f"at-{ref}") for ref, _ in story.commits]
    by_python = [read_by_pyiceberg(root, "orders") for root in roots]
    for (_, rows), read in zip(story.commits, by_python, strict=True):
        assert by_id(read) == rows
    for at in (0, -1):  # a Spark each, because its Java stands where it was started
        assert by_id(read_by_iceberg_on_spark(roots[at], "orders")) == story.commits[at][1]


def test_two_tasks_that_write_one_table_from_one_commit_conflict(spark: SparkSession, lake: Lake) -> None:
    runner = TaskRunner(spark, lake)
    with runner.task() as ws:
        ws.write("orders", numbers(spark, 0, 10), format="iceberg")
    base, made = runner.at, list[str]()
    for first in (10, 20):
        ws = datasets(spark, lake, base)
        ws.write("orders", numbers(spark, first, first + 10), format="iceberg", mode="append")
        made.append(str(lake.committed()))
    repository = lake.folder / f"{lake.target.repository}.git"
    merging = ["git", "-C", str(repository), "merge-tree", "--write-tree", *made]
    merged = subprocess.run(merging, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    assert merged.returncode == 1
    assert "metadata/v2.metadata.json" in merged.stdout


def test_kinds_of_tables_are_not_taken_for_each_other(spark: SparkSession, lake: Lake) -> None:
    runner = TaskRunner(spark, lake)
    with runner.task() as ws:
        ws.write("orders", numbers(spark, 0, 3), format="iceberg")
    with pytest.raises(DatasetError, match="found a table of Iceberg"):
        datasets(spark, lake, runner.at).write("orders", numbers(spark, 0, 3))
    with pytest.raises(DatasetError, match="Delta in Spark"):
        datasets(spark, lake, runner.at).write("orders", numbers(spark, 0, 3), format="delta")
    with pytest.raises(DatasetError, match="merge_schema=True"):
        datasets(spark, lake, runner.at).merge("orders", numbers(spark, 0, 3), keys=["id"], merge_schema=True)
