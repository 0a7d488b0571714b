"""The store on a bucket joins the suites on real servers: two that speak S3, and Azure's; each test has its prefix."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from secrets import token_hex

from perago_conformance.harness import CoordinationHarness, Stack, StoreHarness
from tests.conformance.implementations.embedded import stack_on
from tests.conformance.implementations.files import workspace_on
from tests.conformance.opener import Opener
from tests.support.bucket.harness import BucketCoordinationHarness, BucketHarness, connection_to
from tests.support.servers.azurite import Azurite
from tests.support.servers.buckets import BucketServer
from tests.support.servers.sharing import shared_azurite, shared_minio, shared_versitygw

#: Left out by `make test`, demanded by `make test-servers`.
NEEDS_SERVERS = True


def _on(server: Callable[[], BucketServer | Azurite]) -> Opener[StoreHarness]:
    @contextmanager
    def opened(_folder: Path) -> Generator[StoreHarness]:
        yield BucketHarness(connection_to(server(), token_hex(8)))

    def opener(folder: Path) -> AbstractContextManager[StoreHarness]:
        return opened(folder)

    return opener


@contextmanager
def _stack(folder: Path) -> Generator[Stack]:
    with _on(shared_versitygw)(folder) as store, stack_on(workspace_on(store, folder), folder) as stack:
        yield stack


@contextmanager
def _coordination(_folder: Path) -> Generator[CoordinationHarness]:
    yield BucketCoordinationHarness(connection_to(shared_versitygw(), token_hex(8)))


STORES: Mapping[str, Opener[StoreHarness]] = {
    "versitygw": _on(shared_versitygw),
    "minio": _on(shared_minio),
    "azurite": _on(shared_azurite),
}
STACKS: Mapping[str, Opener[Stack]] = {"versitygw": _stack}
COORDINATIONS: Mapping[str, Opener[CoordinationHarness]] = {"versitygw": _coordination}
