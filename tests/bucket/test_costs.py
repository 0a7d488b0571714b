"""Requests are counted between us and a real server, call by call; ``specs/cost.md`` is made of the same numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from attrs import evolve

from perago_bucket import commits, manifest
from perago_bucket.client import bucket
from perago_bucket.layout import Place, place_of
from perago_bucket.record import change, read
from perago_conformance.harness import Stack
from perago_conformance.suites.stack import ports as ports_of
from perago_conformance.support import MAIN, attempt_of, done, head_of
from perago_core import drive
from perago_core.ports import Stored
from perago_core.results import Completed
from perago_core.values import Backing, CommitRef, OnAbandoned
from tests.conformance.implementations.embedded import stack_on
from tests.conformance.implementations.files import workspace_on
from tests.specs.costs import PUBLICATION, bucket_calls
from tests.support.bucket.harness import BucketHarness, connection_to
from tests.support.servers.buckets import VersityGW
from tests.support.servers.faulty_proxy import FaultyProxy

pytestmark = pytest.mark.servers

#: What the body ``edit`` finds and edits.
FILES = {"data/a.txt": b"alpha", "data.txt": b"x"}


@pytest.fixture
def proxy(server: VersityGW) -> Iterator[FaultyProxy]:
    with FaultyProxy(server.url) as proxy:
        yield proxy


@pytest.fixture
def store(server: VersityGW, proxy: FaultyProxy) -> BucketHarness:
    connection = connection_to(server, token_hex(8))
    options = tuple((name, proxy.url if name == "aws_endpoint_url" else value) for name, value in connection.options)
    return BucketHarness(evolve(connection, options=options))


def place(store: BucketHarness) -> Place:
    return place_of(bucket(store.connection), MAIN.repository)


def spent(stack: Stack, proxy: FaultyProxy, at: CommitRef) -> Counter[str]:
    """Run one attempt as a worker does and count the requests of each call."""
    counted, count = proxy.per_call()
    stack.orchestrator.start(("clean",), MAIN, at)
    (assignment,) = done(stack.orchestrator.port.poll("worker-1", ("clean",), 1))
    # One that adopts lists the claims once more before it works, which is one request.
    attempt = evolve(
        attempt_of(assignment, f"run-{assignment.snapshot.task_id}", Backing.ATOMIC), on_abandoned=OnAbandoned.REPLACE
    )
    stack.workspace.accept(attempt, "edit")
    outcome = drive(attempt, ports_of(stack, count))
    assert isinstance(outcome.result, Completed), outcome
    return +counted


def deepen(store: BucketHarness, to: int) -> None:
    """Let the history be so deep."""
    at = place(store)
    found = read(at, MAIN.branch)
    assert found is not None
    tip = found.head
    tree = commits.needed(at, tip).tree
    for number in range(to):
        tip = commits.write(at, tree, (tip,), f"deeper {number}", "a stranger")
    change(at, MAIN.branch, lambda standing: (evolve(standing, head=tip), None))


def test_one_of_250_files_costs_what_the_table_says_at_any_depth(
    store: BucketHarness, proxy: FaultyProxy, tmp_path: Path
) -> None:
    store.create(MAIN, {**{f"d/{number:05}": b"%d" % number for number in range(248)}, **FILES})
    wanted = +Counter(bucket_calls())
    assert sum(wanted[call] for call in PUBLICATION) <= 6
    with stack_on(workspace_on(store, tmp_path), tmp_path) as stack:
        cold = spent(stack, proxy, head_of(store))
        assert cold.total() <= wanted.total() + 250
        for depth in (1, 100, 1000):
            deepen(store, depth)
            # One file is not in the cache: the one that the attempt before has written.
            assert spent(stack, proxy, head_of(store)) == wanted + Counter({"workspace.prepare": 1}), depth


def test_one_of_many_files_costs_a_range_or_two_more(store: BucketHarness, proxy: FaultyProxy, tmp_path: Path) -> None:
    """The files are only entries of the manifest: nobody reads them, because the task's folder is another."""
    store.create(MAIN, FILES)
    at = place(store)
    many = {f"far/{number:06}": Stored(f"far/{number:06}", f"first/{number:032x}", "", 0) for number in range(30_000)}
    tip = read(at, MAIN.branch)
    assert tip is not None
    tree = manifest.changed(at, commits.needed(at, tip.head).tree, many)
    wide = commits.write(at, tree, (tip.head,), "many files", "a stranger")
    change(at, MAIN.branch, lambda standing: (evolve(standing, head=wide), None))
    sink = store.port.sink(MAIN, "perago-wide")
    done(store.port.open_staging(MAIN, "perago-wide", wide))
    proxy.forget()
    with (tmp_path / "edited").open("w+b") as edited:
        done(sink.link((done(sink.put("far/012345", edited)),)))
    staged = done(store.port.commit(MAIN, "perago-wide", "edited"))
    assert staged is not None
    # The bytes, the range, the root, the record; then the commit and the record again.
    assert len(proxy.seen) == 6
