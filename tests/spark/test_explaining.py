"""What Spark says in a page of Java becomes one line with the cause and the fix. Every page here is a real one."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from perago_spark.diagnosis.failures import explained
from perago_spark.diagnosis.progress import Stage, following, summary
from perago_spark.errors import DatasetError, WorkerError
from perago_spark.source.options import ReadPlace, WritePlace
from tests.spark.fault_harness import wait_until
from tests.spark.lake import Lake

pytest.importorskip("pyspark")


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Starts Python with Spark's own packages and no others.
BARE = """#!/bin/sh
kept=
IFS=:
for each in $PYTHONPATH; do case "$each" in *pyspark*) kept="$kept:$each" ;; esac; done
unset IFS
PYTHONPATH="$kept" exec {python} -S "$@"
"""


def said(act: Callable[[], object]) -> str:
    """Return the one line instead of what is raised."""
    with pytest.raises(Exception) as raised:  # noqa: PT011  Spark's own, of many types
        act()
    meant = explained(raised.value)
    assert isinstance(meant, DatasetError | WorkerError), raised.value
    assert len(str(meant).splitlines()) == 1
    return str(meant)


def through_workers(spark: SparkSession, function: Callable[[Any], Any] | None = None) -> object:
    """Let Spark start a Python of its own, and do this to rows there."""

    def same(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        yield from batches

    frame: Any = spark.range(2)
    return frame.mapInArrow(function or same, frame.schema).collect()


class Workers(Protocol):
    """What Spark's context knows of the Python that it starts."""

    pythonExec: str  # noqa: N815  Spark's name
    pythonVer: str  # noqa: N815  as above


@pytest.fixture
def workers(spark: SparkSession) -> Iterator[Workers]:
    """Spark's context, whose Python may be changed and is put back."""
    found: Workers = spark.sparkContext
    before = found.pythonExec, found.pythonVer
    yield found
    found.pythonExec, found.pythonVer = before


def test_an_interpreter_that_is_not_there(spark: SparkSession, workers: Workers) -> None:
    workers.pythonExec = "/no/such/python"
    line = said(lambda: through_workers(spark))
    assert "expected a Python that Spark can start for its workers; found nothing that runs at /no/such/python" in line
    assert "Set spark.pyspark.python in [spark.conf]" in line


def test_an_interpreter_of_another_version(spark: SparkSession, workers: Workers) -> None:
    workers.pythonVer = "3.9"
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"expected workers with the Python of the body, 3.9; found Python {here} there" in said(
        lambda: through_workers(spark)
    )


