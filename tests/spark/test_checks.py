"""Schema checks as post-conditions: what was written is held against what was wanted, column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perago_spark import DatasetError, SparkDatasets, require_columns, require_only_columns, require_rows
from perago_worker.api.guardrails import check
from tests.spark.frames import numbers
from tests.spark.lake import Lake
from tests.spark.task_runner import datasets

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
