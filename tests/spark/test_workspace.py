"""Spark bodies from their assignment to the published commit, in warm processes, on the embedded store."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Done
from perago_core.attempt.messages import BodyFailed, StagingWanted
from perago_core.driver import drive
from perago_core.results import Completed, Failed, FailedTerminally, Outcome, Result
from perago_spark import Launch, SparkTask, SparkWorkspace, WarmBodies
from perago_spark.format import layout
from perago_spark.process.pool import descendants
from perago_worker.api.errors import TaskDefinitionError
from perago_worker.api.registry import Registry
from perago_worker.api.task import Workspace, task
from perago_worker.bodies.pool import Bodies
from perago_worker.folders.cache import Cache
from perago_worker.folders.workspace import LocalWorkspace
from perago_worker.spark import Workspaces, spark_tasks
from tests.spark.fault_harness import wait_until
from tests.spark.lake import MAIN, Lake, done

pytest.importorskip("pyspark")


def output(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome.result, Completed), outcome
    found: dict[str, Any] = json.loads(outcome.result.output)
    return found


def why(outcome: Outcome) -> str:
    assert isinstance(outcome.result, Failed), outcome
    return str(outcome.result.refusal)


def test_all_writes_of_a_body_are_one_commit_on_its_input(workspace: SparkWorkspace, lake: Lake) -> None:
    """Acceptance 4: two writes, one staging commit, one publication, and nothing is left (P-23, S-12)."""
    before = lake.head
    found = output(lake.run(workspace, "two_writes"))
    assert (found["orders"], found["totals"]) == (100, 3)
    head = done(lake.store.head(MAIN)).commit
    assert head.parents == (before,)
    assert {each.split("/")[1] for each in lake.paths() if each.startswith("sales/")} == {"orders", "totals"}
    assert lake.stagings() == ()


def test_a_body_reads_its_input_and_nothing_later(workspace: SparkWorkspace, lake: Lake) -> None:
    lake.run(workspace, "two_writes")
    attempt = lake.attempt("only_reads")
    workspace.accept(attempt, "only_reads", "{}")
    lake.run(workspace, "append")
    done(workspace.prepare(attempt))
    event = done(workspace.run(attempt))
    assert json.loads(event.output) == {"rows": 100}
    assert output(lake.run(workspace, "only_reads")) == {"rows": 110}


def test_columns_and_filters_reach_the_reader(workspace: SparkWorkspace, lake: Lake) -> None:
    lake.run(workspace, "two_writes")
    assert output(lake.run(workspace, "read_and_roll_up")) == {"rows": 33}


def test_a_body_that_writes_nothing_stages_nothing(workspace: SparkWorkspace, lake: Lake) -> None:
    lake.run(workspace, "two_writes")
    before = lake.head
    attempt = lake.attempt("only_reads")
    workspace.accept(attempt, "only_reads", "{}")
    done(workspace.prepare(attempt))
    assert not isinstance(done(workspace.run(attempt)), StagingWanted)
    assert (lake.head, lake.stagings()) == (before, ())


def test_writing_what_is_there_already_publishes_nothing(workspace: SparkWorkspace, lake: Lake) -> None:
    """An equal overwrite of every data set is a no-op: the result is the input (S-12)."""
    lake.run(workspace, "two_writes")
    before = lake.head
    again = lake.run(workspace, "two_writes")
    assert output(again)["orders"] == 100
    assert (lake.head, lake.stagings()) == (before, ())


def test_threads_of_a_body_write_side_by_side(workspace: SparkWorkspace, lake: Lake) -> None:
    """Spark finds data sources by the calling thread's session; a new thread has none."""
    assert output(lake.run(workspace, "writes_in_threads")) == {"rows": [100, 100]}


@pytest.mark.parametrize("task", ["second_write_fails", "goes_on_after_a_failed_write"])
def test_a_write_that_fails_takes_the_whole_task_with_it(workspace: SparkWorkspace, lake: Lake, task: str) -> None:
    before = lake.head
    reason = why(lake.run(workspace, task))
    assert "no totals today" in reason or "the body went on although its write of orders had failed" in reason
    assert (lake.head, lake.stagings()) == (before, ())


def test_no_name_leads_to_another_place(workspace: SparkWorkspace, lake: Lake) -> None:
    """A name is relative to the prefix; nothing in it can be a branch, a commit, a scheme or a way up."""
    bad = ["../x", "/x", "a/../b", "s3a://b/x", "lakefs://r/main/x", "x@main", "", "_hidden", ".x", "a//b", "a\0b", "~"]
    found = output(lake.run(workspace, "names", json.dumps({"names": bad})))
    assert len(found["refused"]) == 2 * len(bad)
    assert all("branch and commit are the task's own" in each for each in found["refused"])
    assert lake.stagings() == ()


