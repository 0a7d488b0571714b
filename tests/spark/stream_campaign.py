"""A stream with three outputs whose drivers are killed, and of which two live at once; then the same with plain Spark.

    python -m tests.spark.stream_campaign --batches 1000 --kills 100 --twins 20 --seed 7

Each input file is one batch. Ours: ``perago worker`` processes keep a pipeline with ``every``. Plain: a process that
runs the same query with a checkpoint of its own and ``foreachBatch`` into three folders of Parquet. What is counted
afterwards is read by pyarrow alone: of ours a checkout of ``main``, of plain Spark its folders.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen

from perago_core.answers import Done
from perago_core.values import Target
from perago_worker.config.load import load
from perago_worker.stack import open_stack
from tests.worker.isolated import commits, files
from tests.worker.projects import environment

OUTPUTS: Final = ("all", "even", "odd")
ROWS: Final = 10
#: Seconds without a batch after which a driver counts as stuck: on a busy machine Spark starts in minutes.
_STUCK: Final = 1800.0
_PARQUET: Any = import_module("pyarrow.parquet")
_ARROW: Any = import_module("pyarrow")

SETTINGS: Final = """
tasks = ["stream_tasks"]

[worker]
poll_interval = 0.05

[budget]
heartbeat_interval = 0.5
shutdown_grace = 1
publish_timeout = 2
completion_reserve = 0.5

[spark]
master = "local[2,2]"

[spark.conf]
spark.driver.memory = "512m"
spark.sql.shuffle.partitions = "2"
spark.driver.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

[pipelines.stream]
repository = "lake"
every = 0.2
steps = [{ task = "ingest" }]
"""
TASKS: Final = """
from pydantic import BaseModel

from perago_spark import SparkDatasets
from perago_worker import Workspace, task


class Ran(BaseModel):
    batches: int


@task(name="ingest", workspace=Workspace(prefix="out/"), retries=20, retry_delay=0.1, response_timeout=12)
def ingest(ws: SparkDatasets) -> Ran:
    def outputs(batch, number):
        ws.write("all", batch, mode="append")
        ws.write("even", batch.where("id % 2 = 0"), mode="append")
        ws.write("odd", batch.where("id % 2 = 1"), mode="append")

    rows = ws.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet("INPUT")
    return Ran(batches=ws.run_query("ingest", rows.writeStream.foreachBatch(outputs)).batches)
"""
#: The same query as a program of its own: folder of the input, of the outputs.
PLAIN: Final = """
import sys, time
from pyspark.sql import SparkSession

source, target = sys.argv[1:]
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "512m").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1").getOrCreate())

def outputs(batch, number):
    batch.write.mode("append").parquet(f"{target}/all")
    batch.where("id % 2 = 0").write.mode("append").parquet(f"{target}/even")
    batch.where("id % 2 = 1").write.mode("append").parquet(f"{target}/odd")

