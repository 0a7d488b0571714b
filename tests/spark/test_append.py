"""Data sets as a body writes them: appends, figures taken while rows are written, and checks of what was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perago_spark import DatasetError, Rows, SparkDatasets, exactly, require_columns, require_only_columns, require_rows
from perago_spark.api.datasets import observing
from perago_spark.format.layout import MARK
from perago_spark.format.seal import dataset_of
from perago_worker.api.guardrails import check
from tests.spark.frames import numbers
from tests.spark.lake import Lake, TaskRunner, datasets, done

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


# ---- Figures taken while rows are written: those of the rows that were staged, however often tasks ran (acceptance 9).


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_figures_are_those_of_what_was_staged_although_tasks_failed(
    spark: SparkSession,
    lake: Lake,
    tmp_path: Path,
    via: Any,  # noqa: ANN401  a literal
) -> None:
    """Acceptance 9: each of the four tasks fails once after its rows, and is run again. The seal says the same."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; only with Spark

    marks = str(tmp_path / "marks")
    Path(marks).mkdir()

    def fails_once(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        from pyspark import TaskContext  # noqa: PLC0415  in the task

        yield from batches
        task = TaskContext.get()
        assert task is not None
        mark = Path(marks) / str(task.partitionId())
        if not mark.exists():
            mark.touch()
            raise OSError("once")

    frame: Any = numbers(spark, 1000, 4)
    shaky = frame.mapInArrow(fails_once, frame.schema)
    ws = datasets(spark, lake, lake.head)
    figures = {"sum": F.sum("id"), "last": F.max("name"), "unnamed": F.count_if(F.isnull("name"))}
    ws.write("orders", shaky, observe=figures, via=via)
    assert len(list(Path(marks).iterdir())) == 4
    found = ws.observed("orders")
    assert (found.rows, dict(found.values)) == (1000, {"sum": 499500, "last": "n999", "unnamed": 0})
    (seal,) = dataset_of(lake.source(lake.committed()), "orders/").seals
    assert (seal.rows, sum(each.rows for each in seal.files)) == (found.rows, found.rows)


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_an_empty_frame_has_figures_too(spark: SparkSession, lake: Lake, via: Any) -> None:  # noqa: ANN401  a literal
    """Spark may plan no task at all for it; nobody must wait for figures that never come."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; only with Spark

    ws = datasets(spark, lake, lake.head)
    written = ws.write("orders", spark.range(10).where("false"), observe={"sum": F.sum("id")}, via=via)
    assert (written.rows, dict(written.values)) == (0, {"sum": None})


def test_nothing_is_observed_that_nobody_asked_for(spark: SparkSession) -> None:
    frame = spark.range(3)
    watched, figures = observing(frame, {})
    assert watched is frame
    assert figures.checked(3) == {}


def test_rows_that_were_observed_and_not_sealed_are_refused(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; only with Spark

    watched, figures = observing(spark.range(3), {"least": F.min("id")})
    watched.collect()
    with pytest.raises(DatasetError, match="as many rows observed as sealed: 4; found 3"):
        figures.checked(4)


# ---- Schema checks as post-conditions: what was written is held against what was wanted, column by column.


@pytest.fixture
def ws(spark: SparkSession, lake: Lake) -> SparkDatasets:
    found = datasets(spark, lake, lake.head)
    found.write("orders", numbers(spark, 20, 2))
    return found


def test_checks_pass_on_what_they_want_and_name_each_difference(ws: SparkDatasets) -> None:
    for passing in (
        require_columns("orders", id="bigint", name="string"),
        require_only_columns("orders", name="string", k="int", id="bigint"),
        require_rows("orders", 20, 20),
    ):
        assert check(passing, ws) is None
    with pytest.raises(DatasetError) as caught:
        require_columns("orders", id="int", day="date", k="int")(ws)
    assert "expected columns id: int, day: date, k: int of 'orders'; found id: bigint; day: missing." in str(
        caught.value
    )
    with pytest.raises(DatasetError, match="name: string is too many"):
        require_only_columns("orders", id="bigint", k="int")(ws)
    with pytest.raises(DatasetError, match="expected at least 21 row"):
        require_rows("orders", 21)(ws)


def test_a_check_on_what_was_never_written_objects(ws: SparkDatasets) -> None:
    """A body that forgets its output must not pass for want of anything to look at."""
    for each in (require_columns("totals", id="bigint"), require_rows("totals")):
        objection = check(each, ws)
        assert objection is not None
        assert "a data set this body has written: ['orders']; found 'totals'" in objection
