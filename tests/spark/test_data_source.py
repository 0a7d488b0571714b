"""The ``perago`` data source on a real Spark and the embedded store: what is staged, what is read, and every type."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from perago_core.ports import Sink, Stored
from perago_core.values import CommitRef
from perago_spark import ReadPlace
from perago_spark.diagnosis.failures import explained
from perago_spark.errors import DatasetError
from perago_spark.format import layout
from perago_spark.format.pruning import Condition
from perago_spark.format.seal import discrepancy
from perago_spark.source.options import WritePlace
from tests.spark.lake import MAIN, Lake, done

pytest.importorskip("pyspark")

from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from perago_spark.format.arrow import Batch, pa, pq
from perago_spark.format.parquet import Uploads
from perago_spark.format.schema import plain_schema
from perago_spark.source import native
from perago_spark.source.data_source import Files, PeragoReader, PeragoWriter, Uploaded
from perago_spark.source.options import write_place
from tests.spark.frames import numbers, read, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_what_is_written_is_what_is_read(spark: SparkSession, lake: Lake) -> None:
    """Auto-registered: nobody has called ``register``."""
    ref = write(lake, numbers(spark), "w-1")
    assert ref is not None
    found = read(spark, lake, ref)
    assert (found.count(), found.distinct().count()) == (1000, 1000)
    assert found.exceptAll(numbers(spark)).count() == 0
    assert [each for each in lake.paths(ref) if "_seal" in each] != []


def test_the_write_moves_neither_the_target_nor_the_staging_commit(spark: SparkSession, lake: Lake) -> None:
    """The data source links and seals; it never publishes (spark.md 0.2)."""
    before = lake.head
    sink = lake.stage()
    numbers(spark).write.format("perago").mode("append").options(**lake.writing(sink, "orders/", "w-1")).save()
    assert lake.head == before
    assert discrepancy(done(sink.list("orders/"))) is None


def test_a_task_that_is_tried_again_leaves_one_file_and_its_loser_is_never_linked(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Acceptance 1: task exception after rows were written. 1000 rows, 1000 distinct."""
    once = tmp_path / "once"

    def fail_once(batches: Iterable[Batch]) -> Iterator[Batch]:
        yield from batches
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 1 and not once.exists():
            once.touch()
            raise RuntimeError("the first attempt of this task fails after its rows were taken")

    frame = numbers(spark)
    mapped: DataFrame = cast("Any", frame).mapInArrow(fail_once, frame.schema)
    ref = write(lake, mapped, "w-1")
    assert once.exists()
    assert ref is not None
    found = read(spark, lake, ref)
    assert (found.count(), found.select("id").distinct().count()) == (1000, 1000)


def uploaded(sink: Sink, partition: int, task: int) -> Uploaded:
    """Do what one attempt of one task does: 250 rows in a file of its own."""
    batch = pa.record_batch({"id": pa.array(range(partition * 250, partition * 250 + 250), pa.int64())})
    name = layout.file_name(partition, "w-1", task, 0)
    return Uploaded(Uploads(sink, "orders/", (), lambda: name).write([batch]))


def test_only_the_winner_of_two_attempts_of_one_task_is_linked(spark: SparkSession, lake: Lake) -> None:
    """Acceptance 2, the race made by hand: both attempts upload, Spark names one. A source that links in the task
    would show 1250 rows of 1000: here the losers' rows stay in the object store and in no tree."""

    sink = lake.stage()
    place = write_place(lake.writing(sink, "orders/", "w-1"))
    schema = plain_schema(spark.range(1).schema.json())
    writer = PeragoWriter(place, schema, overwrite=True)

    winners = [uploaded(sink, partition, partition) for partition in range(4)]
    uploaded(sink, 3, 9)
    writer.commit([*winners])
    ref = lake.committed()
    assert ref is not None
    assert read(spark, lake, ref).count() == read(spark, lake, ref).distinct().count() == 1000
    assert not [each for each in lake.paths(ref) if ".9-0." in each]


def test_the_control_a_source_whose_tasks_link_themselves_has_duplicates_and_is_found_out(lake: Lake) -> None:
    """Acceptance 2, the negative control: the same race with every upload linked holds 1250 rows of 1000."""
    sink = lake.stage()
    for partition, task in ((0, 0), (1, 1), (2, 2), (3, 3), (3, 9)):
        done(sink.link(tuple(stored for stored, _ in uploaded(sink, partition, task).written)))
    listed = done(sink.list("orders/"))
    ref = lake.committed()
    tables = [pq.read_table(BytesIO(done(lake.source(ref).get(each.path)).read())) for each in listed]
    found = pa.concat_tables(tables).column("id").to_pylist()
    assert (len(found), len(set(found))) == (1250, 1000)
    assert discrepancy(listed) is not None


