"""An executor frozen past the network's patience is given up, and what it does when it wakes is for nothing."""

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
from tests.spark.yard import Yard, yard_of

CONF = {
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "4s",
}


@pytest.fixture(scope="module")
def bodies(cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmBodies]:
    yield from started_bodies(cluster_settings(cluster, **CONF), tmp_path_factory.mktemp("bodies"))


@pytest.fixture
def yard(lake: Lake, bodies: WarmBodies, tmp_path: Path) -> Iterator[Yard]:
    yield from yard_of(lake, workspace_of(lake, bodies), bodies, tmp_path / "marks")


def test_the_other_executor_does_its_work(yard: Yard) -> None:
    """SIGSTOP after the upload; woken when all is over, it changes nothing."""
    try:
        scenarios.counts_once(yard, "executor SIGSTOP")
    finally:
        if yard.marks.count("frozen"):
            with suppress(ProcessLookupError):
                os.kill(int(yard.marks.detail("frozen")), signal.SIGCONT)
    yard.published()
