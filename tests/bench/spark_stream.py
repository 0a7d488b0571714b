"""What a batch of a stream costs: Spark's own Parquet sink, and the same query in a task, by both ways to write.

Each run reads so many files, one a batch. The ways take turns; what is compared is the median batch, as Spark times it.

.venv/bin/python -m tests.bench.spark_stream
"""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.bench.spark_writing import Bench, opened
from tests.spark.lake import datasets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import QueryProgressEvent

BATCHES: Final = int(os.environ.get("PERAGO_BENCH_BATCHES", "12"))
ROUNDS: Final = int(os.environ.get("PERAGO_BENCH_ROUNDS", "4"))
ROWS: Final = 20_000


class Batches(StreamingQueryListener):
    """Keeps how long each batch of the query that runs took, and tells when the query has ended."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: object) -> None:  # noqa: N802  Spark's name
        """Nothing is to be done."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  as above
        """Keep it, unless the query only looked and found nothing."""
        if event.progress.numInputRows:
            self.took.append(event.progress.batchDuration / 1000)

    def onQueryIdle(self, event: object) -> None:  # noqa: N802  as above
        """Nothing is to be done."""

    def onQueryTerminated(self, event: object) -> None:  # noqa: ARG002, N802  as above
        """Say so."""
        self.ended.set()


def rows_of(bench: Bench, source: Path) -> DataFrame:
    """Read the files, one a batch."""
    return bench.spark.readStream.schema(bench.frame.schema).option("maxFilesPerTrigger", 1).parquet(str(source))


def plain(bench: Bench, source: Path) -> None:
    """Write with Spark's own sink, which is exactly once by a log of its own."""
    bench.writes += 1
    place = bench.folder / f"plain-{bench.writes}"
    writer = rows_of(bench, source).writeStream.format("parquet").option("checkpointLocation", f"{place}-checkpoint")
    writer.trigger(availableNow=True).start(str(place)).awaitTermination()


def by_foreach_batch(bench: Bench, source: Path) -> None:
    """Write in a task, by ``foreachBatch``."""
    ws = datasets(bench.spark, bench.lake, bench.lake.head)

    def output(batch: DataFrame, _number: int) -> None:
        ws.write("orders", batch, mode="append")

    ws.run_query("ingest", rows_of(bench, source).writeStream.foreachBatch(output))


def by_data_source(bench: Bench, source: Path) -> None:
    """Write in a task, by the data source."""
    ws = datasets(bench.spark, bench.lake, bench.lake.head)
    writer = rows_of(bench, source).writeStream.format("perago").options(**ws.target("orders"))
    ws.run_query("ingest", writer.outputMode("append"))


WAYS: Final[dict[str, Callable[[Bench, Path], None]]] = {
    "Spark's own Parquet sink": plain,
    "in a task, foreachBatch": by_foreach_batch,
    "in a task, the data source": by_data_source,
}


def main() -> None:
    """Print the median batch of each way."""
    with opened(BATCHES * ROWS) as bench:
        source = bench.folder / "input"
        bench.frame.repartition(BATCHES).write.parquet(str(source))
        heard = Batches()
        bench.spark.streams.addListener(cast("Any", heard))
        took: dict[str, list[float]] = {name: [] for name in WAYS}
        for number in range(ROUNDS + 1):
            for name, way in WAYS.items():
                heard.took, heard.ended = [], threading.Event()
                way(bench, source)
                assert heard.ended.wait(60)
                # The first batch of a run starts Python; the first round warms up.
                took[name] += heard.took[1:] if number else []
        base, *_ = (statistics.median(each) for each in took.values())
        print(
            f"Spark, a stream of {BATCHES} batches of {ROWS:,} rows, {ROUNDS} runs of each in turns: the median batch"
        )
        for name, each in took.items():
            middle = statistics.median(each)
            print(f"  {name:<30} {middle:6.3f} s = {middle / base:4.2f} times Spark's own  (goal 1.3)  of {len(each)}")


if __name__ == "__main__":
    main()
