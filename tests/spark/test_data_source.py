"""The ``perago`` data source on a real Spark and the embedded store: what is staged, and what never is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from perago_core.ports import Sink, Stored
from perago_spark.diagnosis.failures import explained
from perago_spark.errors import DatasetError
from perago_spark.format import layout
from perago_spark.format.seal import discrepancy
from tests.spark.lake import MAIN, Lake, done

pytest.importorskip("pyspark")

from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from perago_spark.format.arrow import Batch, pa, pq
from perago_spark.format.parquet import Uploads
from perago_spark.format.schema import plain_schema
from perago_spark.source.data_source import PeragoWriter, Uploaded
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
