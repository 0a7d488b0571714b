"""The servers as fixtures: import ``lakefs_server`` from here in a conftest, and it is one there."""

from __future__ import annotations

import pytest

from tests.support.servers.conductor import Conductor
from tests.support.servers.lakefs import LakeFS
from tests.support.servers.sharing import shared_conductor, shared_lakefs


@pytest.fixture(scope="session")
def lakefs_server() -> LakeFS:
    """Return the run's lakeFS; each test makes a repository of its own on it."""
    return shared_lakefs()


@pytest.fixture(scope="session")
def conductor_server() -> Conductor:
    """Return the run's Conductor; each test uses task and workflow names of its own on it."""
    return shared_conductor()
