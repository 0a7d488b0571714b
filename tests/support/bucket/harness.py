"""A store on a bucket as the conformance suite wants it. A stranger is another client, which shares no memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from secrets import token_hex
from typing import TypeVar

from attrs import evolve, frozen

from perago_bucket import BucketCoordination, BucketStore, Connection
from perago_bucket.client import MEMORY, bucket
from perago_bucket.layout import place_of
from perago_bucket.record import read
from perago_clock import MachineClock
from perago_conformance.harness import Recipe, StoreTraits
from perago_core import fence
from perago_core.answers import Answer, Done
from perago_core.plan import PlanKind
from perago_core.policy.messages import Capability
from perago_core.ports import Clock, Coordination, Store
from perago_core.values import Attempt, Backing, CommitRef, Target
from tests.support.servers.azurite import Azurite
from tests.support.servers.buckets import BUCKET, BucketServer

T = TypeVar("T")

TRAITS = StoreTraits(
    backings=frozenset(Backing),
    checks_head=frozenset(PlanKind),
    revocable=True,
    raises_claims=True,
    probe=Capability.ATOMIC,
    uncommitted=False,
    equal_trees=False,
    holds_runs=True,
)


def connection_to(server: BucketServer | Azurite, prefix: str) -> Connection:
    """Say how a bucket on loopback is reached; whatever is below another prefix is not seen."""
    options = tuple((name.lower(), value) for name, value in server.settings.items() if name != "AWS_ALLOW_HTTP")
    scheme = "az" if isinstance(server, Azurite) else "s3"
    return Connection(f"{scheme}://{BUCKET}/{prefix}", options)


@frozen
class BucketHarness:
    connection: Connection
    traits: StoreTraits = TRAITS

    @property
    def port(self) -> BucketStore:
        return BucketStore(self.connection)

    @property
    def recipe(self) -> Recipe[Store] | None:
        return None if self.connection.url.startswith(MEMORY) else partial(BucketStore, self.connection)

    def create(self, target: Target, files: Mapping[str, bytes]) -> CommitRef:
        return _done(self.port.create(target, files))

    def stranger_commits(self, target: Target, files: Mapping[str, bytes | None]) -> CommitRef:
        return commit_as_stranger(self._stranger, target, files)

    def stranger_leaves_uncommitted(self, target: Target) -> None:
        raise AssertionError(f"a branch in a bucket carries nothing uncommitted: {target}")

    def branches(self, repository: str) -> frozenset[str]:
        place = place_of(bucket(self._stranger), repository)
        records = {branch: read(place, branch) for branch in place.branches()}
        return frozenset(records) | {name for each in records.values() if each is not None for name in each.names}

    def read_file(self, repository: str, ref: str, path: str) -> bytes | None:
        store = BucketStore(self._stranger)
        head = None if len(ref) == 80 else _done(store.head(Target(repository, ref)))
        found = store.read(repository, CommitRef(ref) if head is None else head.commit.ref).get(path)
        return found.value.read() if isinstance(found, Done) else None

    @property
    def _stranger(self) -> Connection:
        return evolve(self.connection, timeout=self.connection.timeout + 1)


@frozen
class BucketCoordinationHarness:
    """Coordination on a bucket. It has no leases, so nothing is ever waited out."""

    connection: Connection
    ttl: float = 1.0

    @property
    def port(self) -> BucketCoordination:
        return BucketCoordination(self.connection)

    @property
    def clock(self) -> Clock:
        return MachineClock()

    @property
    def recipe(self) -> Recipe[Coordination] | None:
        return None if self.connection.url.startswith(MEMORY) else partial(BucketCoordination, self.connection)


def commit_as_stranger(connection: Connection, target: Target, files: Mapping[str, bytes | None]) -> CommitRef:
    """Commit on top of a branch, with no claim and no regard for anybody."""
    return staged_by_stranger(connection, target, files)()


def staged_by_stranger(
    connection: Connection, target: Target, files: Mapping[str, bytes | None]
) -> Callable[[], CommitRef]:
    """Do all of that but the movement of the branch, which is left to the caller."""
    store = BucketStore(connection)
    head = _done(store.head(target))
    assert head is not None
    run = token_hex(8)
    attempt = Attempt("stranger", run, 0, f"stranger/{run}", 1, run, target, head.commit.ref, Backing.SOFT)
    name = attempt.staging_name
    _done(store.open_staging(target, name, head.commit.ref))
    sink = store.sink(target, name)
    stored = tuple(_done(sink.put(path, BytesIO(data))) for path, data in files.items() if data is not None)
    _done(sink.link(stored, tuple(path for path, data in files.items() if data is None)))
    staged = _done(store.commit(target, name, "by a stranger"))
    assert staged is not None
    decision = fence.decide(fence.Case(attempt, staged, head))
    assert isinstance(decision, fence.Allowed)

    def move() -> CommitRef:
        published = _done(store.publish(decision.plan))
        _done(store.drop(target, name))
        return published

    return move


def _done(answer: Answer[T]) -> T:
    assert isinstance(answer, Done), answer
    return answer.value
