"""How fast contents move to and from lakeFS, beside a raw client on the same server, and how much memory that takes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import urllib3

from perago_worker.folders.cache import Cache
from tests.bench.lakefs_large import figures
from tests.support.lakefs.lake import WIDTH, Lake, numbered
from tests.support.servers.lakefs import LakeFS

ROUNDS = 12
COUNT, SIZE = 1000, 64 << 10
MANY, SMALL = 10_000, 16 << 10
LARGE_MIB = 1024


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def raw_upload(lake: Lake, branch: str, folder: Path, names: list[str]) -> None:
    """Upload files with nothing but urllib3 and threads."""
    connection = lake.connection
    who = urllib3.make_headers(basic_auth=f"{connection.access_key}:{connection.secret_key}")
    headers = {**who, "Content-Type": "application/octet-stream"}
    place = f"{connection.api}{lake.place}/branches/{branch}/objects?path="

    def one(name: str) -> None:
        reply = lake.http.request(
            "POST", place + quote(name, safe=""), body=(folder / name).read_bytes(), headers=headers
        )
        assert reply.status == 201, reply.data

    with ThreadPoolExecutor(WIDTH) as pool:
        list(pool.map(one, names))


def staging(server: LakeFS, at: Path) -> None:
    """Compare staging a folder with uploading its files by hand: all rounds of each, taken in turns.

    One round says little on a machine that others use: each may be twice as fast as the other.
    """
    lake = Lake.on(server)
    folder = lake.folder(at, lake.commit({"first": b"first"}))
    for path in numbered(COUNT, prefix=""):
        (folder.sandbox.work / path).write_bytes(os.urandom(SIZE))
    changes = folder.changes()
    ours = theirs = 0.0
    for number in range(ROUNDS):
        for mine in (True, False) if number % 2 else (False, True):
            sink = lake.sink()
            begun = time.perf_counter()
            if mine:
                folder.upload(changes, sink, width=WIDTH)
                ours += time.perf_counter() - begun
            else:
                raw_upload(lake, sink.name, folder.sandbox.work, list(changes.written))
                theirs += time.perf_counter() - begun
    print(f"stage {COUNT:,} files of {SIZE >> 10} KiB, {WIDTH} at once:")
    print(f"  urllib3 and threads {theirs / ROUNDS:6.2f} s")
    print(f"  ours                {ours / ROUNDS:6.2f} s = {theirs / ours:4.0%} of its throughput")


def many(server: LakeFS, at: Path) -> None:
    """Stage and fetch very many small objects."""
    lake = Lake.on(server)
    folder = lake.folder(at, lake.commit({"first": b"first"}))
    for path in numbered(MANY, prefix=""):
        (folder.sandbox.work / path).write_bytes(os.urandom(SMALL))
    changes, sink = folder.changes(), lake.sink()
    out = timed(lambda: folder.upload(changes, sink, width=WIDTH))
    ref = lake.committed(sink.name)
    cache = Cache(at / "cache of many", 1 << 34)
    back = timed(lambda: lake.folder(at, ref, cache=cache))
    again = timed(lambda: lake.folder(at, ref, cache=cache))
    print(f"{MANY:,} objects of {SMALL >> 10} KiB:")
    print(f"  staged  {out:6.2f} s, {MANY / out:6,.0f}/s")
    print(f"  fetched {back:6.2f} s, {MANY / back:6,.0f}/s; from the cache {again:.2f} s, {MANY / again:6,.0f}/s")


def one_large(server: LakeFS) -> None:
    """Move one large object out and in again."""
    found = figures(Lake.on(server), LARGE_MIB)
    assert found.same
    print(f"one object of {LARGE_MIB} MiB:")
    for what, seconds in (("staged", found.out), ("fetched", found.back)):
        print(f"  {what:<7} {seconds:6.2f} s, {LARGE_MIB / seconds:6,.0f} MiB/s")
    print(f"  memory  {found.memory} MiB at most, of which {found.before} before the first byte moved")


def main(server: LakeFS) -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory() as folder:
        staging(server, Path(folder) / "staging")
        many(server, Path(folder) / "many")
    one_large(server)
