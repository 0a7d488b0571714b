"""Speculation on a cluster: two attempts of one task upload before either may say so; Spark names one winner."""

from __future__ import annotations

import pytest

from tests.spark import scenarios
from tests.spark.fault_harness import FaultHarness, completed


@pytest.fixture(scope="module")
def conf() -> dict[str, str]:
    return {
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "200ms",
    }


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_both_upload_and_one_counts(harness: FaultHarness, via: str) -> None:
    """Acceptance 1 and 2: 1000 rows, 1000 distinct."""
    completed(harness.run("race", via))
    assert harness.marks.count("racing") >= 2
    harness.published()


def test_the_control_tasks_that_link_themselves_have_duplicates_and_are_refused(harness: FaultHarness) -> None:
    """Acceptance 2: the same race shows 1250 rows of 1000, so the test above is not blind."""
    scenarios.duplicates_are_refused(harness, "race")