def test_an_interpreter_without_arrow(spark: SparkSession, workers: Workers, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(BARE.format(python=os.path.realpath(sys.executable)), "utf-8")
    bare.chmod(0o755)
    workers.pythonExec = str(bare)
    assert "expected pyarrow in the Python that Spark starts for its workers" in said(lambda: through_workers(spark))


def test_a_missing_pandas(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark wants it for functions on Arrow, although it does not use it."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    line = said(lambda: through_workers(spark))
    assert "expected Pandas 2.2.0 or newer beside Spark; found none. pip install 'perago-core[spark]'" in line


@pytest.mark.parametrize("mode", [None, "ignore"])
def test_a_save_mode_that_is_none_of_ours(spark: SparkSession, lake: Lake, mode: str | None) -> None:
    place = WritePlace(lake.source(), lake.stage(), "orders/", "w1")
    writer = spark.range(2).write.format("perago").options(**place.options())
    line = said((writer if mode is None else writer.mode(mode)).save)
    assert "expected mode 'append' or 'overwrite'" in line
    assert ("ErrorIfExists" if mode is None else "Ignore") in line


def test_partitioning_that_spark_does_not_pass_on(spark: SparkSession, lake: Lake) -> None:
    place = WritePlace(lake.source(), lake.stage(), "orders/", "w1")
    writer = spark.range(2).write.format("perago").mode("append").partitionBy("id").options(**place.options())
    assert "ws.write(name, frame, partition_by=[...])" in said(writer.save)


def test_a_thread_without_a_session(spark: SparkSession) -> None:
    """A write looks the source up in the session of the calling thread, and not in the frame's own; a read does not."""
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415  only with Spark

    class Named(DataSource):
        @classmethod
        def name(cls) -> str:
            return "registered_by_hand"

    own = spark.newSession()
    own.dataSource.register(Named)
    found: list[str] = []
    write = own.range(2).write.format("registered_by_hand").mode("append").save
    thread = threading.Thread(target=lambda: found.append(said(write)))
    thread.start()
    thread.join()
    assert "expected a thread that belongs to a Spark session" in found[0]


def test_our_own_words_come_through_spark_unharmed(spark: SparkSession, lake: Lake) -> None:
    place = ReadPlace(lake.source(), "nowhere/")
    line = said(lambda: spark.read.format("perago").options(**place.options()).load())
    assert line.startswith("expected a data set in 'nowhere/'; found nothing there")


def test_what_a_function_raised_in_a_worker_is_said_first(spark: SparkSession) -> None:
    """Else it stands after a page of Spark's own words, where a reason is cut off."""

    def fails(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        for _batch in batches:
            raise ValueError("row 17 is bad")
        yield

    line = said(lambda: through_workers(spark, fails))
    assert line.startswith("ValueError: row 17 is bad (line ")
    assert line.endswith("of test_explaining.py, in fails)")


def test_a_job_that_was_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    """From another thread, in the middle of a task: as a lost attempt is stopped."""
    begun = str(tmp_path / "begun")

    def waits(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        Path(begun).touch()
        time.sleep(600)
        yield from batches

    def cancels() -> None:
        wait_until(Path(begun).exists, "a task runs")
        spark.sparkContext.cancelAllJobs()

    thread = threading.Thread(target=cancels)
    thread.start()
    line = said(lambda: through_workers(spark, waits))
    thread.join()
    assert line == "expected a job that runs to its end; found a cancelled one. The attempt was lost or timed out."


def test_a_worker_that_was_killed(spark: SparkSession) -> None:
    """As the kernel does it when memory is short: without a last word."""

    def dies(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    line = said(lambda: through_workers(spark, dies))
    assert "found one that was killed or has crashed, most often because memory ran out. Give tasks less" in line


def test_a_module_that_only_the_body_has(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark sends a function of a module as its name, which says nothing to a worker that cannot import it."""
    (tmp_path / "beside_the_body.py").write_text("def same(batches):\n    yield from batches\n", "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    function = importlib.import_module("beside_the_body").same
    line = said(lambda: through_workers(spark, function))
    assert "expected the module beside_the_body in the Python that Spark starts for its workers; found none" in line
    assert "spark.submit.pyFiles in [spark.conf]" in line


def test_a_body_s_own_words_are_left_alone(spark: SparkSession) -> None:
    """Also where it says them because of something Spark said."""

    def wraps() -> None:
        try:
            spark.range(2).write.format("perago").save()
        except Exception:  # noqa: BLE001  this is what is tested
            raise LookupError("no orders today") from None

    with pytest.raises(LookupError) as raised:
        wraps()
    assert explained(raised.value) is raised.value
    cancelled = ValueError("the customer cancelled")
    assert explained(cancelled) is cancelled


# ---- How far Spark is, told while it works.


def test_all_stages_that_are_known_are_one_line() -> None:
    assert summary([Stage(4, 6, 0, 1), Stage(3, 2, 2, 0)]) == (0.25, "Spark stage 3, 4: 2 of 8 tasks done, 1 running")


@pytest.mark.parametrize("stages", [(), (Stage(1, 0, 0, 0),)])
def test_where_nothing_runs_nothing_is_said(stages: tuple[Stage, ...]) -> None:
    assert summary(stages) == (0.0, "")


def test_a_job_is_followed_while_it_runs_and_nobody_after(spark: SparkSession, tmp_path: Path) -> None:
    """The job goes on only when it was told of: so that it was is not a matter of how fast this machine is."""
    told: list[tuple[float, str]] = []
    heard = tmp_path / "heard"
    place = str(heard)

    def waits(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        for batch in batches:
            until = time.monotonic() + 120
            while not Path(place).exists() and time.monotonic() < until:
                time.sleep(0.05)
            yield batch

    def tell(share: float, line: str) -> None:
        told.append((share, line))
        heard.touch()

    frame: Any = spark.range(0, 4, 1, 4)
    with following(spark, tell):
        assert len(frame.mapInArrow(waits, frame.schema).collect()) == 4
    assert told[0][0] == 0.0
    assert "0 of 4 tasks done" in told[0][1]
    assert all(one != another for one, another in pairwise(told))
    assert "perago-progress" not in {each.name for each in threading.enumerate()}