def test_commit_and_abort_in_any_order_give_the_same_staging(spark: SparkSession, lake: Lake) -> None:
    """Acceptance 3: Spark may call ``abort`` after ``commit``, with messages or with ``None``."""

    listings: list[tuple[Stored, ...]] = []
    for order in ("c", "cc", "ca", "cac", "ac"):
        sink = lake.stage()
        place = write_place(lake.writing(sink, "orders/", "w-1"))
        writer = PeragoWriter(place, plain_schema(spark.range(1).schema.json()), overwrite=True)
        message = uploaded(sink, 0, 0)
        for call in order:
            if call == "c":
                writer.commit([message])
            else:
                writer.abort([None, message])
        listings.append(done(sink.list("orders/")))
    assert all(each == listings[0] for each in listings)
    assert len(listings[0]) == 2


def test_a_commit_without_a_tasks_message_stages_nothing(spark: SparkSession, lake: Lake) -> None:

    sink = lake.stage()
    place = write_place(lake.writing(sink, "orders/", "w-1"))
    writer = PeragoWriter(place, plain_schema(spark.range(1).schema.json()), overwrite=True)
    with pytest.raises(DatasetError, match="a message from every task"):
        writer.commit([None])
    assert lake.committed() is None


def test_a_job_that_fails_stages_nothing(spark: SparkSession, lake: Lake) -> None:
    sink = lake.stage()
    bad = numbers(spark).withColumn("x", F.raise_error(F.lit("always")))
    with pytest.raises(Exception, match="always"):
        bad.write.format("perago").mode("overwrite").options(**lake.writing(sink, "orders/", "w-1")).save()
    assert lake.committed() is None


def test_an_overwrite_with_equal_rows_changes_nothing_whatever_their_order_and_files(
    spark: SparkSession, lake: Lake
) -> None:
    """Equal content is a no-op (S-12): other files, other order, same rows."""
    first = write(lake, numbers(spark, parts=4), "w-1")
    assert first is not None
    done(lake.store.open_staging(MAIN, "again", first))
    sink = lake.store.sink(MAIN, "again")
    shuffled = numbers(spark, parts=2).orderBy(F.col("name").desc())
    options = lake.writing(sink, "orders/", "w-2", at=first)
    shuffled.write.format("perago").mode("overwrite").options(**options).save()
    assert done(lake.store.commit(MAIN, "again", "equal")) is None


def test_one_other_value_is_a_change(spark: SparkSession, lake: Lake) -> None:
    first = write(lake, numbers(spark), "w-1")
    assert first is not None
    done(lake.store.open_staging(MAIN, "again", first))
    sink = lake.store.sink(MAIN, "again")
    other = numbers(spark).withColumn("name", F.when(F.col("id") == 7, "other").otherwise(F.col("name")))
    other.write.format("perago").mode("overwrite").options(**lake.writing(sink, "orders/", "w-2", at=first)).save()
    staged = done(lake.store.commit(MAIN, "again", "other"))
    assert staged is not None
    assert read(spark, lake, staged.commit).count() == 1000
    assert not [each for each in lake.paths(staged.commit) if ".w-1." in each]


def test_an_append_adds_a_seal_and_reads_as_one_data_set(spark: SparkSession, lake: Lake) -> None:
    sink = lake.stage()
    for number, start in enumerate((0, 100, 200)):
        frame = spark.range(start, start + 100, 1, 2)
        frame.write.format("perago").mode("append").options(**lake.writing(sink, "orders/", f"w-{number}")).save()
    ref = lake.committed()
    assert ref is not None
    assert read(spark, lake, ref).distinct().count() == 300
    assert len([each for each in lake.paths(ref) if layout.seal_of(each)]) == 3


def test_two_appends_of_one_task_have_the_same_columns(spark: SparkSession, lake: Lake) -> None:
    """The input has no such data set, so that only the first write says what its columns are."""
    sink = lake.stage()
    spark.range(5).write.format("perago").mode("append").options(**lake.writing(sink, "orders/", "w-1")).save()
    other = spark.range(5).selectExpr("cast(id as string) id")
    with pytest.raises(Exception, match="perago") as raised:
        other.write.format("perago").mode("append").options(**lake.writing(sink, "orders/", "w-2")).save()
    assert "the columns and partitioning of the first write" in str(explained(raised.value))


def test_appending_no_rows_changes_nothing(spark: SparkSession, lake: Lake) -> None:
    first = write(lake, numbers(spark), "w-1")
    assert first is not None
    done(lake.store.open_staging(MAIN, "again", first))
    options = lake.writing(lake.store.sink(MAIN, "again"), "orders/", "w-2", at=first)
    numbers(spark, 0).write.format("perago").mode("append").options(**options).save()
    assert done(lake.store.commit(MAIN, "again", "nothing")) is None


# ---- The ``perago`` data source on a real Spark and the embedded store: what is read, and what is refused in words.


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


# ---- What goes in comes out, by either route: every type, no rows, tasks without rows, ten thousand tasks.


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
