"""An executor frozen past the network's patience is given up, and what it does when it wakes is for nothing."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from tests.spark import scenarios
from tests.spark.yard import Yard


@pytest.fixture(scope="module")
def conf() -> dict[str, str]:
    return {
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "4s",
    }


def test_the_other_executor_does_its_work(yard: Yard) -> None:
    """SIGSTOP after the upload; woken when all is over, it changes nothing."""
    try:
        scenarios.counts_once(yard, "executor SIGSTOP")
    finally:
        if yard.marks.count("frozen"):
            with suppress(ProcessLookupError):
                os.kill(int(yard.marks.detail("frozen")), signal.SIGCONT)
    yard.published()
