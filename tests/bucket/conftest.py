"""Each test has a prefix of its own on the run's S3, or objects in memory that nobody else sees."""

from __future__ import annotations

from secrets import token_hex

import pytest

from perago_bucket import Connection
from tests.support.bucket.harness import BucketHarness
from tests.support.servers.buckets import VersityGW
from tests.support.servers.sharing import shared_versitygw


@pytest.fixture
def memory() -> BucketHarness:
    """Give a bucket in memory."""
    return BucketHarness(Connection(f"memory://{token_hex(8)}"))


@pytest.fixture(scope="session")
def server() -> VersityGW:
    """Give the run's S3."""
    return shared_versitygw()
