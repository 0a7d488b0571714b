"""The ``perago`` data source on a real Spark and the embedded store: what is read, and what is refused in words."""

from __future__ import annotations

import datetime as dt
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perago_spark import ReadPlace
from perago_spark.diagnosis.failures import explained
from perago_spark.format.pruning import Condition
from tests.spark.lake import MAIN, Lake, done

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from perago_spark.format.arrow import pa, pq
from perago_spark.source.data_source import Files, PeragoReader
from tests.spark.frames import numbers, read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_columns_are_read_alone_and_in_the_order_asked_for(spark: SparkSession, lake: Lake) -> None:
    ref = write(lake, numbers(spark, 10), "w-1")
    assert ref is not None
    assert read(spark, lake, ref, "name", "id").columns == ["name", "id"]


def test_files_of_others_are_read_and_overwritten_but_not_added_to(spark: SparkSession, lake: Lake) -> None:
    """Parquet that another tool has put there has no seals: its columns are those of its first file and its folders."""
    sink = lake.stage()
    for day in ("a", "b"):
        data = BytesIO()
        pq.write_table(pa.table({"id": pa.array(range(10), pa.int64())}), data)
        data.seek(0)
        done(sink.link((done(sink.put(f"orders/day={day}/data.parquet", data)),)))
    ref = lake.committed()
    assert ref is not None
    found = read(spark, lake, ref)
    assert (found.columns, found.count(), found.where("day = 'b'").count()) == (["id", "day"], 20, 10)
    again = lake.stage()
    options = lake.writing(again, "orders/", "w-1", at=ref)
    with pytest.raises(Exception, match="perago") as raised:
        found.write.format("perago").mode("append").options(**options).save()
    assert "found 2 file(s) without one" in str(explained(raised.value))


def test_partitioned_files_lie_in_folders_that_spark_reads_by_itself(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    odd = (
        numbers(spark, 30)
        .withColumn("day", F.date_add(F.lit(dt.date(2024, 5, 1)), F.col("k")))
        .withColumn("place", F.when(F.col("k") == 0, "a/b=c d%").when(F.col("k") == 1, "é").otherwise(None))
    )
    ref = write(lake, odd, "w-1", by=("day", "place"))
    assert ref is not None
    found = read(spark, lake, ref)
    assert found.columns == odd.columns
    assert found.exceptAll(odd).count() == odd.exceptAll(found).count() == 0
    for each in done(lake.source(ref).list("orders/")):
        with done(lake.source(ref).get(each.path)) as stream:
            place = tmp_path / "copy" / each.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(stream.read())
    native = spark.read.parquet(str(tmp_path / "copy" / "orders")).select(*odd.columns)
    assert native.exceptAll(odd).count() == odd.exceptAll(native).count() == 0


def test_filters_leave_files_unread(spark: SparkSession, lake: Lake) -> None:
    """Filter push-down reads fewer bytes: files whose ranges cannot match are not opened at all."""

    ref = write(lake, numbers(spark, 4000, parts=4), "w-1")
    assert ref is not None

    def bytes_read(*conditions: Condition) -> int:
        place = ReadPlace(lake.source(ref), "orders/", None, conditions)
        planned = PeragoReader(place, numbers(spark).schema).partitions()
        return sum(file.bytes for each in planned if isinstance(each, Files) for file in each.files)

    everything = bytes_read()
    assert 0 < bytes_read(Condition("id", ">=", (3500,))) < everything / 3
    assert bytes_read(Condition("id", "=", (5000,))) == 0
    assert bytes_read(Condition("id", "in", (10, 3999))) < everything
    assert bytes_read(Condition("unknown", "=", (1,))) == everything


def test_a_frame_used_with_one_filter_still_has_all_rows_without_it(spark: SparkSession, lake: Lake) -> None:
    """Spark 4.3.0 plans a relation's pushed filters into its next query; a source that took them lost 667 rows."""
    ref = write(lake, numbers(spark), "w-1")
    assert ref is not None
    frame = read(spark, lake, ref)
    assert [frame.where("k = 1").count(), frame.count(), frame.where("k = 2").count()] == [333, 1000, 333]


OTHER_COLUMNS = {
    "id|k": "name: string is missing",
    "id|cast(k as string) k|name": "k: string instead of integer",
    "id|k|name|1 as new": "new: integer is new",
    "name|k|id": "them in another order: name, k, id",
}


@pytest.mark.parametrize("columns", OTHER_COLUMNS)
def test_an_append_with_other_columns_says_which(spark: SparkSession, lake: Lake, columns: str) -> None:
    first = write(lake, numbers(spark, 10), "w-1")
    assert first is not None
    done(lake.store.open_staging(MAIN, "again", first))
    options = lake.writing(lake.store.sink(MAIN, "again"), "orders/", "w-2", at=first)
    with pytest.raises(Exception, match="perago") as raised:
        numbers(spark, 10).selectExpr(*columns.split("|")).write.format("perago").mode("append").options(
            **options
        ).save()
    reason = str(explained(raised.value))
    assert OTHER_COLUMNS[columns] in reason
    assert "mode='overwrite'" in reason
    assert "\n" not in reason


def test_a_missing_data_set_and_a_missing_column_are_explained(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(Exception, match="perago") as raised:
        read(spark, lake, lake.head)
    assert "expected a data set in 'orders/'; found nothing there" in str(explained(raised.value))
    ref = write(lake, numbers(spark, 10), "w-1")
    assert ref is not None
    with pytest.raises(Exception, match="perago") as raised:
        read(spark, lake, ref, "id", "nmae")
    assert "which has id, k, name; found nmae" in str(explained(raised.value))


def test_options_made_by_hand_are_explained(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="perago") as raised:
        spark.read.format("perago").load()
    assert "expected the option 'sourceToken'; found none" in str(explained(raised.value))
