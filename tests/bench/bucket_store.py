"""What a bucket costs: in a folder beside git; on a real S3 in requests, beside a raw client, and in memory.

.venv/bin/python -m tests.bench.bucket_store
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO, RawIOBase
from pathlib import Path
from secrets import token_hex
from statistics import median
from typing import TYPE_CHECKING, BinaryIO, cast

import obstore
from attrs import evolve, frozen
from obstore.store import from_url

from perago_bucket import BucketStore, Connection, commits, manifest
from perago_bucket.client import bucket
from perago_bucket.layout import place_of
from perago_bucket.record import change
from perago_conformance.harness import StoreHarness
from perago_conformance.support import MAIN, attempt_at, claim, done, head_of, plan_for
from perago_core.ports import Stored
from perago_core.values import Backing, CommitRef
from perago_local.git.store import GitStore
from tests.bench import git_store
from tests.conformance.implementations.git import GitHarness, git
from tests.support.bucket.harness import BucketHarness, connection_to
from tests.support.servers.buckets import VERSITYGW, VersityGW
from tests.support.servers.faulty_proxy import FaultyProxy

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: How many files there are when one of them is edited, and how many requests its publication may need.
AMONG = {250: 6, 1_000_000: 12}
#: How many entries are added to a manifest at a time while a large one is made.
CHUNK = 100_000
ROUNDS = 12
COUNT, SIZE, WIDTH = 200, 256 << 10, 8
SMALL_MIB, LARGE_MIB = 64, 1024
_BLOCK = 1 << 20


def through(server: VersityGW, proxy: FaultyProxy) -> Connection:
    """Return a prefix of its own, whose requests are counted."""
    connection = connection_to(server, token_hex(8))
    options = tuple((name, proxy.url if name == "aws_endpoint_url" else value) for name, value in connection.options)
    return evolve(connection, options=options)


def widened(store: BucketHarness, files: int) -> CommitRef:
    """Make a commit that names so many files. They are only entries of the manifest: nobody reads them."""
    head = store.create(MAIN, {})
    at = place_of(bucket(store.connection), MAIN.repository)
    tree = commits.needed(at, head).tree
    for begin in range(0, files, CHUNK):
        paths = [f"far/{number:07}" for number in range(begin, min(begin + CHUNK, files))]
        tree = manifest.changed(at, tree, {path: Stored(path, f"first/{token_hex(16)}", path, 1) for path in paths})
    wide = commits.write(at, tree, (head,), "many files", "a stranger")
    change(at, MAIN.branch, lambda standing: (evolve(standing, head=wide), None))
    return wide


@frozen
class Counted:
    """The requests of one attempt: to stage the file, and to publish what is staged, from the claim to the drop."""

    staging: int
    publication: int


def publish_one(store: BucketHarness, proxy: FaultyProxy, number: int, edited: str) -> Counted:
    """Publish one edited file as an attempt does."""
    port = store.port
    head = head_of(store)
    attempt = attempt_at(head, backing=Backing.ATOMIC, task=f"wf/{number}", execution=f"run-{number}")
    proxy.forget()
    done(port.open_staging(MAIN, attempt.staging_name, head))
    sink = port.sink(MAIN, attempt.staging_name)
    done(sink.link((done(sink.put(edited, BytesIO(token_hex(16).encode()))),)))
    staged = done(port.commit(MAIN, attempt.staging_name, "edited"))
    assert staged is not None
    begun = len(proxy.seen)
    # In the order of `specs/cost.md`: the claim, the claims there are, the head, the movement, the name.
    claim(store, attempt, staged)
    done(port.publish(plan_for(store, attempt, staged)))
    done(port.drop(MAIN, attempt.staging_name))
    return Counted(begun, len(proxy.seen) - begun)


def publications(server: VersityGW) -> None:
    """Count what a process needs that has published to this branch before."""
    print("bucket: one edited file, requests of a process that has seen the branch (staged, then published):")
    for files, most in AMONG.items():
        with FaultyProxy(server.url) as proxy:
            store = BucketHarness(through(server, proxy))
            widened(store, files)
            publish_one(store, proxy, 1, f"far/{files // 3:07}")
            found = publish_one(store, proxy, 2, f"far/{files // 2:07}")
            print(f"  of {files:9,} files  {found.staging:3} + {found.publication}  (at most {most} to publish)")


def staging(server: VersityGW) -> None:
    """Compare staging with the same client, used by hand: all rounds of each, taken in turns."""
    connection = connection_to(server, token_hex(8))
    store = BucketHarness(connection)
    head = store.create(MAIN, {})
    name = attempt_at(head).staging_name
    done(store.port.open_staging(MAIN, name, head))
    sink = store.port.sink(MAIN, name)
    by_hand = cast("Callable[..., ObjectStore]", from_url)
    raw = by_hand(connection.url, client_options={"allow_http": True}, **dict(connection.options))
    contents = [os.urandom(SIZE) for _ in range(COUNT)]

    def ours(content: bytes) -> object:
        return done(sink.put("a/file", BytesIO(content)))

    def theirs(content: bytes) -> object:
        return obstore.put(raw, f"raw/{token_hex(16)}", content)

    print(f"bucket: stage {COUNT} files of {SIZE >> 10} KiB, {WIDTH} at once, beside obstore by hand:")
    _compared(lambda way: _all(way, contents), ours, theirs)
    print(f"bucket: stage one file of {SMALL_MIB} MiB:")
    large = os.urandom(SMALL_MIB << 20)
    _compared(
        lambda way: way(large),
        lambda content: done(sink.put("a/file", BytesIO(content))),
        lambda content: obstore.put(raw, f"raw/{token_hex(16)}", content, chunk_size=8 << 20, max_concurrency=4),
    )


def _all(way: Callable[[bytes], object], contents: list[bytes]) -> None:
    with ThreadPoolExecutor(WIDTH) as pool:
        list(pool.map(way, contents))


def _compared(
    play: Callable[[Callable[[bytes], object]], object],
    ours: Callable[[bytes], object],
    theirs: Callable[[bytes], object],
) -> None:
    took = {True: 0.0, False: 0.0}
    for number in range(ROUNDS):
        for mine in (True, False) if number % 2 else (False, True):
            begun = time.perf_counter()
            play(ours if mine else theirs)
            took[mine] += time.perf_counter() - begun
    print(f"  by hand {took[False] / ROUNDS:6.2f} s")
    print(f"  ours    {took[True] / ROUNDS:6.2f} s = {took[False] / took[True]:4.0%} of its throughput")


class Blocks(RawIOBase):
    """So many bytes, never all at once."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self._left = blocks * _BLOCK
        self._block = os.urandom(_BLOCK)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        wanted = min(self._left, size)
        self._left -= wanted
        return (self._block * (wanted // _BLOCK + 1))[:wanted]


def memory(server: VersityGW) -> None:
    """Put a small and a large file, each in a process of its own."""
    found = {mebibytes: _peak(server, mebibytes) for mebibytes in (SMALL_MIB, LARGE_MIB)}
    (small, large) = found.values()
    print(f"bucket: memory to put {SMALL_MIB} MiB {small} MiB, {LARGE_MIB} MiB {large} MiB = {large / small:.2f}x")


def _peak(server: VersityGW, mebibytes: int) -> int:
    connection = connection_to(server, token_hex(8))
    given = json.dumps([connection.url, connection.options])
    words = [sys.executable, "-m", "tests.bench.bucket_store", str(mebibytes)]
    ran = subprocess.run(words, input=given, capture_output=True, text=True, check=True)  # noqa: S603  ourselves
    return int(ran.stdout)


def _put_alone(mebibytes: int) -> None:
    url, options = json.loads(sys.stdin.read())
    store = BucketHarness(Connection(url, tuple((name, value) for name, value in options)))
    head = store.create(MAIN, {})
    name = attempt_at(head).staging_name
    done(BucketStore(store.connection).open_staging(MAIN, name, head))
    stored = done(store.port.sink(MAIN, name).put("large", cast("BinaryIO", Blocks(mebibytes))))
    assert stored.size == mebibytes << 20
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    print(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) >> 10)


def folders() -> None:
    """Publish one changed file among 2,000 on the same disk by each store, in turns: noise hits all alike."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        harnesses: dict[str, StoreHarness] = {
            "git": GitHarness(root / "git", GitStore(root / "git")),
            "git, durable": GitHarness(root / "durable", GitStore(root / "durable")),
            "folder": BucketHarness(Connection(f"file://{root}/folder", (("durable", "false"),))),
            "folder, durable": BucketHarness(Connection(f"file://{root}/waiting")),
            "memory": BucketHarness(Connection(f"memory://{token_hex(8)}")),
        }
        for harness in harnesses.values():
            harness.create(MAIN, git_store.FILES if isinstance(harness, GitHarness) else {})
        for name, harness in harnesses.items():
            if not isinstance(harness, GitHarness):
                harness.stranger_commits(MAIN, dict(git_store.FILES))
            elif name == "git, durable":
                git(root / "durable" / f"{MAIN.repository}.git", "config", "core.fsyncObjectFiles", "true")
        taken: dict[str, list[float]] = {name: [] for name in harnesses}
        for number in range(git_store.ROUNDS):
            for name, harness in harnesses.items():
                publish = partial(git_store.publish_with_ours, harness, MAIN, number, b"changed %d" % number)
                taken[name].append(git_store.milliseconds(publish))
        print("stores on a disk: publish one changed file among 2,000, median:")
        base = median(taken["git"])
        for name, found in taken.items():
            print(f"  {name:16} {median(found):7.2f} ms = {median(found) / base:5.2f}x of git")


def main() -> None:
    """Print every figure: first those that need no server."""
    folders()
    if not VERSITYGW.is_there():
        print("bucket: no S3 here; obtain it: python -m tests.support.servers obtain versitygw")
        return
    with tempfile.TemporaryDirectory() as folder, VersityGW(folder=Path(folder)) as server:
        publications(server)
        staging(server)
        memory(server)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _put_alone(int(sys.argv[1]))
    else:
        main()
