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
TINY, SIZE_OF_TINY = 1000, 200
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


def raw_fetch(lake: Lake, ref: str, names: list[str], folder: Path) -> None:
    """Read objects into files with nothing but urllib3 and threads."""
    connection = lake.connection
    who = urllib3.make_headers(basic_auth=f"{connection.access_key}:{connection.secret_key}")
    place = f"{connection.api}{lake.place}/refs/{ref}/objects?path="
    folder.mkdir()

    def one(name: str) -> None:
        reply = lake.http.request("GET", place + quote(name, safe=""), headers=who)
        assert reply.status == 200, reply.data
        (folder / name).write_bytes(reply.data)

    with ThreadPoolExecutor(WIDTH) as pool:
        list(pool.map(one, names))


def fetching(server: LakeFS, at: Path) -> None:
    """Compare filling a workspace from an empty cache with reading its objects by hand, in turns.

    Ours also lists, keeps each content in the cache with its digest, copies it to where the body may write, and scans.
    """
    lake = Lake.on(server)
    files = numbered(TINY, SIZE_OF_TINY, prefix="")
    ref = lake.commit(files)
    spent = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for number in range(ROUNDS):
        for mine in (True, False) if number % 2 else (False, True):
            begun, used = time.perf_counter(), time.process_time()
            if mine:
                lake.folder(at / f"ours {number}", ref)
            else:
                raw_fetch(lake, ref, list(files), at / f"raw {number}")
            spent[mine][0] += time.perf_counter() - begun
            spent[mine][1] += time.process_time() - used
    print(f"fetch {TINY:,} objects of {SIZE_OF_TINY} bytes into an empty cache, {WIDTH} at once:")
    for mine, what in ((False, "urllib3 and threads"), (True, "ours")):
        seconds, used = (each / ROUNDS for each in spent[mine])
        ratio = f" = {spent[False][0] / spent[True][0]:4.0%} of its throughput" if mine else ""
        print(f"  {what:<19} {seconds:6.2f} s, {used * 1000 / TINY:4.2f} ms of processor each{ratio}")


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
        fetching(server, Path(folder))
        many(server, Path(folder) / "many")
    one_large(server)
