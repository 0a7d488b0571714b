"""The fault matrix on a standalone cluster of two workers: executors die, freeze and race each other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perago_spark import WarmBodies
from tests.cluster.conftest import cluster_settings, started_bodies, workspace_of
from tests.cluster.servers import Standalone
from tests.spark import scenarios
from tests.spark.lake import Lake
from tests.spark.yard import Yard, completed, yard_of


@pytest.fixture(scope="module")
def bodies(cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmBodies]:
    yield from started_bodies(cluster_settings(cluster), tmp_path_factory.mktemp("bodies"))


@pytest.fixture
def yard(lake: Lake, bodies: WarmBodies, tmp_path: Path) -> Iterator[Yard]:
    yield from yard_of(lake, workspace_of(lake, bodies), bodies, tmp_path / "marks")


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
def test_a_task_that_is_run_again_counts_once(yard: Yard, fault: str, via: str) -> None:
    """Acceptance 1: after its upload the task fails, or its worker or its whole executor dies."""
    scenarios.counts_once(yard, fault, via)


@pytest.mark.parametrize("fault", ["half a link", "no seal"])
def test_a_commit_that_fails_half_way_publishes_nothing_and_the_next_attempt_all(yard: Yard, fault: str) -> None:
    scenarios.fails_half_way(yard, fault)


@pytest.mark.parametrize("fault", ["hold put", "hold link"])
def test_a_lost_attempt_links_nothing_any_more(yard: Yard, fault: str) -> None:
    """Also the executors end, which are no children of the body: their driver is gone."""
    scenarios.lost(yard, fault)


@pytest.mark.parametrize("fault", ["hold put", "hold link", "hold seal"])
def test_a_killed_driver_publishes_nothing(yard: Yard, fault: str) -> None:
    scenarios.killed(yard, fault)


def test_a_java_frozen_in_its_commit_seals_at_most_and_publishes_when_it_wakes(yard: Yard) -> None:
    with yard.start("hold link") as running:
        running.wait("held")
        scenarios.frozen_in_commit(yard, yard.java(), running)


class TestSpeculation:
    """Two attempts of one task upload before either may say so; Spark names one winner."""

    @pytest.fixture(scope="class")
    def racing(self, cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmBodies]:
        conf = {
            "spark.speculation": "true",
            "spark.speculation.interval": "200ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "200ms",
        }
        yield from started_bodies(cluster_settings(cluster, **conf), tmp_path_factory.mktemp("racing"))

    @pytest.fixture
    def yard(self, lake: Lake, racing: WarmBodies, tmp_path: Path) -> Iterator[Yard]:
        yield from yard_of(lake, workspace_of(lake, racing), racing, tmp_path / "marks")

    @pytest.mark.parametrize("via", ["arrow", "native"])
    def test_both_upload_and_one_counts(self, yard: Yard, via: str) -> None:
        """Acceptance 1 and 2: 1000 rows, 1000 distinct."""
        completed(yard.run("race", via))
        assert yard.marks.count("racing") == 2
        yard.published()

    def test_the_control_tasks_that_link_themselves_have_duplicates_and_are_refused(self, yard: Yard) -> None:
        """Acceptance 2: the same race shows 1250 rows of 1000, so the test above is not blind."""
        scenarios.duplicates_are_refused(yard, "race")


class TestFrozenExecutor:
    """An executor that is frozen past the network's patience is given up; what it does when it wakes is for nothing."""

    @pytest.fixture(scope="class")
    def impatient(self, cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmBodies]:
        conf = {"spark.network.timeout": "20s", "spark.executor.heartbeatInterval": "4s"}
        yield from started_bodies(cluster_settings(cluster, **conf), tmp_path_factory.mktemp("impatient"))

    @pytest.fixture
    def yard(self, lake: Lake, impatient: WarmBodies, tmp_path: Path) -> Iterator[Yard]:
        yield from yard_of(lake, workspace_of(lake, impatient), impatient, tmp_path / "marks")

    def test_the_other_executor_does_its_work(self, yard: Yard) -> None:
        try:
            scenarios.counts_once(yard, "executor SIGSTOP")
        finally:
            with suppress(ProcessLookupError):
                os.kill(int(yard.marks.detail("frozen")), signal.SIGCONT)
        yard.published()
