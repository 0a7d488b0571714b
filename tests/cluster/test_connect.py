"""The fault matrix over Spark Connect: a client can die while its job lives on, and still only the core publishes.

A job whose client is gone runs to its end on the server, commit included. It finds its staging name deleted.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from perago_core.driver import drive
from perago_spark import SparkSettings
from tests.cluster.servers import Connect
from tests.spark import scenarios
from tests.spark.fault_harness import FaultHarness, completed, wait_until


@pytest.fixture(scope="module")
def settings(server: Connect) -> SparkSettings:
    return SparkSettings(remote=server.url)


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_what_a_client_writes_is_published_once(harness: FaultHarness, via: str) -> None:
    completed(harness.run("none", via))
    harness.published()


@pytest.mark.parametrize(
    ("fault", "via"), [("task exception", "arrow"), ("worker exit", "arrow"), ("task exception", "native")]
)
def test_a_task_that_is_run_again_counts_once(harness: FaultHarness, fault: str, via: str) -> None:
    scenarios.counts_once(harness, fault, via)


def test_the_control_tasks_that_link_themselves_have_duplicates_and_are_refused(harness: FaultHarness) -> None:
    scenarios.duplicates_are_refused(harness, "task exception")


@pytest.mark.parametrize("fault", ["half a link", "no seal"])
def test_a_commit_that_fails_half_way_publishes_nothing_and_the_next_attempt_all(
    harness: FaultHarness, fault: str
) -> None:
    scenarios.fails_half_way(harness, fault)


@pytest.mark.parametrize("fault", ["hold put", "hold link", "hold seal"])
def test_a_lost_attempt_links_nothing_any_more_though_the_server_lives_on(harness: FaultHarness, fault: str) -> None:
    scenarios.lost(harness, fault)


@pytest.mark.parametrize("fault", ["hold put", "hold link", "hold seal"])
def test_a_killed_client_publishes_nothing_though_its_job_goes_on(harness: FaultHarness, fault: str) -> None:
    """spark.md 0.2: with publication in ``commit`` this published 8 s after the client had died."""
    scenarios.killed(harness, fault)


def test_the_job_of_a_killed_client_ends_on_the_server_too(harness: FaultHarness, tmp_path: Path) -> None:
    """It used to run to its end there, in slots that others wait for."""
    sign = tmp_path / "beat"
    attempt = harness.lake.attempt("beats")
    harness.workspace.accept(attempt, "beats", json.dumps({"file": str(sign)}))
    running = threading.Thread(target=lambda: drive(attempt, harness.lake.ports(harness.workspace)))
    running.start()
    wait_until(sign.exists, "the job runs on the server")
    (body,) = harness.bodies.running()
    os.kill(body, signal.SIGKILL)
    wait_until(lambda: time.time() - sign.stat().st_mtime > 10, "nothing of it runs any more")
    running.join(60)
    assert not running.is_alive()


def test_a_server_frozen_in_a_commit_seals_at_most_and_the_client_publishes_when_it_wakes(
    harness: FaultHarness, server: Connect
) -> None:
    with harness.start("hold link") as running:
        running.wait("held")
        scenarios.frozen_in_commit(harness, server.pid, running)
