"""Writing and reading on Spark, beside Spark's own Parquet: the data source, the native route, and the way back.

Each round takes every route once, in turns, so that noise hits all alike; the ratio is of the best rounds.

.venv/bin/python -m tests.bench.spark_writing
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from perago_core.ports import Sink
from perago_spark import ReadPlace, SparkSettings, WritePlace
from perago_spark.process.java import java_environment
from perago_spark.process.session import open_session
from perago_spark.source import native
from perago_spark.source.options import FORMAT
from tests.bench.spark_cpu import Meter
from tests.spark.counting import CountingSink
from tests.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = int(os.environ.get("PERAGO_BENCH_ROWS", "4_000_000"))
ROUNDS = int(os.environ.get("PERAGO_BENCH_ROUNDS", "5"))
PARTS = 4
_METER = Meter()
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@frozen
class Route:
    """One way to write or read, and what it is measured against."""

    name: str
    work: Callable[[], object]
    goal: str = ""


@define
class Bench:
    """A cached frame and a lake; every write goes to a folder and a staging name of its own."""

    spark: SparkSession
    lake: Lake
    frame: DataFrame
    folder: Path
    writes: int = 0

    def plain(self, timestamps: str = "INT96") -> Path:
        """Write with Spark alone, to the same disk; as it comes, it writes points in time as 96 bits."""
        self.writes += 1
        place = self.folder / f"plain-{self.writes}"
        self.spark.conf.set(_TIMESTAMPS, timestamps)
        self.frame.write.parquet(str(place))
        self.spark.conf.unset(_TIMESTAMPS)
        return place

    def place(self, sink: Sink) -> WritePlace:
        self.writes += 1
        return WritePlace(self.lake.source(), sink, "orders/", f"w{self.writes}")

    def ours(self) -> None:
        """Write with the data source, up to the seal."""
        self._save(self.place(self.lake.stage()))

    def native(self) -> None:
        """Write by the native route, up to the seal."""
        native.write(self.frame, self.place(self.lake.stage()), overwrite=True)

    def calls(self, parts: int) -> dict[str, int]:
        """Count what one write of so many files asks of the store."""
        with TemporaryDirectory() as folder:
            sink = CountingSink(self.lake.stage(), Path(folder))
            place = self.place(sink)
            self.frame.limit(1000).repartition(parts).write.format(FORMAT).mode("overwrite").options(
                **place.options()
            ).save()
            return sink.counted()

    def _save(self, place: WritePlace) -> None:
        self.frame.write.format(FORMAT).mode("overwrite").options(**place.options()).save()

    def read_plain(self, place: Path) -> None:
        _consume(self.spark.read.parquet(str(place)))

    def read_ours(self, place: ReadPlace) -> None:
        _consume(self.spark.read.format(FORMAT).options(**place.options()).load())


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


@define
class Best:
    """The least seconds of any round, on the clock and of the processors."""

    clock: float = float("inf")
    cpu: float = float("inf")


def best_of(routes: list[Route]) -> list[Best]:
    """Return each route's best; the first round only warms up."""
    best = [Best() for _ in routes]
    for number in range(ROUNDS + 1):
        for found, route in zip(best, routes, strict=True):
            clock, cpu = time.perf_counter(), _METER.used()
            route.work()
            if number:
                found.clock = min(found.clock, time.perf_counter() - clock)
                found.cpu = min(found.cpu, _METER.used() - cpu)
    return best


@contextmanager
def opened(rows: int, lake: Lake | None = None, conf: dict[str, str] | None = None) -> Generator[Bench]:
    """Start Spark and make the frame: two longs, a double, a text and a point in time.

    The lake is one on the embedded store if none is given.
    """
    os.environ.update(java_environment(os.environ))
    # Spark's workers look for data sources, and for what is counted here.
    os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with TemporaryDirectory() as root:
        settings = SparkSettings("local[2,4]", {"spark.driver.memory": "2g", **(conf or {})})
        spark = open_session(settings, Path(root) / "spark")
        try:
            frame = spark.range(0, rows, 1, PARTS).selectExpr(
                "id",
                "id * 7919 % 100003 as customer",
                "cast(id % 9973 as double) / 100 as amount",
                "concat('order ', cast(id % 50000 as string)) as name",
                "timestamp_micros(1700000000000000 + id * 1000000) as at",
            )
            frame = frame.cache()
            frame.count()
            yield Bench(spark, lake or Lake(Path(root) / "lake"), frame, Path(root))
        finally:
            spark.stop()


def shown(title: str, routes: list[Route]) -> None:
    """Measure and print; the first route is the yardstick."""
    base, *others = best_of(routes)
    print(f"{title} (by the clock, and by processor time)")
    print(f"  {routes[0].name:<30} {base.clock:6.2f} s {'':8} {base.cpu:6.2f} s")
    for route, found in zip(routes[1:], others, strict=True):
        print(
            f"  {route.name:<30} {found.clock:6.2f} s = {base.clock / found.clock:4.2f}  "
            f"{found.cpu:6.2f} s = {base.cpu / found.cpu:4.2f}  {route.goal}"
        )


def main(rows: int = ROWS) -> None:
    """Print every figure."""
    with opened(rows) as bench:
        shown(
            f"Spark, write {rows:,} rows of 5 columns in {PARTS} tasks, up to the seal",
            [
                Route("Spark's own Parquet", bench.plain),
                Route("the same, times as we do", partial(bench.plain, "TIMESTAMP_MICROS")),
                Route("native route, embedded store", bench.native, "(goal 0.95)"),
                Route("data source, embedded store", bench.ours, "(goal 0.5, aim 0.8)"),
            ],
        )
        plain = bench.plain()
        bench.ours()
        committed = bench.lake.committed()
        assert committed is not None
        place = ReadPlace(bench.lake.source(committed), "orders/")
        shown(
            f"Spark, read {rows:,} rows of 5 columns",
            [
                Route("Spark's own Parquet", partial(bench.read_plain, plain)),
                Route("data source", partial(bench.read_ours, place), "(goal 0.45)"),
            ],
        )
        few, many = bench.calls(2), bench.calls(10)
        told: dict[str, Any] = {name: (few.get(name, 0), many.get(name, 0)) for name in sorted(few | many)}
        each = (sum(many.values()) - sum(few.values())) / 8
        print(f"store calls for 2 and for 10 files: {told}; {each:.2f} for each further file (goal 2)")


if __name__ == "__main__":
    main()
