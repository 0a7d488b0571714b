"""The store on a bucket joins the suites on a folder, as coordination does: real files, real processes that race."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from perago_bucket import Connection
from perago_conformance.harness import CoordinationHarness, Stack, StoreHarness
from tests.conformance.implementations.embedded import stack_on
from tests.conformance.implementations.files import workspace_on
from tests.conformance.opener import Opener
from tests.support.bucket.harness import BucketCoordinationHarness, BucketHarness


def _on(folder: Path) -> Connection:
    """Name a folder. Waiting for the disk changes no answer, and is most of the time there."""
    return Connection(f"file://{folder}/bucket", (("durable", "false"),))


@contextmanager
def _opened(folder: Path) -> Generator[StoreHarness]:
    yield BucketHarness(_on(folder))


@contextmanager
def _coordination(folder: Path) -> Generator[CoordinationHarness]:
    yield BucketCoordinationHarness(_on(folder))


@contextmanager
def _stack(folder: Path) -> Generator[Stack]:
    with _opened(folder) as store, stack_on(workspace_on(store, folder), folder) as stack:
        yield stack


STORES: Mapping[str, Opener[StoreHarness]] = {"disk": _opened}
STACKS: Mapping[str, Opener[Stack]] = {"disk": _stack}
COORDINATIONS: Mapping[str, Opener[CoordinationHarness]] = {"disk": _coordination}
