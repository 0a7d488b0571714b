"""The native route on the embedded store: Spark's own Parquet writer, held against its job before a file is linked."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perago_core.values import CommitRef
from perago_spark.errors import DatasetError
from perago_spark.source.options import WritePlace
from tests.spark.lake import Lake, done

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from perago_spark.source import native
from perago_spark.source.native import LocalArea
from tests.spark.frames import numbers, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write(
    lake: Lake, frame: DataFrame, write: str, *by: str, at: CommitRef | None = None, overwrite: bool = True
) -> CommitRef | None:
    place = WritePlace(lake.source(at), lake.stage(at), "orders/", write, by)
    native.write(frame, place, overwrite=overwrite)
    return lake.committed()


def test_what_is_written_is_what_is_read(spark: SparkSession, lake: Lake) -> None:
    frame = numbers(spark)
    ref = write(lake, frame, "w-1")
    assert ref is not None
    found = read(spark, lake, ref)
    assert (found.count(), found.distinct().count()) == (1000, 1000)
    assert found.exceptAll(frame).count() == 0
    assert {each.split(".")[-1] for each in lake.paths(ref)} == {"README", "parquet", "json"}


def test_partition_values_come_back_with_their_types(spark: SparkSession, lake: Lake) -> None:
    frame = (
        numbers(spark, 30)
        .withColumn("day", F.date_add(F.lit(dt.date(2024, 5, 1)), F.col("k")))
        .withColumn("place", F.when(F.col("k") == 0, "a/b=c d%").when(F.col("k") == 1, "é").otherwise(None))
        .withColumn("odd", F.col("k") == 1)
    )
    ref = write(lake, frame, "w-1", "day", "place", "odd", "k")
    assert ref is not None
    found = read(spark, lake, ref)
    assert [each.dataType for each in found.schema] == [each.dataType for each in frame.schema]
    assert found.exceptAll(frame).count() == frame.exceptAll(found).count() == 0


def test_both_routes_add_to_one_data_set(spark: SparkSession, lake: Lake) -> None:
    first = write(lake, numbers(spark), "w-1")
    assert first is not None
    second = write(lake, numbers(spark).withColumn("id", F.col("id") + 1000), "w-2", at=first, overwrite=False)
    assert second is not None
    sink = lake.stage(second)
    more = numbers(spark).withColumn("id", F.col("id") + 2000)
    more.write.format("perago").mode("append").options(**lake.writing(sink, "orders/", "w-3", at=second)).save()
    third = lake.committed()
    assert third is not None
    assert read(spark, lake, third).select("id").distinct().count() == 3000


def test_equal_files_change_nothing_and_files_that_changed_places_do(spark: SparkSession, lake: Lake) -> None:
    """S-12, by files: the same rows in the same order give the same bytes."""
    frame = spark.range(0, 10, 1, 1).selectExpr("id", "cast(id % 2 as int) k").orderBy("id").coalesce(1)
    first = write(lake, frame.select(F.lit(7).alias("x"), "k"), "w-1", "k")
    assert first is not None
    assert write(lake, frame.select(F.lit(7).alias("x"), "k"), "w-2", "k", at=first) is None
    swapped = frame.select(F.lit(7).alias("x"), F.col("k").alias("k") + 5)
    assert write(lake, swapped.toDF("x", "k"), "w-3", "k", at=first) is not None


def _copied(folder: Path) -> None:
    """A second file of rows that are there: what a copy of a task by speculation leaves if nobody looks."""
    first = next(folder.glob("part-00000-*.parquet"))
    shutil.copy(first, folder / first.name.replace("part-00000", "part-00009"))


def _of_another_job(folder: Path) -> None:
    first = next(folder.glob("part-00000-*.parquet"))
    first.rename(folder / "part-00000-00000000-0000-4000-8000-000000000000-c000.snappy.parquet")


SPOILS: dict[str, tuple[Callable[[Path], object], str]] = {
    "surplus": (_copied, "the 1000 rows that the job has counted .* found 1250 in its files"),
    "missing": (lambda folder: next(folder.glob("*.parquet")).unlink(), "found 750 in its files"),
    "another job": (_of_another_job, "files of one job .* found those of 2"),
    "a stranger's": (lambda folder: (folder / "notes.parquet").touch(), "files that Spark has written .*notes"),
    "no end": (lambda folder: (folder / "_SUCCESS").unlink(), "a job that was committed .* found no _SUCCESS"),
    "gone": (shutil.rmtree, "no such folder on this machine"),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_is_not_the_jobs_is_refused(spark: SparkSession, lake: Lake, tmp_path: Path, spoil: str) -> None:
    """Surplus or missing: refuse, before anything is linked (protocol.md 2.11)."""
    area = LocalArea(tmp_path / "area", lake.stage())
    numbers(spark).write.parquet(area.uri)
    native.check_job(area, "orders/", 1000)
    harm, words = SPOILS[spoil]
    harm(area.folder)
    with pytest.raises(DatasetError, match=words):
        native.check_job(area, "orders/", 1000)
    assert lake.committed() is None


def test_what_a_late_task_leaves_in_its_own_folder_is_no_file_of_the_job(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    area = LocalArea(tmp_path / "area", lake.stage())
    numbers(spark).write.parquet(area.uri)
    late = area.folder / "_temporary" / "0" / "attempt"
    late.mkdir(parents=True)
    shutil.copy(next(area.folder.glob("*.parquet")), late)
    files, _ = native.check_job(area, "orders/", 1000)
    assert len(files) == 4
    assert len(done(area.list())) > 5
