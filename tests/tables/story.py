"""What a table goes through, whatever its kind: every way to write it, one commit each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from perago_core.values import CommitRef
from tests.spark.lake import Lake, TaskRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind: TypeAlias = Literal["delta", "iceberg"]
Rows: TypeAlias = dict[int, dict[str, Any]]


def numbers(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, 1, 2).selectExpr("id", "cast(id % 3 as int) k", "concat('n', id) name")


def expected(first: int, last: int, **more: Any) -> Rows:  # noqa: ANN401  values of columns
    return {each: {"id": each, "k": each % 3, "name": f"n{each}", **more} for each in range(first, last)}


class Story:
    """A table as tasks change it, one commit each, and what it must hold after each."""

    def __init__(self, spark: SparkSession, lake: Lake, kind: Kind) -> None:
        self.spark = spark
        self.kind: Kind = kind
        self.runner = TaskRunner(spark, lake)
        self.rows: Rows = {}
        self.commits: list[tuple[CommitRef, Rows]] = []

    def told(self, rows: Rows) -> None:
        self.rows = rows
        self.commits.append((self.runner.at, dict(rows)))

    def play(self) -> None:
        """Write, add, merge, add a column, replace partitions, replace all, and enough for a checkpoint of the log."""
        with self.runner.task() as ws:
            written = ws.write("orders", numbers(self.spark, 0, 20), format=self.kind, partition_by=["k"])
            assert (written.rows, written.changed) == (20, True)
        self.told(expected(0, 20))
        with self.runner.task() as ws:
            assert ws.write("orders", numbers(self.spark, 20, 30), format=self.kind, mode="append").rows == 10
            assert ws.read("orders").count() == 20, "reading after writing gives the input"
        self.told(expected(0, 30))
        with self.runner.task() as ws:
            changed = numbers(self.spark, 25, 35).selectExpr("id", "k", "'new' name")
            merged = ws.merge("orders", changed, keys=["id"]).rows
            assert merged == 10 if self.kind == "delta" else merged >= 10, "Iceberg counts what it copies, too"
        self.told({**expected(0, 35), **{each: {"id": each, "k": each % 3, "name": "new"} for each in range(25, 35)}})
        with self.runner.task() as ws:
            wider = numbers(self.spark, 35, 40).selectExpr("*", "'x' note")
            ws.write("orders", wider, format=self.kind, mode="append", merge_schema=True)
        self.told({key: {**row, "note": None} for key, row in self.rows.items()} | expected(35, 40, note="x"))
        with self.runner.task() as ws:
            day = numbers(self.spark, 0, 3).where("k = 1").selectExpr("*", "'again' note")
            ws.write("orders", day, format=self.kind, mode="overwrite_partitions", partition_by=["k"])
        kept = {key: row for key, row in self.rows.items() if row["k"] != 1}
        self.told({**kept, 1: {"id": 1, "k": 1, "name": "n1", "note": "again"}})
        with self.runner.task() as ws:
            ws.write("orders", numbers(self.spark, 0, 5), format=self.kind, partition_by=["k"])
        self.told(expected(0, 5))
        for each in range(3):
            with self.runner.task() as ws:
                first = 5 + 2 * each
                ws.write("orders", numbers(self.spark, first, first + 1), format=self.kind, mode="append")
                ws.write("orders", numbers(self.spark, first + 1, first + 2), format=self.kind, mode="append")
            self.told(expected(0, first + 2))


def by_id(rows: list[dict[str, Any]]) -> Rows:
    assert len(rows) == len({each["id"] for each in rows}), "each row once"
    return {each["id"]: each for each in rows}
