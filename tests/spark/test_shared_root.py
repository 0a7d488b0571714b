"""Workers that share a root: none of them, and no ``gc``, touches what another one's live Spark has there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perago_worker.config.load import load
from perago_worker.pipelines.protocol import pipelines_of
from tests.spark.fault_harness import wait_until
from tests.worker.projects import Project, create, environment

pytest.importorskip("pyspark")

TASKS = '''
"""A task that waits in the middle, and then lets Spark use its folder."""

import time
from pathlib import Path

from pydantic import BaseModel

from perago_spark import SparkDatasets
from perago_worker import Workspace, task


class Meeting(BaseModel):
    begun: str
    go_on: str


class Made(BaseModel):
    rows: int


@task(name="shuffle", workspace=Workspace(prefix="sales"), timeout=600)
def shuffle(ws: SparkDatasets, params: Meeting) -> Made:
    Path("mine.txt").write_text("mine")
    Path(params.begun).touch()
    while not Path(params.go_on).exists():
        time.sleep(0.05)
    assert Path("mine.txt").read_text() == "mine"
    return Made(rows=ws.write("orders", ws.spark.range(1000).repartition(4)).rows)
'''
CONFIGURATION = """
tasks = ["tasks_on_a_shared_root"]

[spark]
master = "local[2,2]"

[spark.conf]
spark.driver.memory = "512m"
spark.driver.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

[pipelines.one]
repository = "lake"

[[pipelines.one.steps]]
task = "shuffle"
params = { begun = "${params.begun}", go_on = "${params.go_on}" }
"""


def below(root: Path) -> set[Path]:
    """Name all that Spark has put there; what it works on comes and goes."""
    return {Path(at) for at, _folders, _files in os.walk(root)}


def test_a_worker_that_starts_and_gc_leave_the_folder_of_another_ones_spark(tmp_path: Path) -> None:
    """Counterexample, seen: both took it for a room of a dead execution, and the running task lost its files (S-33)."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "tasks_on_a_shared_root.py").write_text(TASKS, "utf-8")
    (folder / "perago.toml").write_text(CONFIGURATION, "utf-8")
    project = Project(folder)
    assert project.process("register").returncode == 0
    first = create(project.stack())
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    words = pipelines_of(project.stack())
    pipeline = load(folder, {}, {}).pipelines["one"]
    workflow = words.start("one", pipeline, first, {"begun": str(begun), "go_on": str(go_on)})

    command = [sys.executable, "-m", "perago_worker", "--project", str(folder), "worker", "--until-idle"]
    with subprocess.Popen(command, env=environment()) as worker:  # noqa: S603  our own interpreter and code
        try:
            wait_until(lambda: begun.exists() or worker.poll() is not None, "the task runs")
            spark = folder / ".perago" / "work" / "spark"
            before = below(spark)
            assert len(before) > 3
            another = project.process("worker", "--until-idle")
            assert another.returncode == 0, another.stderr
            swept = project.process("gc", "lake/main")
            assert swept.returncode == 0, swept.stderr
            assert below(spark) >= before
            go_on.touch()
            assert worker.wait(300) == 0
        finally:
            worker.kill()
    view = words.view(workflow)
    assert view is not None
    assert view.succeeded, view
    assert list(spark.iterdir()) == []
