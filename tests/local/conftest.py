"""What the tests of the embedded orchestrator share: a clock moved by hand, and an orchestrator on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_local.orchestrator import SqliteOrchestrator
from tests.local.orchestrating import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def orchestrator(tmp_path: Path, clock: HandClock) -> Iterator[SqliteOrchestrator]:
    opened = SqliteOrchestrator(tmp_path / "o.db", clock=clock)
    yield opened
    opened.close()
