"""What goes in comes out, by either route: every type, no rows, tasks without rows, ten thousand tasks."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any, cast

import pytest

from perago_core.values import CommitRef
from perago_spark.source.options import WritePlace
from tests.spark.lake import Lake, done

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from perago_spark.format.arrow import pa
from perago_spark.format.parquet import Uploads
from perago_spark.format.schema import plain_schema
from perago_spark.format.seal import discrepancy
from perago_spark.source import native
from perago_spark.source.data_source import PeragoWriter, Uploaded
from tests.spark.frames import numbers, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


@pytest.fixture(params=["arrow", "native"])
def via(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def written(lake: Lake, frame: DataFrame, via: str, *by: str) -> CommitRef:
    place = WritePlace(lake.source(), lake.stage(), "orders/", "w-1", by)
    if via == "native":
        native.write(frame, place, overwrite=True)
    else:
        frame.write.format("perago").mode("overwrite").options(**place.options()).save()
    assert discrepancy(done(place.sink.list("orders/"))) is None
    ref = lake.committed()
    assert ref is not None
    return ref


def test_every_type_comes_back_as_it_was(spark: SparkSession, lake: Lake, via: str) -> None:
    """Nulls, decimals of every width, times with and without zone, nested, empty texts, columns that are never null."""
    rows: list[Any] = [
        (1, decimal.Decimal("12.50"), NOON, dt.date(2024, 5, 1), [1, None], {"a": 1}, (1, "x")),
        (None, None, None, None, None, None, None),
        (3, decimal.Decimal("-0.01"), NOON.replace(year=1969), dt.date(1, 1, 1), [], {}, (None, "")),
    ]
    columns = "a long, b decimal(10,2), c timestamp, d date, e array<int>, f map<string,int>, g struct<x:int,y:string>"
    plain: DataFrame = cast("Any", spark).createDataFrame(rows, columns)
    rich = plain.withColumns(
        {
            "h": F.col("c").cast("timestamp_ntz"),
            "i": F.encode(F.lit("é"), "utf-8"),
            "j": F.lit(float("nan")),
            "k": F.lit(7),
            "l": F.lit(dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
            "m": F.lit(decimal.Decimal("9" * 38)),
            "n": F.array(F.struct(F.lit(1).alias("p"), F.array(F.col("a")).alias("q"))),
            "o": F.lit(3).cast("tinyint"),
            "p": F.lit(0.1).cast("float"),
            "q": F.col("a").isNull(),
        }
    )
    found = read(spark, lake, written(lake, rich, via))
    assert found.columns == rich.columns
    # Nullability is not kept: a folder of files cannot promise it for those that are added tomorrow.
    nullable: Any = [each.dataType.simpleString() for each in rich.schema]
    assert [each.dataType.simpleString() for each in found.schema] == nullable
    assert all(each.nullable for each in found.schema)
    assert sorted(map(repr, found.collect())) == sorted(map(repr, rich.collect()))


def test_a_point_in_time_is_the_same_whatever_zone_the_session_speaks(
    spark: SparkSession, lake: Lake, via: str
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        frame = spark.sql("select timestamp'2024-05-01 12:00:00 Europe/Berlin' t, timestamp_ntz'2024-05-01 12:00:00' n")
        ref = written(lake, frame, via)
        found = read(spark, lake, ref).selectExpr("unix_micros(t)", "cast(n as string)").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert [tuple(each) for each in found] == [(1_714_557_600_000_000, "2024-05-01 12:00:00")]


def test_an_empty_frame_is_a_data_set_with_columns(spark: SparkSession, lake: Lake, via: str) -> None:
    found = read(spark, lake, written(lake, numbers(spark, 0), via))
    assert (found.columns, found.count()) == (["id", "k", "name"], 0)


def test_an_empty_frame_with_partitions_is_one_too(spark: SparkSession, lake: Lake, via: str) -> None:
    found = read(spark, lake, written(lake, numbers(spark, 0), via, "k"))
    assert (found.columns, found.count()) == (["id", "k", "name"], 0)


def test_tasks_without_rows_add_nothing(spark: SparkSession, lake: Lake, via: str) -> None:
    found = read(spark, lake, written(lake, numbers(spark, 3, parts=8), via))
    assert sorted(each.id for each in found.collect()) == [0, 1, 2]


def test_the_messages_of_ten_thousand_tasks_make_one_seal(spark: SparkSession, lake: Lake) -> None:
    """Every tenth has rows. ``tests/cluster`` runs the ten thousand tasks for real."""
    sink = lake.stage()
    place = WritePlace(lake.source(), sink, "orders/", "w-1", ())
    writer = PeragoWriter(place, plain_schema(spark.range(1).schema.json()), overwrite=True)

    def message(task: int) -> Uploaded:
        batch = pa.record_batch({"id": pa.array([] if task % 10 else [task], pa.int64())})
        return Uploaded(Uploads(sink, "orders/", (), lambda: f"part-{task:05d}.w-1.{task}-0.parquet").write([batch]))

    writer.commit([message(task) for task in range(10_000)])
    ref = lake.committed()
    assert ref is not None
    found = read(spark, lake, ref)
    assert (found.count(), found.distinct().count()) == (1000, 1000)
