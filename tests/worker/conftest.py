"""One template process for all tests of the worker, so that each test pays for a fork only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_worker.bodies.pool import Bodies
from tests.worker.support import TASKS, Bench


@pytest.fixture(scope="session")
def bodies() -> Iterator[Bodies]:
    made = Bodies([TASKS])
    yield made
    made.close()


@pytest.fixture
def bench(bodies: Bodies, tmp_path: Path) -> Bench:
    return Bench(tmp_path, bodies)
