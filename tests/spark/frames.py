"""Small frames, and the data source used as a notebook uses it. Needs Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from perago_core.values import CommitRef
from tests.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def numbers(spark: SparkSession, rows: int = 1000, parts: int = 4) -> DataFrame:
    return spark.range(0, rows, 1, parts).select(
        "id",
        (F.col("id") % 3).cast("int").alias("k"),
        F.concat(F.lit("n"), F.col("id").cast("string")).alias("name"),
    )


def write(
    lake: Lake, frame: DataFrame, write: str, mode: str = "overwrite", by: tuple[str, ...] = ()
) -> CommitRef | None:
    """Write one data set to a staging name of its own, and commit that."""
    sink = lake.stage()
    frame.write.format("perago").mode(mode).options(**lake.writing(sink, "orders/", write, by=by)).save()
    return lake.committed()


def read(spark: SparkSession, lake: Lake, ref: CommitRef, *columns: str) -> DataFrame:
    return spark.read.format("perago").options(**lake.reading(ref, "orders/", *columns)).load()
