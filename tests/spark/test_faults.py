"""The fault matrix on classic local Spark: whatever breaks, the target is the input or exactly input -> staged.

``tests/cluster`` meets the same faults on a standalone cluster and over Spark Connect, and those that need one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from perago_core.answers import NotDone
from perago_core.results import Failed
from perago_spark import SparkWorkspace, WarmBodies
from perago_spark.processes import descendants
from perago_spark.seal import discrepancy
from tests.spark.lake import MAIN, Lake, done
from tests.spark.yard import FOLDER, ROWS, Yard, completed, reason, rows_of, wait_until, yard_of

pytest.importorskip("pyspark")


@pytest.fixture
def yard(lake: Lake, workspace: SparkWorkspace, bodies: WarmBodies, tmp_path: Path) -> Iterator[Yard]:
    yield from yard_of(lake, workspace, bodies, tmp_path / "marks")


@pytest.mark.parametrize("via", ["arrow", "native"])
@pytest.mark.parametrize("fault", ["task exception", "worker exit"])
def test_a_task_that_is_run_again_counts_once(yard: Yard, fault: str, via: str) -> None:
    """Acceptance 1: the first attempt has uploaded everything, and then fails or dies with its process."""
    completed(yard.run(fault, via))
    assert yard.marks.count("struck") == 1
    yard.published()


def test_the_control_tasks_that_link_themselves_have_duplicates_and_are_refused(yard: Yard) -> None:
    """Acceptance 2: the same fault, and a sink that links in the task. Were this not found out, 1250 rows of 1000."""
    with yard.start("task exception", links_itself=True, keeps=True) as running:
        assert "whose seal says 4" in reason(running.ended())
    assert yard.lake.head == yard.before
    sink = yard.lake.store.sink(MAIN, running.attempt.staging_name)
    assert discrepancy(done(sink.list(FOLDER))) is not None
    staged = done(yard.lake.store.commit(MAIN, running.attempt.staging_name, "what would have been published"))
    rows = rows_of(yard.lake, staged.commit)
    assert (len(rows), len(set(rows))) == (ROWS + ROWS // 4, ROWS)


@pytest.mark.parametrize("fault", ["half a link", "no seal"])
def test_a_commit_that_fails_half_way_publishes_nothing_and_the_next_attempt_all(yard: Yard, fault: str) -> None:
    """Acceptance 1: files are linked and their seal is not there, or not even all files."""
    assert "the connection broke" in reason(yard.run(fault))
    yard.unchanged()
    completed(yard.run("none"))
    yard.published()


@pytest.mark.parametrize("fault", ["hold put", "hold link"])
def test_a_lost_attempt_links_nothing_any_more(yard: Yard, fault: str) -> None:
    """Cancelled while tasks write, and in the middle of the commit, which no interrupt of Spark reaches."""
    with yard.start(fault) as running:
        running.wait("held")
        (body,) = yard.bodies.running()
        below = descendants(body)
        running.cancel()
        assert "the attempt was lost" in reason(running.ended())
        yard.marks.tell("over")
        yard.unchanged()
        yard.marks.allow()
        wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in below), "all processes are gone")
    assert not {"linked", "sealed", "put"} & {each.split()[0] for each in after("over", yard)}
    yard.unchanged()


@pytest.mark.parametrize("fault", ["hold link", "hold seal"])
def test_a_driver_killed_in_its_commit_publishes_nothing(yard: Yard, fault: str) -> None:
    """SIGKILL before the first link, and after the last one but before the seal."""
    with yard.start(fault) as running:
        running.wait("held")
        (body,) = yard.bodies.running()
        os.kill(body, signal.SIGKILL)
        assert isinstance(running.ended().result, Failed)
        yard.unchanged()
    yard.unchanged()


def test_a_java_killed_in_its_commit_publishes_nothing(yard: Yard) -> None:
    with yard.start("hold link") as running:
        running.wait("held")
        os.kill(yard.java(), signal.SIGKILL)
        yard.marks.allow()
        assert isinstance(running.ended().result, Failed)
    yard.unchanged()


def test_a_java_frozen_in_its_commit_seals_at_most_and_publishes_when_it_wakes(yard: Yard) -> None:
    """Freezing Java does not freeze ``commit``, which runs in Python. It seals, and only the core publishes."""
    with yard.start("hold link") as running:
        running.wait("held")
        java = yard.java()
        os.kill(java, signal.SIGSTOP)
        try:
            yard.marks.allow()
            running.wait("sealed")
            assert yard.lake.head == yard.before
        finally:
            os.kill(java, signal.SIGCONT)
        completed(running.ended())
    yard.published()


def test_a_java_that_stays_frozen_is_ended_with_its_attempt(yard: Yard) -> None:
    """A frozen process hears no interrupt; it is killed all the same, and what it had sealed is dropped."""
    with yard.start("hold seal") as running:
        running.wait("held")
        java = yard.java()
        os.kill(java, signal.SIGSTOP)
        yard.marks.allow()
        running.wait("sealed")
        running.cancel()
        assert "the attempt was lost" in reason(running.ended())
        wait_until(lambda: not Path(f"/proc/{java}").exists(), "the frozen Java is gone")
    yard.unchanged()


def test_a_late_link_and_a_late_seal_meet_a_name_that_is_gone(lake: Lake) -> None:
    """Acceptance 6: uploaded while the name was there, linked when it is not; and never under another name."""
    sink = lake.stage()
    stored = done(sink.put("sales/orders/part-00000.w-1.0-0.parquet", BytesIO(b"rows")))
    name = f"stage-{lake.names}"
    done(lake.store.drop(MAIN, name))
    assert isinstance(sink.link((stored,)), NotDone)
    assert isinstance(sink.seal("sales/orders/_seal", b"{}"), NotDone)
    assert lake.stagings() == ()


def after(word: str, yard: Yard) -> list[str]:
    told = yard.marks.told()
    return told[told.index(word) + 1 :]
