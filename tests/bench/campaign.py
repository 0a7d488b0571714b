"""A campaign on Spark beside one in a pool of processes: both warm, in turns, up to the last file.

.venv/bin/python -m tests.bench.campaign
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from perago_core.values import Backing
from perago_simulation.campaign import Campaign, Engine, Folder, carry_out
from perago_simulation.world.settings import setting
from perago_spark import SparkSettings
from perago_spark.campaign import mapped
from perago_spark.process.java import java_environment
from perago_spark.process.session import open_session
from tests.bench.spark_cpu import Meter

T = TypeVar("T")
R = TypeVar("R")

SCHEDULES = int(os.environ.get("PERAGO_BENCH_SCHEDULES", "400_000"))
ROUNDS = int(os.environ.get("PERAGO_BENCH_ROUNDS", "3"))
CAMPAIGN = Campaign(setting=setting(Backing.ATOMIC, crashes=1))


def seconds(engine: Engine, meter: Meter) -> tuple[float, float, str]:
    """Carry the campaign out once; give the time on the clock and of the processors, and the digest."""
    with TemporaryDirectory() as folder:
        begun, cpu = time.perf_counter(), meter.used()
        found = carry_out(CAMPAIGN, Folder(Path(folder)), SCHEDULES, engine)
        return time.perf_counter() - begun, meter.used() - cpu, found.digest


def main() -> None:
    """Print the figures."""
    os.environ.update(java_environment(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with TemporaryDirectory() as scratch, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        spark = open_session(SparkSettings("local[2]"), Path(scratch))

        def processes(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
            return (each.result() for each in as_completed([pool.submit(function, item) for item in items]))

        def on_spark(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
            return mapped(spark.sparkContext, function, items)

        # Not at the top: the processes of the pool import this module, and would each have one.
        meter = Meter()
        try:
            took: dict[str, list[tuple[float, float]]] = {"processes": [], "spark": []}
            digests: set[str] = set()
            for _ in range(ROUNDS):
                for name, engine in (("processes", processes), ("spark", on_spark)):
                    clock, cpu, digest = seconds(engine, meter)
                    took[name].append((clock, cpu))
                    digests.add(digest)
        finally:
            spark.stop()
    assert len(digests) == 1, digests
    ours, theirs = (tuple(min(each) for each in zip(*took[name], strict=True)) for name in ("spark", "processes"))
    print(f"campaign of {SCHEDULES:,} schedules, two at a time, one digest:")
    print(f"  pool of processes {theirs[0]:6.1f} s ({SCHEDULES / theirs[0]:,.0f}/s), {theirs[1]:6.1f} s of processors")
    print(f"  Spark             {ours[0]:6.1f} s = {ours[0] / theirs[0]:4.2f}x (goal 1.15x), ", end="")
    print(f"{ours[1]:6.1f} s = {ours[1] / theirs[1]:4.2f}x")


if __name__ == "__main__":
    main()
