"""Spark tasks as an author writes them, and one on files beside them."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from perago_spark import SparkDatasets
from perago_worker.api.errors import TaskTerminalError
from perago_worker.api.task import Workspace, task


class Wanted(BaseModel):
    rows: int


class Made(BaseModel):
    rows: int


def some_rows(ws: SparkDatasets) -> bool:
    return ws.observed("orders").rows > 0


@task(name="spark.ingest", workspace=Workspace(prefix="sales", post=[some_rows]), timeout=240)
def ingest(ws: SparkDatasets, params: Wanted) -> Made:
    if params.rows < 0:
        raise TaskTerminalError("fewer rows than none")
    return Made(rows=ws.write("orders", ws.spark.range(params.rows)).rows)


@task(name="files.note", workspace=Workspace(prefix="notes"))
def note(workspace: Path) -> None:
    (workspace / "note.txt").write_text("beside", "utf-8")
