"""The servers as fixtures: ``from tests.servers.fixtures import lakefs_server`` in a conftest makes it one there."""

from __future__ import annotations

import pytest

from tests.servers.conductor import Conductor
from tests.servers.lakefs import LakeFS
from tests.servers.sharing import shared_conductor, shared_lakefs


@pytest.fixture(scope="session")
def lakefs_server() -> LakeFS:
    """Give the run's lakeFS; each test makes a repository of its own on it."""
    return shared_lakefs()


@pytest.fixture(scope="session")
def conductor_server() -> Conductor:
    """Give the run's Conductor; each test uses task and workflow names of its own on it."""
    return shared_conductor()
