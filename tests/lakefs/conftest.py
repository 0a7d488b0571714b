"""The server is shared by the run; every test has a repository of its own on it."""

from __future__ import annotations

import pytest

from tests.lakefs.scene import Scene
from tests.support.servers.fixtures import lakefs_server
from tests.support.servers.lakefs import LakeFS

__all__ = ["lakefs_server"]


@pytest.fixture
def scene(lakefs_server: LakeFS) -> Scene:
    """Give a repository with the hook."""
    return Scene.on(lakefs_server)


@pytest.fixture
def bare(lakefs_server: LakeFS) -> Scene:
    """Give a repository without the hook, as the peer finds it."""
    return Scene.on(lakefs_server, hooked=False)