while True:
    rows = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(source)
    writer = rows.writeStream.foreachBatch(outputs).option("checkpointLocation", f"{target}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    time.sleep(0.2)
"""


@frozen
class Found:
    """What is in the outputs: rows that are missing, rows that are there more than once, and what it took."""

    who: str
    batches: int
    kills: int
    twins: int
    commits: int
    lost: int
    doubled: int
    seconds: float

    @property
    def exactly_once(self) -> bool:
        """Return whether each row is in each of its outputs once."""
        return not self.lost and not self.doubled


@frozen
class Play:
    """How much is played, and by which seed."""

    batches: int
    kills: int
    twins: int
    seed: int


def add_input(folder: Path, number: int) -> None:
    """Bring the file of one batch, under a name that Spark does not look at before it is whole."""
    table = _ARROW.table({"id": list(range(number * ROWS, (number + 1) * ROWS))})
    hidden = folder / f".{number:06d}.parquet"
    _PARQUET.write_table(table, hidden)
    hidden.rename(folder / f"{number:06d}.parquet")


def count(read: Callable[[str], list[int]], batches: int) -> tuple[int, int]:
    """Return how many rows are missing and how many are too many, over all outputs."""
    lost = doubled = 0
    for output in OUTPUTS:
        step = {"all": range(batches * ROWS), "even": range(0, batches * ROWS, 2), "odd": range(1, batches * ROWS, 2)}
        found = Counter(read(output))
        lost += sum(each not in found for each in step[output])
        doubled += sum(number - 1 for number in found.values())
    return lost, doubled


def play(play: Play, start: Callable[[], subprocess.Popen[bytes]], done: Callable[[], int], source: Path) -> None:
    """Bring input while drivers are killed at random, or two of them live; return when all of it is done."""
    draw = random.Random(play.seed)
    rounds = ["kill"] * play.kills + ["twins"] * play.twins
    draw.shuffle(rounds)
    share, brought = play.batches / (len(rounds) + 1), 0
    drivers = [start()]
    try:
        for number, kind in enumerate([*rounds, "end"], 1):
            before = brought
            while brought < round(share * number):
                add_input(source, brought)
                brought += 1
            if kind == "twins":
                drivers.append(start())
            # Somewhere inside what was brought: between nothing and all of it, and a moment of a batch more.
            _wait(done, brought if kind != "kill" else draw.randint(before, brought))
            time.sleep(draw.uniform(0, 0.8))
            if kind != "end":
                victim = drivers.pop(draw.randrange(len(drivers)))
                _kill(victim)
                if not drivers:
                    drivers.append(start())
    finally:
        for each in drivers:
            _kill(each)


def _wait(done: Callable[[], int], batches: int) -> None:
    """Wait for so many batches, and give up only when none has been added for a long time."""
    found, until = done(), time.monotonic() + _STUCK
    while found < batches:
        time.sleep(0.1)
        before, found = found, done()
        if found > before:
            until = time.monotonic() + _STUCK
        if time.monotonic() > until:
            raise TimeoutError(f"{found} of {batches} batches, and no other for {_STUCK:g} s")


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _started(words: list[str], log: Path, **more: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(  # noqa: S603  our own interpreter and code
            [sys.executable, *words],
            env=environment(PYSPARK_PYTHON=sys.executable, **more),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def play_ours(folder: Path, wanted: Play) -> Found:
    """Play it with workers that keep the stream."""
    source = folder / "input"
    source.mkdir(parents=True)
    (folder / "perago.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / "stream_tasks.py").write_text(TASKS.replace("INPUT", str(source)), encoding="utf-8")
    words = ["-m", "perago_worker", "--project", str(folder), "worker"]
    began = time.monotonic()
    stack = open_stack(load(folder, {}, {}))

    def tree() -> dict[str, bytes]:
        return files(stack, commits(stack)[0].ref)

    def batches() -> int:
        head = stack.store.head(Target("lake", "main"))
        if not isinstance(head, Done) or head.value is None:
            return 0  # the first run makes the branch
        listed = stack.store.read("lake", head.value.commit.ref).list("out/_streams/ingest/commits/")
        assert isinstance(listed, Done)
        return 1 + max((int(each.path.rpartition("/")[2]) for each in listed.value), default=-1)

    play(wanted, lambda: _started(words, folder / "worker.log"), batches, source)
    found = tree()

    def read(output: str) -> list[int]:
        here = [data for path, data in found.items() if path.startswith(f"out/{output}/") and path.endswith(".parquet")]
        return [row for data in here for row in _PARQUET.read_table(BytesIO(data))["id"].to_pylist()]

    lost, doubled = count(read, wanted.batches)
    took = time.monotonic() - began
    return Found(
        "perago", wanted.batches, wanted.kills, wanted.twins, len(commits(stack)) - 1, lost, doubled, round(took, 1)
    )


def play_plain(folder: Path, wanted: Play) -> Found:
    """Play the same with Spark's own Parquet files and ``foreachBatch``. Two drivers of one checkpoint end one."""
    source, target = folder / "input", folder / "target"
    source.mkdir(parents=True)
    program = folder / "plain.py"
    program.write_text(PLAIN, encoding="utf-8")
    began = time.monotonic()

    def batches() -> int:
        done = target / "checkpoint" / "commits"
        return 1 + max((int(each.name) for each in done.glob("[0-9]*")), default=-1)

    def start() -> subprocess.Popen[bytes]:
        return _started([str(program), str(source), str(target)], folder / "plain.log")

    play(wanted, start, batches, source)

    def read(output: str) -> list[int]:
        here = (target / output).glob("*.parquet")
        return [row for path in here for row in _PARQUET.read_table(path)["id"].to_pylist()]

    lost, doubled = count(read, wanted.batches)
    took = time.monotonic() - began
    return Found("plain Spark", wanted.batches, wanted.kills, wanted.twins, 0, lost, doubled, round(took, 1))


def main() -> None:
    """Play both, print what was found, and end with 1 if ours lost or doubled a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("batches", 1000), ("kills", 100), ("twins", 20), ("seed", random.randrange(1 << 30))):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", choices=["perago", "plain"])
    given = parser.parse_args()
    wanted = Play(given.batches, given.kills, given.twins, given.seed)
    held = True
    with tempfile.TemporaryDirectory(prefix="streams-") as folder:
        if given.only != "plain":
            ours = play_ours(Path(folder) / "ours", wanted)
            held = ours.exactly_once
            print(json.dumps({**asdict(ours), "seed": wanted.seed}))  # noqa: T201  the result
        if given.only != "perago":
            # Of two drivers of one checkpoint Spark ends one by itself, at some time: kills alone are enough here.
            alone = Play(wanted.batches, wanted.kills, 0, wanted.seed)
            print(json.dumps({**asdict(play_plain(Path(folder) / "plain", alone)), "seed": wanted.seed}))  # noqa: T201
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
