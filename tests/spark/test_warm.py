"""Processes of warm bodies around their tasks: one that cannot start, one whose worker is killed, folders of the dead.

No Spark is started here: a body looks for the function that runs tasks first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from perago_core.attempt.messages import BodyFailed
from perago_core.results import Completed, Failed
from perago_spark import Launch, SparkSettings, SparkTask, SparkWorkspace, WarmBodies
from perago_spark.process.pool import WarmBody
from perago_worker.config.load import load
from perago_worker.stack import pipelines_of
from tests.spark.fault_harness import wait_until
from tests.spark.lake import Lake, done
from tests.worker.projects import Project, create, environment

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


# ---- From task to task: kept, replaced when they die, leak or were interrupted, and never carrying over.


@pytest.fixture
def run(workspace: SparkWorkspace, lake: Lake) -> Callable[[str], dict[str, Any] | str]:
    """Run a task; give its output, or why it failed."""

    def running(task: str) -> dict[str, Any] | str:
        result = lake.run(workspace, task).result
        if isinstance(result, Completed):
            found: dict[str, Any] = json.loads(result.output)
            return found
        assert isinstance(result, Failed), result
        return str(result.refusal)

    return running


def test_a_relative_path_means_the_same_to_java_and_to_the_body_and_is_empty_for_the_next(
    run: Callable[[str], dict[str, Any]],
) -> None:
    """Counterexample, seen: the second task failed because the first had left its files in the worker's folder."""
    first, second = run("writes_by_relative_paths"), run("writes_by_relative_paths")
    assert first["pid"] == second["pid"]
    assert (first["before"], first["found"], second["before"], second["found"]) == ([], True, [], True)


def test_what_spark_sets_for_hadoop_by_itself_replaces_no_process(run: Callable[[str], dict[str, Any]]) -> None:
    first = run("writes_by_every_route")["pid"]
    assert run("looks_around")["pid"] == first


@pytest.mark.parametrize("task", ["dies", "kills_its_java"])
def test_a_process_that_died_or_lost_its_java_is_replaced(
    run: Callable[[str], Any], bodies: WarmBodies, task: str
) -> None:
    before = run("looks_around")["pid"]
    run(task)
    assert before not in bodies.running()
    assert not Path(f"/proc/{before}").exists()
    assert run("looks_around")["pid"] != before


def test_we_put_no_settings_in_a_command_line_and_show_no_address(
    bodies: WarmBodies, run: Callable[[str], Any]
) -> None:
    """A Connect address may hold a token; everybody on the machine can read how a process was started.

    It says nothing of Java's own command line: Spark puts the settings it starts Java with there.
    """
    pid = run("looks_around")["pid"]
    assert pid in bodies.running()
    assert "spark.driver.memory" not in Path(f"/proc/{pid}/cmdline").read_text("utf-8")
    assert "secret" not in repr(SparkSettings(remote="sc://host/;token=secret"))


# ---- Workers that share a root: none of them, and no ``gc``, touches what another one's live Spark has there.


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
