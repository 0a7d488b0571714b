"""Processes of warm bodies around their tasks: one that cannot start, one whose worker is killed, folders of the dead.

No Spark is started here: a body looks for the function that runs tasks first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from attrs import evolve, frozen

from perago_core.attempt.messages import BodyFailed
from perago_core.results import Failed
from perago_spark import Launch, SparkSettings, SparkTask, SparkWorkspace, WarmBodies
from perago_spark.process.pool import WarmBody
from tests.spark.fault_harness import wait_until
from tests.spark.lake import Lake, done

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


@frozen
class Other:
    """Another worker, with one body."""

    worker: subprocess.Popen[bytes]
    body: int

    def kill(self) -> None:
        """Kill the worker; its body ends by itself."""
        self.worker.kill()
        self.worker.wait()
        wait_until(lambda: not Path(f"/proc/{self.body}").exists(), "the body ends with its worker", 60)


@contextmanager
def other(root: Path) -> Generator[Other]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(  # noqa: S603  our own interpreter
        [sys.executable, "-c", WORKER, str(root)], stdout=subprocess.PIPE, env=environment
    ) as worker:
        assert worker.stdout is not None
        made = Other(worker, int(worker.stdout.readline()))
        try:
            yield made
        finally:
            worker.kill()
            with suppress(ProcessLookupError):
                os.killpg(made.body, signal.SIGKILL)


def test_a_body_ends_with_its_worker_and_its_folder_is_swept(tmp_path: Path) -> None:
    """A killed worker cannot end anything itself: its line closes, and that is enough (P-25)."""
    bodies = WarmBodies(launch(tmp_path))
    with other(tmp_path) as them:
        assert bodies.sweep() == ()
        them.kill()
        (left,) = bodies.sweep()
        assert left.startswith(f"body-{them.worker.pid}-")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_swept_by_who_is_in_and_not_by_the_number_in_its_name(tmp_path: Path) -> None:
    """Counterexample: in containers every worker is process 1, and sees none of those in other containers."""
    bodies = WarmBodies(launch(tmp_path))
    with other(tmp_path) as them:
        (folder,) = tmp_path.iterdir()
        unseen = folder.rename(tmp_path / f"body-{2**22 + 1}-unseen")  # more than the greatest number there is
        ours = tmp_path / f"body-{os.getpid()}-like-ours"
        ours.mkdir()
        assert bodies.sweep() == (ours.name,)
        assert unseen.is_dir()
        them.kill()
        assert bodies.sweep() == (unseen.name,)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_swept_while_a_body_without_its_worker_is_still_in(tmp_path: Path) -> None:
    bodies = WarmBodies(launch(tmp_path))
    with other(tmp_path) as them:
        os.kill(them.body, signal.SIGSTOP)
        them.worker.kill()
        them.worker.wait()
        assert bodies.sweep() == ()
        os.kill(them.body, signal.SIGCONT)
        them.kill()
        assert len(bodies.sweep()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_never_ends_takes_no_memory_of_the_worker(tmp_path: Path) -> None:
    """Counterexample, seen: a line of 200 MiB was 417 MiB in the worker, which runs the bodies of others, too."""
    go = tmp_path / "go"
    given = evolve(launch(tmp_path / "bodies"), entry="tests.spark.long_output:nothing")
    body = WarmBody(evolve(given, environment={**given.environment, "TALK_WHEN": str(go)}))
    heard: list[str] = []
    body.listen(heard.append)
    tracemalloc.start()
    try:
        go.touch()
        wait_until(lambda: "the last line" in heard, "all that was said is heard", 120)
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        body.kill()
        body.close()
    assert most < 4 << 20
    assert heard[:3] == ["the first line", "\u20ac" * 4096, "the last line"]


def test_a_body_that_is_late_is_told_from_one_that_is_gone(lake: Lake, tmp_path: Path) -> None:
    """Nothing was left of its time when it was first listened to."""
    bodies = WarmBodies(launch(tmp_path / "bodies"))
    workspace = SparkWorkspace(lake.store, {"task": SparkTask("task", timeout=0.0)}, bodies)
    attempt = lake.attempt("task")
    workspace.accept(attempt, "task", "{}")
    event = done(workspace.run(attempt))
    assert isinstance(event, BodyFailed)
    assert "ran longer than 0 s" in event.reason
    assert bodies.running() == ()