def test_a_read_only_task_cannot_write(workspace: SparkWorkspace, lake: Lake) -> None:
    before = lake.head
    assert "read-only" in why(lake.run(workspace, "two_writes", read_only=True))
    assert lake.head == before


def test_the_next_task_finds_a_warm_process_and_nothing_of_the_one_before(
    workspace: SparkWorkspace, lake: Lake, printed: list[str]
) -> None:
    first = output(lake.run(workspace, "leaves_things"))
    second = output(lake.run(workspace, "looks_around"))
    assert second.pop("pid") == first["pid"], printed
    assert second == {
        "views": [],
        "global": [],
        "cached": 0,
        "shuffle": "2",
        "ansi": "true",
        "pool": None,
        "environment": None,
        "files": [],
    }


LEFT = {
    "leaks_a_thread": "the body left 1 thread(s) running",
    "stops_spark": "the body stopped Spark",
    "sets_for_hadoop": "the body changed Hadoop's settings",
    "unsets_for_hadoop": "the body changed Hadoop's settings",
}


@pytest.mark.parametrize("task", LEFT)
def test_a_process_that_keeps_something_of_its_task_is_ended(
    workspace: SparkWorkspace, lake: Lake, bodies: WarmBodies, task: str, printed: list[str]
) -> None:
    """Counterexample, seen: the key that a task had set for Hadoop was there for the next one."""
    pid = output(lake.run(workspace, task))["pid"]
    assert any(f"another process takes the next task: {LEFT[task]}" in each for each in printed)
    assert pid not in bodies.running()
    assert not Path(f"/proc/{pid}").exists()


def test_a_body_that_takes_too_long_is_ended(lake: Lake, tmp_path: Path, launch: Launch) -> None:
    bodies = WarmBodies(evolve(launch, root=tmp_path / "own"))
    workspace = SparkWorkspace(lake.store, {"sleeps": SparkTask("sleeps", timeout=1.0)}, bodies)
    assert "ran longer than 1 s" in why(lake.run(workspace, "sleeps"))
    assert bodies.running() == ()
    assert list((tmp_path / "own").iterdir()) == []


def test_what_a_body_prints_reaches_the_listener(workspace: SparkWorkspace, lake: Lake, printed: list[str]) -> None:
    lake.run(workspace, "prints")
    until = time.monotonic() + 10
    while "a word from the body" not in printed and time.monotonic() < until:
        time.sleep(0.05)
    assert "a word from the body" in printed


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


class Slow:
    """A body in the middle of its write, driven by a thread of its own."""

    def __init__(self, workspace: SparkWorkspace, lake: Lake, marks: Path) -> None:
        marks.mkdir()
        self.lake = lake
        self.marks = marks
        self.workspace = workspace
        self.outcomes: list[Outcome] = []
        self.attempt = lake.attempt("writes_slowly")
        workspace.accept(self.attempt, "writes_slowly", json.dumps({"marks": str(marks)}))
        self.thread = threading.Thread(target=self._drive)
        self.thread.start()
        until = time.monotonic() + 120
        while not any(marks.iterdir()):
            assert time.monotonic() < until, "no task of the write ever ran"
            time.sleep(0.05)

    def _drive(self) -> None:
        self.outcomes.append(drive(self.attempt, self.lake.ports(self.workspace)))

    def ended(self) -> Outcome:
        self.thread.join(60)
        assert not self.thread.is_alive()
        (outcome,) = self.outcomes
        return outcome


def test_a_lost_attempt_has_stopped_writing_when_its_end_is_known_and_publishes_nothing(
    workspace: SparkWorkspace, lake: Lake, tmp_path: Path, bodies: WarmBodies
) -> None:
    """Losing the attempt interrupts its jobs, wherever Spark had put them: two seconds at most, and judged by order."""
    before = lake.head
    slow = Slow(workspace, lake, tmp_path / "marks")
    (body,) = bodies.running()
    writing = (body, *descendants(body))
    assert len(writing) >= 4
    lost = time.time_ns()
    workspace.cancel(slow.attempt, "the attempt was lost")
    assert "the attempt was lost" in why(slow.ended())
    known = set(slow.marks.iterdir())
    last = max(each.stat().st_mtime_ns for each in known)
    print(f"the last write came {max(0, last - lost) / 1e9:.2f} s after the loss")  # noqa: T201  the figure
    wait_until(lambda: not any(map(runs, writing)), "all that could write is gone", 20)
    # Whoever was started meanwhile and is none of these: forty of its writes would fall into this time.
    until = time.monotonic() + 2
    while time.monotonic() < until:
        assert set(slow.marks.iterdir()) == known
        time.sleep(0.1)
    assert (lake.head, lake.stagings()) == (before, ())
    assert bodies.running() == ()


