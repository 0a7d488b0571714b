"""Writing a Delta or an Iceberg table as a task does, beside the same table written by Spark alone to a local disk.

Neither has a release for the newest Spark, so each runs on an older one, in an environment of its own:

.venv/bin/python -m tests.bench.spark_tables delta
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias, cast

from tests.bench.spark_writing import Bench, Route, opened, shown
from tests.spark.lake import datasets
from tests.tables import delta, iceberg

Kind: TypeAlias = Literal["delta", "iceberg"]
ROWS: Final = int(os.environ.get("PERAGO_BENCH_ROWS", "2_000_000"))
ON: Final[dict[Kind, str]] = {"delta": "4.2", "iceberg": "4.1"}
_HERE: Final = "PERAGO_BENCH_TABLES"


def bare(bench: Bench, kind: Kind) -> None:
    """Write a new table with Spark alone."""
    bench.writes += 1
    if kind == "delta":
        bench.frame.write.format("delta").save(str(bench.folder / f"bare-{bench.writes}"))
    else:
        bench.frame.writeTo(f"bare.db.orders_{bench.writes}").create()


def ours(bench: Bench, kind: Kind) -> None:
    """Write a new table as a task does, up to its seal."""
    written = datasets(bench.spark, bench.lake, bench.lake.head).write("orders", bench.frame, format=kind)
    assert written.rows == ROWS


def measure(kind: Kind) -> None:
    """Print the figures of one kind, in an environment that has it."""
    with TemporaryDirectory() as stands:
        os.chdir(stands)  # where Java is started, relative locations begin
        if kind == "delta":
            conf = delta.settings()
        else:
            named = "spark.sql.catalog.bare"
            conf = {**iceberg.settings(), named: "org.apache.iceberg.spark.SparkCatalog"}
            conf |= {f"{named}.type": "hadoop", f"{named}.warehouse": f"{stands}/bare"}
        with opened(ROWS, conf=conf) as bench:
            shown(
                f"Spark {bench.spark.version}, write {ROWS:,} rows of 5 columns as a new {kind} table, up to the seal",
                [
                    Route(f"{kind} alone, local disk", partial(bare, bench, kind)),
                    Route("as a task, embedded store", partial(ours, bench, kind), "(goal 0.87: 1.15 times as long)"),
                ],
            )


def main(*kinds: Kind) -> None:
    """Measure here if this is the environment for it; else have it measured there."""
    if _HERE in os.environ:
        measure(kinds[0])
        return
    from tests.support.servers.environments import interpreter  # noqa: PLC0415  not there in the other environment

    for kind in kinds or ("delta", "iceberg"):
        words = [str(interpreter(f"spark-{ON[kind]}")), "-m", __spec__.name, kind]
        path = os.pathsep.join([".", "adapters", "simulation"])
        subprocess.run(words, env={**os.environ, _HERE: "1", "PYTHONPATH": path}, check=True)  # noqa: S603  our own words


if __name__ == "__main__":
    main(*cast("list[Kind]", sys.argv[1:]))
