"""Tables as far as no Delta is needed: their log is read, and a Spark without Delta is told what to set.

``tests/tables`` has a Spark with Delta.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perago_core.ports import Stored
from perago_spark.errors import DatasetError
from perago_spark.format.seal import discrepancy
from perago_spark.tables.log import change_of, version_of
from tests.spark.lake import Lake, datasets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def entry(table: Path, version: int, *actions: dict[str, Any]) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(each) for each in actions), "utf-8")


def added(path: str, rows: int) -> dict[str, Any]:
    return {"add": {"path": path, "size": 7, "stats": json.dumps({"numRecords": rows})}}


def counted(**metrics: int) -> dict[str, Any]:
    return {"commitInfo": {"operationMetrics": {name: str(value) for name, value in metrics.items()}}}


def test_a_change_is_what_the_log_says(tmp_path: Path) -> None:
    assert version_of(tmp_path) is None
    entry(tmp_path, 0, counted(numOutputRows=3), added("k=a%2520b/part-0.parquet", 3))
    entry(
        tmp_path,
        1,
        counted(numTargetRowsInserted=2, numTargetRowsUpdated=1, numOutputRows=9),
        added("part-1.parquet", 9),
    )
    assert version_of(tmp_path) == 1
    first, both = change_of(tmp_path, 0, 0), change_of(tmp_path, 0, 1)
    assert (first.files, first.rows) == ({"k=a%20b/part-0.parquet": 7}, 3)
    assert (list(both.files), both.rows) == (["k=a%20b/part-0.parquet", "part-1.parquet"], 3)


@pytest.mark.parametrize("path", ["/elsewhere/part-0.parquet", "s3a://bucket/part-0.parquet", "file:/x/part-0.parquet"])
def test_a_table_that_reaches_outside_its_folder_is_refused(tmp_path: Path, path: str) -> None:
    """On the branch there would be a log that names files of somebody's machine."""
    entry(tmp_path, 0, counted(numOutputRows=3), added(path, 3))
    with pytest.raises(DatasetError, match=r"paths inside the table"):
        change_of(tmp_path, 0, 0)


def test_files_that_do_not_hold_the_rows_that_were_counted_are_refused(tmp_path: Path) -> None:
    entry(tmp_path, 0, counted(numOutputRows=4), added("part-0.parquet", 3))
    with pytest.raises(DatasetError, match=r"files with 4 rows .*; found 3"):
        change_of(tmp_path, 0, 0)


def test_a_table_is_compared_with_its_seal_before_it_is_published() -> None:
    files = [Stored("t/_delta_log/0.json", "a", "c", 10), Stored("t/part-0.parquet", "a", "c", 5)]
    assert "0 seals" in str(discrepancy(files))
    assert discrepancy([*files, Stored("t/_table.w-1.2.15", "a", "c", 0)]) is None
    assert "whose seal says 2 with 15" in str(discrepancy([files[0], Stored("t/_table.w-1.2.15", "a", "c", 0)]))


def test_a_spark_without_delta_is_told_what_to_set(spark: SparkSession, lake: Lake) -> None:
    ws = datasets(spark, lake, lake.head)
    with pytest.raises(DatasetError, match=r"Delta in Spark; found spark\.sql\.extensions none\. Set spark\.jars"):
        ws.write("orders", spark.range(3), format="delta")
    assert lake.stagings() == (), "it is said before anything is staged"
