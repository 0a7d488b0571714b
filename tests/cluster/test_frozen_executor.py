"""An executor frozen past the network's patience is given up, and what it does when it wakes is for nothing."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from tests.spark import scenarios
from tests.spark.fault_harness import FaultHarness


@pytest.fixture(scope="module")
def conf() -> dict[str, str]:
    return {
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "4s",
    }


def test_the_other_executor_does_its_work(harness: FaultHarness) -> None:
    """SIGSTOP after the upload; woken when all is over, it changes nothing."""
    try:
        scenarios.counts_once(harness, "executor SIGSTOP")
    finally:
        if harness.marks.count("frozen"):
            with suppress(ProcessLookupError):
                os.kill(int(harness.marks.detail("frozen")), signal.SIGCONT)
    harness.published()
