"""Replacing some partitions of a data set: the day that is run again, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from perago_spark import DatasetError
from perago_spark.format.layout import MARK
from perago_spark.format.seal import dataset_of
from tests.spark.lake import Lake, TaskRunner, datasets

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
BY = ["day"]


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    return TaskRunner(spark, lake)


@pytest.fixture
def dynamic(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(DYNAMIC, "Dynamic")
    yield
    spark.conf.unset(DYNAMIC)


def days(spark: SparkSession, **ids: tuple[int, ...]) -> DataFrame:
    """A frame with these rows for each day, spread over two tasks."""
    rows = [(number, day) for day, numbers in ids.items() for number in numbers]
    frame: DataFrame = cast("Any", spark).createDataFrame(rows, "id long, day string")
    return frame.repartition(2)


def begun(runner: TaskRunner) -> None:
    """Monday and Tuesday in one write, more of Tuesday and Wednesday in another."""
    with runner.task() as ws:
        ws.write("orders", days(ws.spark, mon=(1, 2), tue=(3, 4)), partition_by=BY)
    with runner.task() as ws:
        ws.write("orders", days(ws.spark, tue=(5,), wed=(6,)), partition_by=BY, mode="append")


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_a_day_that_is_run_again_replaces_that_day_and_no_other(
    runner: TaskRunner, via: Literal["arrow", "native"]
) -> None:
    """Tuesday is in two writes, of which other days stay; plain Spark reads the same from the files alone."""
    begun(runner)
    with runner.task() as ws:
        written = ws.write(
            "orders",
            days(ws.spark, tue=(30, 31, 32), thu=(70,)),
            partition_by=BY,
            mode="overwrite_partitions",
            via=via,
            observe={"greatest": _max_id()},
        )
    assert (written.rows, written.changed, dict(written.values)) == (4, True, {"greatest": 70})
    assert runner.rows("orders") == [1, 2, 6, 30, 31, 32, 70]
    assert any(each.endswith(MARK) for each in runner.lake.paths(runner.at))
    found = dataset_of(runner.lake.source(runner.at), "orders/")
    assert sorted(seal.rows for seal in found.seals) == [1, 2, 4]
    with runner.task() as ws:
        assert ws.rows("orders") == 7


def test_a_write_of_which_every_partition_is_replaced_leaves_no_seal(runner: TaskRunner) -> None:
    begun(runner)
    with runner.task() as ws:
        ws.write("orders", days(ws.spark, tue=(8,), wed=(9,)), partition_by=BY, mode="overwrite_partitions")
    assert runner.rows("orders") == [1, 2, 8, 9]
    assert len(dataset_of(runner.lake.source(runner.at), "orders/").seals) == 2


@pytest.mark.usefixtures("dynamic")
def test_sparks_own_setting_is_honoured(runner: TaskRunner) -> None:
    """It used to be ignored: a day that was run again removed all the others from the branch."""
    begun(runner)
    with runner.task() as ws:
        ws.write("orders", days(ws.spark, wed=(60, 61)), partition_by=BY)
    assert runner.rows("orders") == [1, 2, 3, 4, 5, 60, 61]


@pytest.mark.usefixtures("dynamic")
def test_the_setting_says_nothing_of_data_without_partitions(runner: TaskRunner) -> None:
    for number in (1, 2):
        with runner.task() as ws:
            ws.write("plain", days(ws.spark, mon=(number,)))
    assert runner.rows("plain") == [2]


def test_the_same_day_once_more_changes_nothing(runner: TaskRunner) -> None:
    """Whatever files hold its rows; their number is known all the same."""
    begun(runner)
    at = runner.at
    with runner.task() as ws:
        again = days(ws.spark, tue=(5, 4, 3)).coalesce(1)
        written = ws.write("orders", again, partition_by=BY, mode="overwrite_partitions")
    assert (written.rows, written.changed, runner.at) == (3, False, at)
    with runner.task() as ws:
        nothing = ws.write("orders", days(ws.spark, mon=()), partition_by=BY, mode="overwrite_partitions")
    assert (nothing.rows, nothing.changed, runner.at) == (0, False, at)


def test_rows_that_changed_their_day_are_a_change(runner: TaskRunner) -> None:
    """Together the two days have the same rows as before, one by one they have not."""
    begun(runner)
    with runner.task() as ws:
        swapped = days(ws.spark, mon=(3, 4, 5), tue=(1, 2))
        assert ws.write("orders", swapped, partition_by=BY, mode="overwrite_partitions").changed
    assert runner.rows("orders") == [1, 2, 3, 4, 5, 6]


def test_the_first_write_may_be_one_of_partitions(runner: TaskRunner) -> None:
    with runner.task() as ws:
        ws.write("orders", days(ws.spark, mon=(1,)), partition_by=BY, mode="overwrite_partitions")
    assert runner.rows("orders") == [1]
    assert not any(each.endswith(MARK) for each in runner.lake.paths(runner.at))


def test_without_partitions_there_is_nothing_to_choose_by(runner: TaskRunner) -> None:
    with (
        pytest.raises(DatasetError, match=r"expected partition_by, .* found none"),
        runner.task() as ws,
    ):
        ws.write("orders", days(ws.spark, mon=(1,)), mode="overwrite_partitions")


def test_what_this_task_has_written_cannot_be_replaced_by_partitions(runner: TaskRunner) -> None:
    """Its seals are in staging, which nobody reads; to guess which rows go would lose some or keep them twice."""
    begun(runner)
    ws = datasets(runner.spark, runner.lake, runner.at)
    ws.write("orders", days(ws.spark, mon=(9,)), partition_by=BY, mode="append")
    again = days(ws.spark, mon=(1,))
    with pytest.raises(DatasetError, match=r"expected one write of 'orders/' in a task .* found another one before it"):
        ws.write("orders", again, partition_by=BY, mode="overwrite_partitions")


def _max_id() -> Column:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; only with Spark

    return F.max("id")
