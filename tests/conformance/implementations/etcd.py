"""etcd joins the coordination suite: one real server for all tests, a prefix of its own for each."""

from __future__ import annotations

import atexit
import tempfile
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path

from attrs import frozen

from perago_conformance.harness import CoordinationHarness
from perago_core.ports import Coordination
from perago_etcd import EtcdCoordination
from tests.conformance.opener import Opener
from tests.local.coordinating import RealClock
from tests.support.etcd.server import Etcd, running

#: The shortest time to live that etcd grants with its default settings.
TTL = 2.0


@cache
def _server() -> Etcd:
    """Start the server when the first test needs it, and stop it with the last: starting costs a second each time."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return stack.enter_context(running(Path(folder)))


@frozen
class EtcdHarness:
    port: EtcdCoordination
    recipe: Callable[[], Coordination]
    clock: RealClock
    ttl: float = TTL


@contextmanager
def open_coordination(_folder: Path) -> Generator[CoordinationHarness]:
    recipe = _server().recipe(prefix=f"perago/{uuid.uuid4().hex}/")
    with closing(recipe()) as port:
        yield EtcdHarness(port, recipe, RealClock())


COORDINATIONS: Mapping[str, Opener[CoordinationHarness]] = {"etcd": open_coordination}
LEASES = COORDINATIONS
