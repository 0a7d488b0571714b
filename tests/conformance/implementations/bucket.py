"""The store on a bucket joins the suites, on objects in memory: conditions as obstore itself keeps them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from perago_bucket import Connection
from perago_conformance.harness import CoordinationHarness, StoreHarness
from tests.conformance.opener import Opener
from tests.support.bucket.harness import BucketCoordinationHarness, BucketHarness


@contextmanager
def _opened(_folder: Path) -> Generator[StoreHarness]:
    yield BucketHarness(Connection(f"memory://{token_hex(8)}"))


@contextmanager
def _coordination(_folder: Path) -> Generator[CoordinationHarness]:
    yield BucketCoordinationHarness(Connection(f"memory://{token_hex(8)}"))


STORES: Mapping[str, Opener[StoreHarness]] = {"bucket": _opened}
COORDINATIONS: Mapping[str, Opener[CoordinationHarness]] = {"bucket": _coordination}
