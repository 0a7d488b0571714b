"""Memory that ran out is told as such: of an executor, of the driver, of a result that is too large for it."""

from __future__ import annotations

import pytest

from perago_core.results import Failed
from perago_spark import SparkWorkspace
from perago_spark.diagnosis.failures import explained
from tests.spark.lake import Lake

pytest.importorskip("pyspark")


def test_a_task_that_takes_its_java_along_is_told_from_a_body_that_stopped_spark(
    workspace: SparkWorkspace, lake: Lake
) -> None:
    """Where driver and executor are one Java, it ends itself; Spark then only says that it was shut down.

    Unless word of the task's end comes first, which says more.
    """
    outcome = lake.run(workspace, "runs_out_of_memory")
    assert isinstance(outcome.result, Failed)
    told = str(outcome.result.refusal)
    assert "as it does when it runs out of memory" in told or "a task that ran out of it" in told, told


_LOST = "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: "
_TASK = "Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.3 executor 2): "
_TOO_LARGE = "Total size of serialized results of 1 tasks (4.8 MiB) is bigger than spark.driver.maxResultSize (1 MiB)"


@pytest.mark.parametrize(
    ("spark_says", "told"),
    [
        (
            f"{_TASK}{_LOST}The executor with id 2 exited with exit code 137(SIGKILL, possible container OOM).",
            "expected executors with enough memory; found one that was killed because it ran out of it",
        ),
        (f"{_LOST}Command exited with code 52", "expected executors with enough memory; found one that was killed"),
        (
            f"{_TASK}java.lang.OutOfMemoryError: Java heap space",
            "expected executors with enough memory; found a task that ran out of it: Java heap space",
        ),
        (
            "An error occurred while calling o59.collectToPython.\n: java.lang.OutOfMemoryError: Java heap space",
            "expected a driver with enough memory; found one that ran out of it",
        ),
        ("Answer from Java side is empty", "found one that shut down in the middle of it, as it does when it runs out"),
        (f"Job aborted due to stage failure: {_TOO_LARGE}", "expected a result that fits into the driver"),
    ],
)
def test_whose_memory_it_was_is_said(spark_says: str, told: str) -> None:
    """The lines are Spark's own, as it logs them on a cluster."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  only with Spark

    assert told in str(explained(PySparkException(spark_says)))
