"""Tasks on one data set: appends and overwrites that may land on maintenance, and the compaction itself."""

from __future__ import annotations

from attrs import evolve
from pydantic import BaseModel

from perago_spark import SparkDatasets, exactly
from perago_worker.api.task import Workspace, task

SALES = Workspace(prefix="sales")


class Span(BaseModel):
    start: int
    stop: int


class Counted(BaseModel):
    rows: int
    files: int


@task(name="orders.append", workspace=SALES, over_maintenance=True, timeout=240)
def append(ws: SparkDatasets, params: Span) -> Counted:
    frame = ws.spark.range(params.start, params.stop, 1, 2)
    written = ws.write("orders", frame, mode="append", rows=exactly(params.stop - params.start))
    return Counted(rows=ws.rows("orders") + written.rows, files=written.files)


@task(name="orders.replace", workspace=SALES, over_maintenance=True, timeout=240)
def replace(ws: SparkDatasets, params: Span) -> Counted:
    written = ws.write("orders", ws.spark.range(params.start, params.stop, 1, 2))
    return Counted(rows=written.rows, files=written.files)


@task(name="orders.compact", workspace=SALES, operation="maintenance", timeout=240)
def compact(ws: SparkDatasets) -> Counted:
    written = ws.compact("orders")
    return Counted(rows=written.rows, files=written.files)


@task(name="orders.pretend", workspace=SALES, operation="maintenance", timeout=240)
def pretend(ws: SparkDatasets) -> Counted:
    """Call itself maintenance and change rows."""
    written = ws.write("orders", ws.spark.range(3))
    return Counted(rows=written.rows, files=written.files)


@task(name="orders.cheat", workspace=SALES, operation="maintenance", timeout=240)
def cheat(ws: SparkDatasets) -> Counted:
    """Forget that it is maintenance, and change rows."""
    vars(ws)["_scope"] = evolve(vars(ws)["_scope"], maintenance=False)
    written = ws.write("orders", ws.spark.range(3))
    return Counted(rows=written.rows, files=written.files)
