"""What tests of the worker share: a template process, so that each pays for a fork only, and coordination stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perago_core.answers import Done
from perago_core.ports import Coordination
from perago_local.coordination import SqliteCoordination
from perago_worker.bodies.pool import Bodies
from tests.support.etcd.server import running
from tests.worker.support import TASKS, Bench


@pytest.fixture(scope="session")
def bodies() -> Iterator[Bodies]:
    made = Bodies([TASKS])
    yield made
    made.close()


@pytest.fixture
def bench(bodies: Bodies, tmp_path: Path) -> Bench:
    return Bench(tmp_path, bodies)


@pytest.fixture(scope="module", params=["sqlite", "etcd"])
def shared_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordination]:
    folder = tmp_path_factory.mktemp("coordination")
    if request.param == "sqlite":
        with closing(SqliteCoordination(folder / "coordination.db")) as opened:
            yield opened
        return
    with running(folder) as server, closing(server.recipe()()) as opened:
        yield opened


@pytest.fixture
def coordination(shared_store: Coordination) -> Coordination:
    """Begin each test with an empty store."""
    listed = shared_store.list("")
    assert isinstance(listed, Done)
    for entry in listed.value:
        shared_store.swap(entry.key, entry.value, None)
    return shared_store
