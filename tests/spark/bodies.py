"""Bodies for the tests of the workspace, and the function that runs them by name."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from perago_spark import BodyFailure, Returned, SparkDatasets, in_range, unique
from perago_spark.tables.kinds import TABLES
from perago_worker.spark import call as call_task
from tests.spark.faults import Marks, Striking


def _frame(ws: SparkDatasets, rows: int = 100) -> Any:  # noqa: ANN401  a frame
    return ws.spark.range(0, rows, 1, 2).selectExpr("id", "cast(id % 3 as int) k")


def two_writes(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    ws.write("orders", _frame(ws))
    ws.write("totals", _frame(ws).groupBy("k").count(), partition_by=["k"])
    return {"orders": ws.observed("orders").rows, "totals": ws.observed("totals").rows, "pid": os.getpid()}


def read_and_roll_up(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    orders = ws.read("orders", columns=["k"], filters=[("k", "=", 1)])
    ws.write("ones", orders)
    return {"rows": ws.observed("ones").rows}


def only_reads(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    return {"rows": ws.read("orders").count()}


def append(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    return {"rows": ws.write("orders", _frame(ws, 10), mode="append").rows}


def orders(ws: SparkDatasets, params: dict[str, Any]) -> object:
    """Add orders for the stream of the guide's page, or let their files become fewer."""
    if params["first"] is None:
        return {"files": ws.compact("orders").files}
    rows = ws.spark.range(params["first"], params["last"], 1, 2)
    shown = rows.selectExpr("id", "concat('c', id % 3) customer", "if(id % 5 = 0, -1, 1) * id amount")
    return {"rows": ws.write("orders", shown, mode="append").rows}


