"""Each test has a prefix of its own on the run's S3, a folder, or objects in memory that nobody else sees."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex

import pytest

from perago_bucket import Connection
from tests.support.bucket.harness import BucketHarness
from tests.support.servers.buckets import BucketServer, VersityGW
from tests.support.servers.sharing import shared_minio, shared_versitygw


@pytest.fixture
def memory() -> BucketHarness:
    """Give a bucket in memory."""
    return BucketHarness(Connection(f"memory://{token_hex(8)}"))


@pytest.fixture(params=["memory", "disk"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> BucketHarness:
    """Give a bucket without a server: in memory, and in a folder."""
    if request.param == "memory":
        return BucketHarness(Connection(f"memory://{token_hex(8)}"))
    return BucketHarness(Connection(f"file://{tmp_path}/bucket", (("durable", "false"),)))


@pytest.fixture(scope="session")
def server() -> VersityGW:
    """Give the run's S3."""
    return shared_versitygw()


@pytest.fixture(params=[shared_versitygw, shared_minio], ids=["versitygw", "minio"])
def each_server(request: pytest.FixtureRequest) -> BucketServer:
    """Give two S3 that share no code, one after the other."""
    found: BucketServer = request.param()
    return found