def test_a_job_whose_process_is_killed_half_way_publishes_nothing(
    workspace: SparkWorkspace, lake: Lake, tmp_path: Path, bodies: WarmBodies
) -> None:
    """SIGKILL of the driver in the middle of a write; and its Java and Python workers do not outlive it."""
    before = lake.head
    slow = Slow(workspace, lake, tmp_path / "marks")
    (body,) = bodies.running()
    below = descendants(body)
    assert len(below) >= 3
    os.kill(body, signal.SIGKILL)
    assert isinstance(slow.ended().result, Failed)
    assert (lake.head, lake.stagings()) == (before, ())
    wait_until(lambda: not any(map(runs, below)), "all that was below it is gone", 20)


def test_a_surplus_file_on_staging_is_refused_before_it_is_committed(workspace: SparkWorkspace, lake: Lake) -> None:
    """protocol.md 2.11: a late task's file in the listing that no seal names, and one that is missing."""
    attempt = lake.attempt("two_writes")
    workspace.accept(attempt, "two_writes", "{}")
    done(workspace.prepare(attempt))
    assert isinstance(done(workspace.run(attempt)), StagingWanted)
    done(lake.store.open_staging(MAIN, attempt.staging_name, attempt.input))
    sink = lake.store.sink(MAIN, attempt.staging_name)
    done(workspace.resume(attempt, sink))
    assert isinstance(workspace.upload(attempt, sink), Done)
    listed = [each for each in done(sink.list("sales/orders/")) if layout.is_data(each.path)]
    late = "sales/orders/part-00000.other-1.99-0.parquet"
    with done(lake.source().get("README")) as data:
        done(sink.link((done(sink.put(late, data)),)))
    surplus = workspace.upload(attempt, sink)
    assert not isinstance(surplus, Done)
    assert "no seal of it" in surplus.reason
    done(sink.link((), (late, listed[0].path)))
    missing = workspace.upload(attempt, sink)
    assert not isinstance(missing, Done)
    assert "whose seal says 2" in missing.reason


def test_a_body_cancelled_before_it_starts_is_not_started(workspace: SparkWorkspace, lake: Lake) -> None:
    attempt = lake.attempt("two_writes")
    workspace.accept(attempt, "two_writes", "{}")
    workspace.cancel(attempt, "lost early")
    event = done(workspace.run(attempt))
    assert isinstance(event, BodyFailed)
    assert "lost early" in event.reason


# ---- ``@task`` on Spark data sets, beside one on files, through the worker's own parts.


MODULE = "tests.spark.sample_tasks"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.of_modules(MODULE)


@pytest.fixture(scope="module")
def files(registry: Registry) -> Iterator[Bodies]:
    made = Bodies(registry.modules())
    yield made
    made.close()


def run(lake: Lake, workspace: Workspaces, name: str, **params: object) -> Result | None:
    attempt = lake.attempt(name)
    workspace.accept(attempt, name, json.dumps(params))
    return drive(attempt, lake.ports(workspace)).result


def test_tasks_of_both_kinds_run_in_one_worker(
    lake: Lake, registry: Registry, files: Bodies, bodies: WarmBodies, tmp_path: Path
) -> None:
    """Parameters, pre- and post-checks and results are those of any task (S-36)."""
    local = LocalWorkspace(lake.store, registry, files, tmp_path / "work", Cache(tmp_path / "cache", 1 << 30))
    both = Workspaces(local, SparkWorkspace(lake.store, spark_tasks(registry), bodies), registry)
    made = run(lake, both, "spark.ingest", rows=50)
    assert isinstance(made, Completed), made
    assert json.loads(made.output) == {"rows": 50}
    noted = run(lake, both, "files.note")
    assert isinstance(noted, Completed), noted
    assert {each.split("/")[0] for each in lake.paths()} == {"README", "sales", "notes"}
    before = lake.head
    bad = run(lake, both, "spark.ingest", rows="many")
    assert isinstance(bad, FailedTerminally)
    assert "rows: Input should be a valid integer" in str(bad.refusal)
    hopeless = run(lake, both, "spark.ingest", rows=-1)
    assert isinstance(hopeless, FailedTerminally)
    empty = run(lake, both, "spark.ingest", rows=0)
    assert isinstance(empty, Failed)
    assert "post-check: some_rows returned False" in str(empty.refusal)
    assert (lake.head, lake.stagings()) == (before, ())


def test_a_workspace_of_no_kind_is_refused_where_it_is_declared() -> None:
    def wrong(ws: dict[str, int]) -> None:
        del ws

    with pytest.raises(TaskDefinitionError, match=r"Annotate it with pathlib\.Path, or SparkDatasets"):
        task(name="wrong", workspace=Workspace())(wrong)
