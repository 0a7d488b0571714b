"""Folders on a real lakeFS: what is fetched and sent, with how many requests, in how much memory (issue 7, item 6)."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path

import pytest

from perago_conformance.support import contents, done
from perago_core.answers import Done
from perago_worker.folders.cache import Cache
from perago_worker.folders.errors import WorkspaceError
from perago_worker.folders.transfer_progress import Moved
from tests.bench.lakefs_large import figures
from tests.lakefs.test_sink import HARMLESS, HOOK
from tests.support.lakefs.lake import WIDTH, Lake, numbered
from tests.support.servers.faulty_proxy import LOSE_ANSWER, LOSE_REQUEST, FaultyProxy, Request, when
from tests.support.servers.sharing import shared_lakefs


@pytest.fixture
def lake() -> Lake:
    return Lake.on(shared_lakefs())


@pytest.fixture
def proxy() -> Iterator[FaultyProxy]:
    with FaultyProxy(shared_lakefs().url) as running:
        yield running


# ---------------------------------------------------------------------------------------------------------------------
# Requests


def test_one_edited_file_of_many_is_one_listing_the_reads_and_one_upload(
    lake: Lake, proxy: FaultyProxy, tmp_path: Path
) -> None:
    late, ref = lake.through(proxy.url), lake.commit(numbered(250))
    cache = Cache(tmp_path / "cache", 1 << 30)
    folder = late.folder(tmp_path, ref, "d/", cache=cache)
    assert proxy.counts(lambda request: request.method) == {"GET": 251}
    sink = late.sink(ref)
    (folder.sandbox.work / "00007.bin").write_bytes(b"edited")
    proxy.forget()
    assert folder.upload(folder.changes(), sink, width=WIDTH) == 1
    assert proxy.counts(lambda request: request.method) == {"POST": 1}
    proxy.forget()
    late.folder(tmp_path, ref, "d/", cache=cache)
    assert proxy.counts(lambda request: request.method) == {"GET": 1}, "warm: the listing, and nothing else"
    assert proxy.most_in_flight <= WIDTH


def test_equal_contents_are_fetched_once(lake: Lake, proxy: FaultyProxy, tmp_path: Path) -> None:
    ref = lake.commit({f"copy-{index}": b"the same" for index in range(20)})
    folder = lake.through(proxy.url).folder(tmp_path, ref)
    assert len(proxy.seen) == 2
    assert {path.read_bytes() for path in folder.sandbox.work.iterdir()} == {b"the same"}


# ---------------------------------------------------------------------------------------------------------------------
# What is kept


def test_untouched_objects_keep_their_content_type_and_attributes(lake: Lake, tmp_path: Path) -> None:
    """They are not sent again, so nothing can be lost on the way."""
    lake.upload("d/page", b"<p>", **{"Content-Type": "text/html", "x-lakefs-meta-owner": "Ada"})
    ref = lake.commit({"d/edited": b"before"})
    before = lake.about(ref, "d/page")
    folder, sink = lake.folder(tmp_path, ref, "d/"), lake.sink(ref)
    (folder.sandbox.work / "edited").write_bytes(b"after")
    folder.upload(folder.changes(), sink, width=WIDTH)
    staged = lake.committed(sink.name)
    assert lake.about(staged, "d/page") == before
    assert (before["content_type"], before["metadata"]) == ("text/html", {"owner": "Ada"})


def test_hooks_and_odd_keys_survive_a_body_that_clears_its_folder(lake: Lake, tmp_path: Path) -> None:
    """What a folder cannot show is neither shown nor deleted, with the root of the branch as the workspace too."""
    kept = {HOOK: HARMLESS, "a//b": b"odd", "./c": b"odd", "full/": b"a marker with bytes"}
    ref = lake.commit({**kept, "x": b"x", "dir/y": b"y", "empty/": b""})
    folder, sink = lake.folder(tmp_path, ref), lake.sink(ref)
    assert {path.name for path in folder.sandbox.work.iterdir()} == {"x", "dir", "empty"}
    (folder.sandbox.work / "x").unlink()
    (folder.sandbox.work / "dir" / "y").unlink()
    (folder.sandbox.work / "dir").rmdir()
    (folder.sandbox.work / "empty").rmdir()
    folder.upload(folder.changes(), sink, width=WIDTH)
    staged = lake.committed(sink.name)
    assert {path: lake.read(staged, path) for path in kept} == kept
    assert set(contents(lake.source(staged))) == set(kept) - {HOOK}


def test_a_key_that_leads_out_of_the_folder_is_refused(lake: Lake, tmp_path: Path) -> None:
    ref = lake.commit({"d/../../escaped": b"no"})
    with pytest.raises(WorkspaceError, match="stay inside the workspace"):
        lake.folder(tmp_path, ref, "d/")


# ---------------------------------------------------------------------------------------------------------------------
# A bad network


def is_upload(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/objects")


def is_read(request: Request) -> bool:
    return request.method == "GET" and request.path.endswith("/objects")


def test_an_upload_whose_answer_is_lost_is_sent_again_and_leaves_the_same(lake: Lake, proxy: FaultyProxy) -> None:
    """Idempotent by content: whichever lands last, the bytes are the same."""
    sink = lake.through(proxy.url).sink()
    proxy.script = when(is_upload, LOSE_ANSWER, times=2)
    with (Path(__file__)).open("rb") as file:
        written = sink.write("x", file)
    assert isinstance(written, Done)
    assert written.operations == 3
    assert lake.read(sink.name, "x") == Path(__file__).read_bytes()


def test_an_upload_that_is_never_answered_is_unknown_and_ends(lake: Lake, proxy: FaultyProxy) -> None:
    sink = lake.through(proxy.url).sink()
    proxy.script = when(is_upload, LOSE_REQUEST)
    with (Path(__file__)).open("rb") as file:
        written = sink.write("x", file)
    assert type(written).__name__ == "Unknown", written
    assert len([each for each in proxy.seen if is_upload(each)]) == written.operations == 4


def test_a_link_and_a_deletion_are_sent_once(lake: Lake, proxy: FaultyProxy) -> None:
    """One that lands late could undo what came after it."""
    sink = lake.through(proxy.url).sink()
    with (Path(__file__)).open("rb") as file:
        stored = done(sink.put("x", file))
    proxy.script = when(lambda request: request.method == "PUT" or "delete" in request.path, LOSE_ANSWER)
    proxy.forget()
    for answer in (sink.link((stored,)), sink.link((), ("x",))):
        assert type(answer).__name__ == "Unknown", answer
    assert len(proxy.seen) == 2


def test_reads_are_asked_again(lake: Lake, proxy: FaultyProxy, tmp_path: Path) -> None:
    ref = lake.commit(numbered(20))
    proxy.script = when(lambda request: request.number % 3 == 1, LOSE_ANSWER)
    assert lake.through(proxy.url).folder(tmp_path, ref).fetched == 20


@contextmanager
def cutting(upstream: str, first: int, later: int) -> Generator[str]:
    """Stand before a server and end each connection once it has carried so many bytes to the client."""
    limits = chain([first], repeat(later))
    host, port = upstream.removeprefix("http://").split(":")
    listening = socket.create_server(("127.0.0.1", 0))

    def relay(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as server:
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            left = next(limits)
            with suppress(OSError):
                while left and (chunk := server.recv(min(left, 1 << 16))):
                    client.sendall(chunk)
                    left -= len(chunk)
            client.shutdown(socket.SHUT_RDWR)

    def pump(client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while chunk := client.recv(1 << 16):
                server.sendall(chunk)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=relay, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()


def test_an_object_whose_connection_is_cut_goes_on_with_the_next_byte(lake: Lake) -> None:
    content = os.urandom(3 << 20)
    ref = lake.commit({"x": content})
    cut = cutting(lake.connection.url, first=200_000, later=400_000)
    with cut as url, done(lake.through(url).source(ref).get("x")) as stream:
        assert stream.read(5) + stream.read(1 << 20) + stream.read() == content


def test_an_object_that_comes_no_further_is_an_error_and_never_a_short_file(lake: Lake) -> None:
    ref = lake.commit({"x": os.urandom(3 << 20)})
    with (
        cutting(lake.connection.url, first=1 << 20, later=1000) as url,
        done(lake.through(url).source(ref).get("x")) as stream,
        pytest.raises(OSError, match="the connection was lost 6 times at byte 917504"),
    ):
        stream.read()


# ---------------------------------------------------------------------------------------------------------------------
# Progress


def test_progress_knows_its_totals_from_the_beginning_and_ends_at_them(lake: Lake, tmp_path: Path) -> None:
    files = numbered(30, size=40_000)
    ref = lake.commit(files)
    told: list[Moved] = []
    folder = lake.folder(tmp_path, ref, moved=told.append)
    total = sum(map(len, files.values()))
    assert {(each.of_files, each.of_bytes) for each in told} == {(30, total)}
    assert [each.bytes for each in told] == sorted(each.bytes for each in told)
    assert (told[-1].files, told[-1].bytes) == (30, total)
    for path in ("a", "b"):
        (folder.sandbox.work / path).write_bytes(os.urandom(300_000))
    told.clear()
    folder.upload(folder.changes(), lake.sink(), width=WIDTH, moved=told.append)
    assert told[-1] == Moved(2, 600_000, 2, 600_000)
    assert len(told) > 4, "also while a file is on its way"


def test_progress_of_bytes_that_are_sent_again_still_ends_at_the_total(
    lake: Lake, proxy: FaultyProxy, tmp_path: Path
) -> None:
    folder, sink = lake.folder(tmp_path, lake.commit({"first": b""})), lake.through(proxy.url).sink()
    (folder.sandbox.work / "x").write_bytes(os.urandom(300_000))
    proxy.script = when(is_upload, LOSE_ANSWER, times=1)
    told: list[Moved] = []
    folder.upload(folder.changes(), sink, width=WIDTH, moved=told.append)
    assert told[-1] == Moved(1, 300_000, 1, 300_000)
    assert max(each.bytes for each in told) == 300_000


# ---------------------------------------------------------------------------------------------------------------------
# Very many, and very large


def test_ten_thousand_objects_go_out_and_come_back(lake: Lake, tmp_path: Path) -> None:
    folder, sink = lake.folder(tmp_path, lake.commit({"first": b"first"})), lake.sink()
    files = numbered(10_000, size=16 << 10, prefix="")
    for path, content in files.items():
        (folder.sandbox.work / path).write_bytes(content)
    assert folder.upload(folder.changes(), sink, width=WIDTH) == 10_000
    back = lake.folder(tmp_path, lake.committed(sink.name), cache=Cache(tmp_path / "empty cache", 1 << 34))
    assert back.fetched == 10_001
    assert all((back.sandbox.work / path).read_bytes() == content for path, content in files.items())


def test_a_gibibyte_goes_out_and_comes_back_in_less_than_100_mb(lake: Lake) -> None:
    found = figures(lake, 1024)
    assert found.same
    assert found.memory << 20 < 100_000_000, f"{found.memory} MiB"