def writes_in_threads(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    with ThreadPoolExecutor(2) as pool:
        writing = [pool.submit(ws.write, name, _frame(ws)) for name in ("left", "right")]
        return {"rows": [each.result().rows for each in writing]}


def second_write_fails(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    ws.write("orders", _frame(ws))
    ws.write("totals", _frame(ws).selectExpr("raise_error('no totals today') as x"))
    return None


def goes_on_after_a_failed_write(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    try:
        ws.write("orders", _frame(ws).selectExpr("raise_error('no orders today') as x"))
    except Exception:  # noqa: BLE001  this is what is tested
        ws.write("totals", _frame(ws))
    return None


def names(ws: SparkDatasets, params: dict[str, Any]) -> object:
    def write(name: str) -> object:
        return ws.write(name, _frame(ws))

    uses: tuple[Callable[[str], object], ...] = (ws.read, write)
    return {"refused": [_refusal(use, name) for name in params["names"] for use in uses]}


def _refusal(use: Callable[[str], object], name: str) -> str:
    try:
        use(name)
    except Exception as error:  # noqa: BLE001  this is what is tested
        return str(error)
    return "nothing refused"


def leaves_things(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    from pyspark.sql import SparkSession  # noqa: PLC0415  as a body would

    _frame(ws).createOrReplaceTempView("left_behind")
    _frame(ws).createOrReplaceGlobalTempView("left_global")
    _frame(ws).cache().count()
    ws.spark.conf.set("spark.sql.shuffle.partitions", "17")
    SparkSession.builder.config("spark.sql.ansi.enabled", "false").getOrCreate()
    ws.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "mine")
    os.environ["LEFT_BEHIND"] = "1"
    Path("left.txt").write_text("left", "utf-8")
    return {"pid": os.getpid()}


def looks_around(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    context: Any = ws.spark.sparkContext
    return {
        "pid": os.getpid(),
        "views": [each.name for each in ws.spark.catalog.listTables()],
        "global": [each.name for each in ws.spark.catalog.listTables("global_temp")],
        "cached": len(context._jsc.getPersistentRDDs()),
        "shuffle": ws.spark.conf.get("spark.sql.shuffle.partitions"),
        "ansi": ws.spark.conf.get("spark.sql.ansi.enabled"),
        "pool": context.getLocalProperty("spark.scheduler.pool"),
        "environment": os.environ.get("LEFT_BEHIND"),
        "files": [each.name for each in Path().iterdir()],
    }


def leaks_a_thread(_ws: SparkDatasets, _params: dict[str, Any]) -> object:
    threading.Thread(target=time.sleep, args=(600,)).start()
    return {"pid": os.getpid()}


def stops_spark(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    ws.spark.stop()
    return {"pid": os.getpid()}


def sets_for_hadoop(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    context: Any = ws.spark.sparkContext
    context._jsc.hadoopConfiguration().set("fs.s3a.secret.key", "mine")
    return {"pid": os.getpid()}


def unsets_for_hadoop(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    context: Any = ws.spark.sparkContext
    context._jsc.hadoopConfiguration().unset("io.file.buffer.size")
    return {"pid": os.getpid()}


def writes_by_every_route(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    """Use what brings settings of its own: Hadoop's old and new formats, tables, streams' checkpoints."""
    ws.write("arrow", _frame(ws))
    ws.write("native", _frame(ws), via="native")
    _frame(ws).write.orc("orc")
    _frame(ws).rdd.saveAsTextFile("text")
    _frame(ws).write.saveAsTable("own")
    ws.spark.sql("drop table own")
    return {"pid": os.getpid()}


def writes_slowly(ws: SparkDatasets, params: dict[str, Any]) -> object:
    """Say in a file that a task runs, once for each attempt, and take long enough to be stopped in the middle."""
    marks = params["marks"]

    def slow(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        for batch in batches:
            for number in range(600):
                (Path(marks) / f"{os.getpid()}-{number}").touch()
                time.sleep(0.05)
            yield batch

    frame = _frame(ws)
    ws.write("orders", frame.mapInArrow(slow, frame.schema))
    return None


def writes_rows(ws: SparkDatasets, params: dict[str, Any]) -> object:
    """Write 1000 rows in 4 tasks. The fault is in the sink; or in the frame, where Spark's own writer needs no sink."""
    frame = ws.spark.range(0, 1000, 1, 4).selectExpr("id", "concat('n', id) name")
    if params["via"] != "arrow":
        struck = Striking(params["fault"], Marks(Path(params["marks"])))
        frame = cast("Any", frame).mapInArrow(struck.__call__, frame.schema)
    if params["via"] in TABLES:
        return {"rows": ws.write("orders", frame, format=cast("Any", params["via"]), mode=params["mode"]).rows}
    written = ws.write("orders", frame, via=params["via"], mode=params["mode"])
    return {"rows": written.rows}


def names_its_java(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    context: Any = ws.spark.sparkContext
    return {"home": context._jvm.System.getProperty("java.home")}


def dies(_ws: SparkDatasets, _params: dict[str, Any]) -> object:
    os._exit(3)


def kills_its_java(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    """As the kernel does when memory is short; the body goes on as if nothing had happened."""
    context: Any = ws.spark.sparkContext
    os.kill(int(context._jvm.ProcessHandle.current().pid()), signal.SIGKILL)
    return {"pid": os.getpid()}


def writes_by_relative_paths(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    """Java's folder and the body's own are one: what Spark writes there, the body finds, and the next task does not."""
    before = sorted(each.name for each in Path().iterdir())
    _frame(ws).write.parquet("mine")
    return {"pid": os.getpid(), "before": before, "found": (Path("mine") / "_SUCCESS").exists()}


def prints(_ws: SparkDatasets, _params: dict[str, Any]) -> object:
    print("a word from the body")  # noqa: T201  this is what is tested
    return None


def sleeps(_ws: SparkDatasets, _params: dict[str, Any]) -> object:
    time.sleep(600)
    return None


def beats(ws: SparkDatasets, params: dict[str, Any]) -> object:
    """Show a sign of life from within a task of Spark, for as long as it runs."""
    place = params["file"]

    def beat(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        until = time.monotonic() + 900
        while time.monotonic() < until:
            Path(place).touch()
            time.sleep(0.1)
        yield from batches

    frame: Any = ws.spark.range(0, 1, 1, 1)
    return frame.mapInArrow(beat, frame.schema).count()


def runs_out_of_memory(ws: SparkDatasets, _params: dict[str, Any]) -> object:
    """Want more for one row than the whole Java has."""
    return ws.spark.range(2).selectExpr("length(repeat(cast(id as string), 900000000)) n").collect()


def gated(ws: SparkDatasets, params: dict[str, Any]) -> object:
    """Write rows that a gate passes, or does not."""
    ws.write("orders", _frame(ws, params["rows"]), gates=[unique("id"), in_range("id", 0, 99)])
    if params.get("tamper"):
        # What a body, or something it left behind, could still do to the staging name.
        sink: Any = vars(ws)["_sink"]
        ws.finish()
        sink.seal("sales/orders/_gates.json", b"{}")
        ws.finish = lambda: None  # type: ignore[method-assign]
    return {"rows": ws.observed("orders").rows}


def reads_from_outside(ws: SparkDatasets, params: dict[str, Any]) -> object:
    """Read a file of this machine, and fail or change it if asked to."""
    place = ws.external(params["path"])
    frame = ws.spark.read.csv(place, header=True)
    ws.write("raw", frame)
    if params.get("change"):
        Path(params["path"]).write_text("id\n9\n")
    if params.get("fail"):
        raise ValueError("later")
    return {"rows": ws.observed("raw").rows}


TASKS: dict[str, Callable[[SparkDatasets, dict[str, Any]], object]] = {
    each.__name__: each
    for each in (
        two_writes,
        read_and_roll_up,
        only_reads,
        append,
        orders,
        writes_in_threads,
        second_write_fails,
        goes_on_after_a_failed_write,
        names,
        leaves_things,
        looks_around,
        leaks_a_thread,
        stops_spark,
        sets_for_hadoop,
        unsets_for_hadoop,
        writes_by_every_route,
        writes_slowly,
        writes_rows,
        names_its_java,
        dies,
        kills_its_java,
        writes_by_relative_paths,
        prints,
        sleeps,
        beats,
        runs_out_of_memory,
        gated,
        reads_from_outside,
    )
}


def call(body: str, datasets: SparkDatasets, params: str) -> Returned | BodyFailure:
    """Run a body of this file, or a task of a module as a worker does: one process serves the tests of both."""
    if ":" in body:
        return call_task(body, datasets, params)
    return Returned(json.dumps(TASKS[body](datasets, json.loads(params))))
