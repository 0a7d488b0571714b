"""Delta tables on a branch: every commit is a version of the table, and whoever reads it needs nothing of ours."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perago_spark.errors import DatasetError
from perago_spark.tables.seal import table_discrepancy
from tests.spark.lake import Lake, TaskRunner, datasets, done

pytest.importorskip("pyspark")

from perago_spark import SparkDatasets
from perago_spark.tables.delta import DeltaTable
from perago_spark.tables.table import TableWrite
from tests.docs.documents import blocks
from tests.tables import delta
from tests.tables.reading import checked_out, read_by_deltalake
from tests.tables.story import Story, by_id, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "spark.sql.catalog.spark_catalog"


def test_every_commit_is_a_version_that_plain_readers_read(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Wherever a commit is checked out: Delta's own paths are relative, and the log is part of the commit."""
    story = Story(spark, lake, "delta")
    story.play()
    assert any(each.endswith(".checkpoint.parquet") for each in lake.paths(story.runner.at))
    tables = [checked_out(lake, ref, tmp_path / f"at-{ref}") / "orders" for ref, _ in story.commits]
    for (_, rows), table, (version, read) in zip(story.commits, tables, read_by_deltalake(*tables), strict=True):
        assert by_id(read) == rows, version
        plain = spark.read.format("delta").load(str(table)).collect()
        assert by_id([each.asDict() for each in plain]) == rows, version
    first = spark.read.format("delta").option("versionAsOf", "0").load(str(tables[-1]))
    assert first.count() == 20, "Delta's own time travel works in every commit, too"


def test_a_task_reads_the_table_of_its_own_commit(spark: SparkSession, lake: Lake) -> None:
    """Time travel by branch commit; columns and filters as for any data set."""
    runner = TaskRunner(spark, lake)
    with runner.task() as ws:
        ws.write("orders", numbers(spark, 0, 10), format="delta")
    then = runner.at
    with runner.task() as ws:
        ws.write("orders", numbers(spark, 0, 3), format="delta")
    earlier, later = datasets(spark, lake, then), datasets(spark, lake, runner.at)
    assert earlier.read("orders").count() == 10
    found = later.read("orders", columns=["name"], filters=[("id", ">=", 1)])
    assert (found.columns, found.count()) == (["name"], 2)


def test_two_tasks_that_write_one_table_from_one_commit_conflict(spark: SparkSession, lake: Lake) -> None:
    """Appends too: both write the next entry of the log, and only one of them is it."""
    runner = TaskRunner(spark, lake)
    with runner.task() as ws:
        ws.write("orders", numbers(spark, 0, 10), format="delta")
    base, made = runner.at, list[str]()
    for first in (10, 20):
        ws = datasets(spark, lake, base)
        ws.write("orders", numbers(spark, first, first + 10), format="delta", mode="append")
        made.append(str(lake.committed()))
    repository = lake.folder / f"{lake.target.repository}.git"
    merging = ["git", "-C", str(repository), "merge-tree", "--write-tree", *made]
    merged = subprocess.run(merging, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    assert merged.returncode == 1
    assert "_delta_log/00000000000000000001.json" in merged.stdout


def test_what_losers_left_is_staged_nowhere_and_what_is_missing_is_refused(spark: SparkSession, lake: Lake) -> None:
    table = DeltaTable(spark, lake.source(), "orders/")
    table.write(numbers(spark, 0, 10), TableWrite("append"))
    (table.place / "part-00009-lost.snappy.parquet").write_bytes(b"of a task that lost")
    change = table.stage(sink := lake.stage(), "w-1")
    assert change.rows == 10
    listed = done(sink.list("orders/"))
    assert not any("lost" in each.path for each in listed)
    assert table_discrepancy(listed) is None
    assert "whose seal says" in str(table_discrepancy(listed[1:]))
    before = set(table.place.glob("*.parquet"))
    table.write(numbers(spark, 10, 20), TableWrite("append"))
    next(each for each in table.place.glob("*.parquet") if each not in before).unlink()
    with pytest.raises(DatasetError, match="as the metadata of 'orders/' says; found no such file"):
        table.stage(sink, "w-2")
    with pytest.raises(DatasetError, match="without a write that failed"):
        table.check_staged()


def test_a_table_and_a_data_set_are_not_taken_for_each_other(spark: SparkSession, lake: Lake) -> None:
    """A folder of a table holds files whose rows are no longer in it."""
    runner = TaskRunner(spark, lake)
    with runner.task() as ws:
        ws.write("table", numbers(spark, 0, 3), format="delta")
        ws.write("plain", numbers(spark, 0, 3))
    for wrong in (
        lambda: datasets(spark, lake, runner.at).write("table", numbers(spark, 0, 3)),
        lambda: datasets(spark, lake, runner.at).rows("table"),
        lambda: datasets(spark, lake, runner.at).compact("table"),
    ):
        with pytest.raises(DatasetError, match="found a table of Delta"):
            wrong()
    with pytest.raises(DatasetError, match=r"of another format"):
        datasets(spark, lake, runner.at).write("plain", numbers(spark, 0, 3), format="delta")


def test_what_a_table_has_not_is_refused(spark: SparkSession, lake: Lake) -> None:
    ws = datasets(spark, lake, lake.head)
    with pytest.raises(DatasetError, match="found via"):
        ws.write("orders", numbers(spark, 0, 3), format="delta", via="native")
    with pytest.raises(DatasetError, match="found observe"):
        ws.write("orders", numbers(spark, 0, 3), format="delta", observe={"n": spark.range(1).id})
    with pytest.raises(DatasetError, match=r"keys=\[\]"):
        ws.merge("orders", numbers(spark, 0, 3), keys=[])


def test_the_guide_says_what_happens(spark: SparkSession, lake: Lake) -> None:
    """Its program is run and its settings are those of these tests."""
    page = "specs/guide/howto/spark.md"
    (program,) = [each for each in blocks(page, "python") if each.startswith("# tables.py")]
    (conf,) = [tomllib.loads(each)["spark"]["conf"]["spark"] for each in blocks(page, "toml") if "io.delta" in each]
    ours = delta.settings()
    assert conf["sql"] == {"extensions": ours["spark.sql.extensions"], "catalog": {"spark_catalog": ours[CATALOG]}}
    artifact = conf["jars"]["packages"].removeprefix("io.delta:").replace(":", "-")
    assert f"{artifact}.jar" in ours["spark.jars"]
    names: dict[str, Any] = {"SparkDatasets": SparkDatasets, "DataFrame": object}
    exec(program, names)  # noqa: S102  this is what is tested
    runner = TaskRunner(spark, lake)
    for day, city in enumerate(["here", "there"]):
        with runner.task() as ws:
            names["orders_of_a_day"](ws, spark.range(2).selectExpr(f"{day} day", "id customer", f"'{city}' city"))
    ws = datasets(spark, lake, runner.at)
    assert ws.read("orders").count() == 4
    assert {each["city"] for each in ws.read("customers").collect()} == {"there"}
    assert ws.read("customers").count() == 2
