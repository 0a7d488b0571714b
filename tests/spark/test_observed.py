"""Figures taken while rows are written: those of the rows that were staged, however often tasks ran (acceptance 9)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perago_spark import DatasetError
from perago_spark.api.datasets import observing
from perago_spark.format.seal import dataset_of
from tests.spark.frames import numbers
from tests.spark.lake import Lake
from tests.spark.task_runner import datasets

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    watched, told = observing(frame, {})
    assert watched is frame
    assert told(3) == {}


def test_rows_that_were_observed_and_not_sealed_are_refused(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; only with Spark

    watched, told = observing(spark.range(3), {"least": F.min("id")})
    watched.collect()
    with pytest.raises(DatasetError, match="as many rows observed as sealed: 4; found 3"):
        told(4)
