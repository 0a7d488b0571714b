"""Incremental appends: what is there stays, what comes is counted, and a promise about it is kept or nothing is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perago_spark import DatasetError, Rows, exactly
from perago_spark.format.layout import MARK
from tests.spark.lake import Lake, done
from tests.spark.task_runner import TaskRunner, datasets

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    return TaskRunner(spark, lake)


def test_rows_are_added_and_counted_without_reading_any(runner: TaskRunner) -> None:
    """``rows`` is about what a write added; the data set is the sum of its writes."""
    for start, stop in ((0, 10), (10, 25)):
        with runner.task() as ws:
            assert ws.rows("orders") == start
            written = ws.write("orders", ws.spark.range(start, stop), mode="append", rows=exactly(stop - start))
            assert (written.rows, written.changed) == (stop - start, True)
    assert runner.rows("orders") == list(range(25))
    assert not any(each.endswith(MARK) for each in runner.lake.paths(runner.at))


@pytest.mark.parametrize(
    ("promise", "says"),
    [
        (exactly(11), "expected exactly 11 row(s) of 'orders'; found 10"),
        (Rows(at_least=11), "expected at least 11 row(s) of 'orders'; found 10"),
        (Rows(1, 9), "expected 1 to 9 row(s) of 'orders'; found 10"),
    ],
)
def test_a_broken_promise_fails_the_task(spark: SparkSession, lake: Lake, promise: Rows, says: str) -> None:
    """A body that goes on all the same is caught, because the write counts as unfinished."""
    ws = datasets(spark, lake, lake.head)
    with pytest.raises(DatasetError) as caught:
        ws.write("orders", spark.range(10), mode="append", rows=promise)
    assert str(caught.value).startswith(says)
    assert (ws.unfinished, ws.changed) == (("orders",), ())


def test_a_promise_that_nothing_can_keep_is_refused_where_it_is_made() -> None:
    with pytest.raises(DatasetError, match="0 <= at_least <= at_most"):
        Rows(5, 4)


def test_rows_of_files_without_a_seal_are_not_guessed(spark: SparkSession, lake: Lake) -> None:
    sink = lake.stage()
    with done(lake.source().get("README")) as data:
        done(sink.link((done(sink.put("old/part-0.parquet", data)),)))
    at = lake.committed()
    assert at is not None
    with pytest.raises(DatasetError, match="a data set with seals"):
        datasets(spark, lake, at).rows("old")
