"""How far Spark is, told while it works."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perago_spark.diagnosis.progress import Stage, following, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


def test_all_stages_that_are_known_are_one_line() -> None:
    assert summary([Stage(4, 6, 0, 1), Stage(3, 2, 2, 0)]) == (0.25, "Spark stage 3, 4: 2 of 8 tasks done, 1 running")


@pytest.mark.parametrize("stages", [(), (Stage(1, 0, 0, 0),)])
def test_where_nothing_runs_nothing_is_said(stages: tuple[Stage, ...]) -> None:
    assert summary(stages) == (0.0, "")


def test_a_job_is_followed_while_it_runs_and_nobody_after(spark: SparkSession, tmp_path: Path) -> None:
    """The job goes on only when it was told of: so that it was is not a matter of how fast this machine is."""
    told: list[tuple[float, str]] = []
    heard = tmp_path / "heard"
    place = str(heard)

    def waits(batches: Any) -> Any:  # noqa: ANN401  Arrow batches
        for batch in batches:
            until = time.monotonic() + 120
            while not Path(place).exists() and time.monotonic() < until:
                time.sleep(0.05)
            yield batch

    def tell(share: float, line: str) -> None:
        told.append((share, line))
        heard.touch()

    frame: Any = spark.range(0, 4, 1, 4)
    with following(spark, tell):
        assert len(frame.mapInArrow(waits, frame.schema).collect()) == 4
    assert told[0][0] == 0.0
    assert "0 of 4 tasks done" in told[0][1]
    assert all(one != another for one, another in pairwise(told))
    assert "perago-progress" not in {each.name for each in threading.enumerate()}
