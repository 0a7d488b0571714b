"""Figures about the rows of a write, taken while they are written: Spark's ``Observation``, without a second pass.

    ws.write("orders", frame, observe={"revenue": F.sum("amount"), "unnamed": F.count_if(F.col("name").isNull())})
    ws.observed("orders").values["revenue"]

Spark counts tasks that succeeded only, so the figures are those of the rows that were staged, also when tasks failed
and ran again. Its count of rows is held against the seal's: two ways to the same number that must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from perago_spark.errors import DatasetError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: What the rows are counted under.
_ROWS: Final = "perago rows"


def observing(frame: DataFrame, wanted: Mapping[str, Column]) -> tuple[DataFrame, Callable[[int], dict[str, Any]]]:
    """Give a frame that is watched, and what tells the figures once so many rows of it were written."""
    if not wanted:
        return frame, lambda _rows: {}
    from pyspark.sql import Observation  # noqa: PLC0415  importable without Spark
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; as above

    observation = Observation()
    watched = frame.observe(
        observation, F.count(F.lit(1)).alias(_ROWS), *(each.alias(name) for name, each in wanted.items())
    )

    def told(rows: int) -> dict[str, Any]:
        found: dict[str, Any] = dict(observation.get)
        counted = found.pop(_ROWS, None)
        if counted != rows:
            raise DatasetError(f"as many rows observed as sealed: {rows}", str(counted), "Try the task again")
        return found

    return watched, told
