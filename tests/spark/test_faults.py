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
from tests.spark import scenarios
from tests.spark.fault_harness import FaultHarness, harness_of, reason, wait_until
from tests.spark.lake import Lake, done

pytest.importorskip("pyspark")


@pytest.fixture
def harness(lake: Lake, workspace: SparkWorkspace, bodies: WarmBodies, tmp_path: Path) -> Iterator[FaultHarness]:
    yield from harness_of(lake, workspace, bodies, tmp_path / "marks")


@pytest.mark.parametrize("via", ["arrow", "native"])
@pytest.mark.parametrize("fault", ["task exception", "worker exit"])
def test_a_task_that_is_run_again_counts_once(harness: FaultHarness, fault: str, via: str) -> None:
    """Acceptance 1: the first attempt has uploaded everything, and then fails or dies with its process."""
    scenarios.counts_once(harness, fault, via)


def test_the_control_tasks_that_link_themselves_have_duplicates_and_are_refused(harness: FaultHarness) -> None:
    """Acceptance 2."""
    scenarios.duplicates_are_refused(harness, "task exception")


@pytest.mark.parametrize("fault", ["half a link", "no seal"])
def test_a_commit_that_fails_half_way_publishes_nothing_and_the_next_attempt_all(
    harness: FaultHarness, fault: str
) -> None:
    scenarios.fails_half_way(harness, fault)


@pytest.mark.parametrize("fault", ["hold put", "hold link"])
def test_a_lost_attempt_links_nothing_any_more(harness: FaultHarness, fault: str) -> None:
    scenarios.lost(harness, fault)


@pytest.mark.parametrize("fault", ["hold link", "hold seal"])
def test_a_driver_killed_in_its_commit_publishes_nothing(harness: FaultHarness, fault: str) -> None:
    """Before the first link, and after the last one but before the seal."""
    scenarios.killed(harness, fault)


def test_a_java_frozen_in_its_commit_seals_at_most_and_publishes_when_it_wakes(harness: FaultHarness) -> None:
    with harness.start("hold link") as running:
        running.wait("held")
        scenarios.frozen_in_commit(harness, harness.java(), running)


def test_a_java_that_stays_frozen_is_ended_with_its_attempt(harness: FaultHarness) -> None:
    """A frozen process hears no interrupt; it is killed all the same, and what it had sealed is dropped."""
    with harness.start("hold seal") as running:
        running.wait("held")
        java = harness.java()
        os.kill(java, signal.SIGSTOP)
        harness.marks.allow()
        running.wait("sealed")
        running.cancel()
        assert "the attempt was lost" in reason(running.ended())
        wait_until(lambda: scenarios.is_gone(java), "the frozen Java is gone")
    harness.unchanged()


def test_a_java_killed_in_its_commit_publishes_nothing(harness: FaultHarness) -> None:
    with harness.start("hold link") as running:
        running.wait("held")
        os.kill(harness.java(), signal.SIGKILL)
        harness.marks.allow()
        assert isinstance(running.ended().result, Failed)
    harness.unchanged()


def test_a_late_link_and_a_late_seal_meet_a_name_that_is_gone(lake: Lake) -> None:
    """Acceptance 6: uploaded while the name was there, linked when it is not."""
    sink = lake.stage()
    stored = done(sink.put("sales/orders/part-00000.w-1.0-0.parquet", BytesIO(b"rows")))
    done(lake.store.drop(lake.target, lake.staging))
    assert isinstance(sink.link((stored,)), NotDone)
    assert isinstance(sink.seal("sales/orders/_seal", b"{}"), NotDone)
    assert lake.stagings() == ()
