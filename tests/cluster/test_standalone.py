"""The fault matrix on a standalone cluster of two workers: tasks, workers, executors and drivers die."""

from __future__ import annotations

import pytest

from tests.spark import scenarios
from tests.spark.fault_harness import FaultHarness


@pytest.mark.parametrize(
    ("fault", "via"),
    [
        ("task exception", "arrow"),
        ("worker exit", "arrow"),
        ("executor SIGKILL", "arrow"),
        ("task exception", "native"),
        ("executor SIGKILL", "native"),
    ],
)
def test_a_task_that_is_run_again_counts_once(harness: FaultHarness, fault: str, via: str) -> None:
    """Acceptance 1: after its upload the task fails, or its worker or its whole executor dies."""
    scenarios.counts_once(harness, fault, via)


@pytest.mark.parametrize("fault", ["half a link", "no seal"])
def test_a_commit_that_fails_half_way_publishes_nothing_and_the_next_attempt_all(
    harness: FaultHarness, fault: str
) -> None:
    scenarios.fails_half_way(harness, fault)


@pytest.mark.parametrize("fault", ["hold put", "hold link"])
def test_a_lost_attempt_links_nothing_any_more(harness: FaultHarness, fault: str) -> None:
    """Also the executors end, which are no children of the body: their driver is gone."""
    scenarios.lost(harness, fault)


@pytest.mark.parametrize("fault", ["hold put", "hold link", "hold seal"])
def test_a_killed_driver_publishes_nothing(harness: FaultHarness, fault: str) -> None:
    scenarios.killed(harness, fault)


def test_a_java_frozen_in_its_commit_seals_at_most_and_publishes_when_it_wakes(harness: FaultHarness) -> None:
    with harness.start("hold link") as running:
        running.wait("held")
        scenarios.frozen_in_commit(harness, harness.java(), running)
