"""One server of each kind for a whole test run: started when the first test needs it, stopped with the last."""

from __future__ import annotations

import atexit
import os
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.servers.azurite import AZURITE, Azurite
from tests.support.servers.buckets import MINIO, VERSITYGW, MinIO, VersityGW
from tests.support.servers.cache import Part, log_file
from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.fake_gcs import FAKE_GCS, FakeGCS
from tests.support.servers.lakefs import LAKEFS, LakeFS
from tests.support.servers.server import Server

S = TypeVar("S", bound=Server)


@cache
def shared_lakefs() -> LakeFS:
    """Give the run's lakeFS. Whoever kills it starts a server of its own: others are on this one."""
    demand(LAKEFS)
    return _running(LakeFS)


@cache
def shared_conductor() -> Conductor:
    """Give the run's Conductor. Whoever kills it starts a server of its own: others are on this one."""
    demand(CONDUCTOR)
    return _running(Conductor)


@cache
def shared_versitygw() -> VersityGW:
    """Give the run's S3. Whoever kills it starts a server of its own: others are on this one."""
    demand(VERSITYGW)
    return _running(VersityGW)


@cache
def shared_minio() -> MinIO:
    """Give the run's second S3. Whoever kills it starts a server of its own: others are on this one."""
    demand(MINIO)
    return _running(MinIO)


@cache
def shared_fake_gcs() -> FakeGCS:
    """Give the run's emulator of Google's storage, which takes minutes to build: who has not asked for it does without.

    ``make test-full`` has asked for it.
    """
    if not FAKE_GCS.is_there() and os.environ.get("PERAGO_MATRIX") != "full":
        pytest.skip("for make test-full, or: python -m tests.support.servers obtain fake-gcs")
    demand(FAKE_GCS)
    return _running(FakeGCS)


@cache
def shared_azurite() -> Azurite:
    """Give the run's Azure. Whoever kills it starts a server of its own: others are on this one."""
    demand(AZURITE)
    return _running(Azurite)


def demand(part: Part) -> None:
    """Skip the test if the server was never obtained; fail it where servers are required."""
    if part.is_there():
        return
    wanted = f"{part.name} {part.version} at {part.path}"
    message = f"expected {wanted}; found none. Run: python -m tests.support.servers obtain"
    if os.environ.get("PERAGO_SERVERS_REQUIRED") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def _running(kind: type[S]) -> S:
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"perago-{kind.name}-"))
    server = kind(folder=Path(folder), log=log_file(kind.name))
    stack.enter_context(server)
    return server
