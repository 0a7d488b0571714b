"""Writing from Spark to a real lakeFS, beside Spark's own Parquet: to the local disk, and straight through the gateway.

.venv/bin/python -m tests.bench.spark_lakefs
"""

from __future__ import annotations

import os
import tempfile
import time
from io import BytesIO
from pathlib import Path

from attrs import define, evolve

from perago_core.ports import Stored
from perago_lakefs import Connection
from tests.bench.lakefs_proxy import proxy_for
from tests.bench.spark_writing import Bench, Route, opened, shown
from tests.cluster import s3a
from tests.cluster.lakes import LakeFSLake
from tests.spark.lake import Lake, done
from tests.support.servers.lakefs import LAKEFS, LakeFS

ROWS = int(os.environ.get("PERAGO_BENCH_ROWS", "2_000_000"))
LINKS, LATE = 4000, 0.010


@define
class Gateway:
    """What people do without us: Spark's own writer on a branch, through the S3 gateway."""

    bench: Bench
    lake: Lake
    writes: int = 0

    def write(self) -> None:
        """Write to a staging branch of its own; nothing checks what came of it."""
        self.writes += 1
        sink = self.lake.stage()
        area = done(sink.native_area("orders/", f"by-hand-{self.writes}"))  # type: ignore[attr-defined]  # lakeFS has one
        self.bench.frame.write.options(**area.options).parquet(area.uri)


def linking(server: LakeFS) -> float:
    """Give the seconds in which many files are linked, each request late."""
    with proxy_for(server.url) as proxy:
        lake = LakeFSLake(server, Connection(proxy.url, server.access_key, server.secret_key))
        sink = lake.stage()
        one: Stored = done(sink.put("orders/part-00000.w-1.0-0.parquet", BytesIO(b"rows")))
        stored = tuple(evolve(one, path=f"orders/part-{number:05d}.w-1.0-0.parquet") for number in range(LINKS))
        proxy.delay(LATE)
        begun = time.perf_counter()
        done(sink.link(stored))
        return time.perf_counter() - begun


def main() -> None:
    """Print every figure, if there is a server."""
    if not LAKEFS.is_there():
        print("Spark on lakeFS is not measured: lakeFS was never obtained here. Run: make servers")
        return
    with tempfile.TemporaryDirectory() as folder, LakeFS(folder=Path(folder)) as server:
        lake = LakeFSLake(server)
        with opened(ROWS, lake, {"spark.jars": s3a.jars()}) as bench:
            shown(
                f"Spark, write {ROWS:,} rows of 5 columns to lakeFS, up to the seal",
                [
                    Route("Spark's own Parquet, local disk", bench.plain),
                    Route("Spark's own Parquet, S3A", Gateway(bench, lake).write),
                    Route("native route, lakeFS", bench.native, "(goal 0.5)"),
                    Route("data source, lakeFS", bench.ours),
                ],
            )
        print(f"link {LINKS:,} files, each request {LATE * 1000:.0f} ms late {linking(server):6.1f} s (goal 10 s)")


if __name__ == "__main__":
    main()
