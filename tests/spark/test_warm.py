"""Processes of warm bodies around their tasks: one that cannot start, one whose worker is killed, folders of the dead.

No Spark is started here: a body looks for the function that runs tasks first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perago_core.results import Failed
from perago_spark import Launch, SparkSettings, SparkTask, SparkWorkspace, WarmBodies
from tests.spark.lake import Lake

pytest.importorskip("pyspark")

WORKER = """
import os, sys, time
from pathlib import Path
from perago_spark import Launch, SparkSettings, WarmBodies
bodies = WarmBodies(Launch("no.such:thing", SparkSettings().text(), dict(os.environ), Path(sys.argv[1])))
print(bodies.take().pid, flush=True)
time.sleep(600)
"""


def launch(root: Path) -> Launch:
    return Launch("no.such:thing", SparkSettings().text(), dict(os.environ), root)


def test_a_process_that_cannot_start_says_why_when_it_is_given_a_task(lake: Lake, tmp_path: Path) -> None:
    bodies = WarmBodies(launch(tmp_path / "bodies"))
    outcome = lake.run(SparkWorkspace(lake.store, {"task": SparkTask("task")}, bodies), "task")
    assert isinstance(outcome.result, Failed)
    assert "Spark did not start: ModuleNotFoundError: No module named 'no'" in str(outcome.result.refusal)
    assert bodies.running() == ()
    assert list((tmp_path / "bodies").iterdir()) == []


def test_a_body_ends_with_its_worker_and_its_folder_is_swept(tmp_path: Path) -> None:
    """A killed worker cannot end anything itself: its line closes, and that is enough (P-25)."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = subprocess.Popen(  # noqa: S603  our own interpreter
        [sys.executable, "-c", WORKER, str(tmp_path)], stdout=subprocess.PIPE, env=environment
    )
    assert worker.stdout is not None
    with worker.stdout:
        body = int(worker.stdout.readline())
        bodies = WarmBodies(launch(tmp_path))
        assert bodies.sweep() == ()
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    until = time.monotonic() + 60
    while Path(f"/proc/{body}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{body}").exists()
    (left,) = bodies.sweep()
    assert left.startswith(f"body-{worker.pid}-")
    assert list(tmp_path.iterdir()) == []
