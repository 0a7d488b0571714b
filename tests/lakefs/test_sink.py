"""Sink and source on a real lakeFS: what becomes visible when, what is listed, hidden, streamed (issue 7, item 6)."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest
from attrs import evolve

from perago_conformance.support import contents, done, refused
from perago_core.answers import Answer, Unknown
from perago_core.values import CommitRef
from perago_lakefs.objects.sink import LakeFSSink, scratch_name
from tests.support.lakefs.lake import Lake, numbered, paths
from tests.support.servers.sharing import shared_lakefs


@pytest.fixture
def lake() -> Lake:
    return Lake.on(shared_lakefs())


def data(content: bytes = b"new") -> BinaryIO:
    return io.BytesIO(content)


class Stream(io.BytesIO):
    """Bytes that come once, as from a pipe."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation


# ---------------------------------------------------------------------------------------------------------------------
# Requests


def test_a_file_that_is_put_and_linked_takes_two_requests_and_the_scratch_branch_one(lake: Lake) -> None:
    """Spark: two for each file, and a constant number for the write."""
    sink = lake.sink()
    puts = [sink.put(f"part-{index}", data(str(index).encode())) for index in range(5)]
    assert [each.operations for each in puts] == [2, 1, 1, 1, 1]
    linked = sink.link(tuple(done(each) for each in puts))
    assert linked.operations == 5
    assert paths(done(sink.list())) == [f"part-{index}" for index in range(5)]


def test_the_only_writer_of_a_path_takes_one_request(lake: Lake) -> None:
    sink = lake.sink()
    before = lake.branches()
    written = sink.write("a", data())
    assert (written.operations, done(written).size) == (1, 3)
    assert paths(done(sink.list())) == ["a"]
    assert lake.branches() == before, "no scratch branch is made"


def test_deleting_takes_one_request_for_each_thousand_paths(lake: Lake) -> None:
    files = numbered(1200)
    sink = lake.sink(lake.commit(files))
    linked = sink.link((), (*files, "never there"))
    done(linked)
    assert linked.operations == 3, "two batches, and a look at whether the branch is there at all"
    assert done(sink.list()) == ()


# ---------------------------------------------------------------------------------------------------------------------
# Content


def test_equal_bytes_are_no_difference_whichever_way_they_came(lake: Lake) -> None:
    """S-12. To lakeFS an object is its size, checksum, content type and attributes; so all must always be the same.

    The id of a tree is another matter: it also covers where the bytes are stored, and when they were.
    """
    at = lake.commit({"first": b"first"})
    staged: list[str] = []
    for way in ("put", "write", "stream"):
        sink = lake.sink(at)
        content = Stream(b"same") if way == "stream" else data(b"same")
        if way == "put":
            done(sink.link((done(sink.put("x", content)),)))
        else:
            done(sink.write("x", content))
        staged.append(lake.committed(sink.name))
    for each in staged[1:]:
        found = lake.ask("GET", f"{lake.place}/refs/{staged[0]}/diff/{each}", {"type": "two_dot"})
        assert found["results"] == []


def test_what_is_put_can_be_read_back_byte_by_byte(lake: Lake) -> None:
    sink = lake.sink()
    files = {"empty": b"", "one": b"x", "large": bytes(range(256)) * (40 << 10), "marker/": b""}
    stored = tuple(done(sink.put(path, data(content))) for path, content in files.items())
    done(sink.link(stored))
    assert contents(lake.source(lake.committed(sink.name))) == files


def test_a_stream_of_unknown_length_is_sent_as_it_comes(lake: Lake) -> None:
    sink = lake.sink()
    content = bytes(range(256)) * 4096
    assert done(sink.write("x", Stream(content))).size == len(content)
    assert lake.read(sink.name, "x") == content


def test_a_file_is_sent_from_where_it_is(lake: Lake) -> None:
    sink = lake.sink()
    half = data(b"skipped sent")
    half.seek(8)
    assert done(sink.write("x", half)).size == 4
    assert lake.read(sink.name, "x") == b"sent"


def test_a_file_that_is_cut_while_it_is_sent_is_refused_at_once(lake: Lake) -> None:
    """Else the server would wait for the rest until the time-out."""

    class Shrinking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            del size
            self.truncate(1 << 17)
            return super().read(1 << 16)

    sink = lake.sink()
    assert "it was cut while it was sent" in refused(sink.write("x", Shrinking(b"x" * (1 << 20))))
    assert done(sink.list()) == ()


# ---------------------------------------------------------------------------------------------------------------------
# Names that are gone, and targets


def test_a_late_writer_cannot_bring_a_dropped_name_back(lake: Lake) -> None:
    """Its scratch branch begins at the staging name, so there is nothing to begin at."""
    sink, late = lake.sink(), lake.sink()
    done(sink.put("x", data()))
    assert scratch_name(sink.name) in lake.branches()
    for each in (sink, late):
        lake.drop(each)
        refused(each.put("x", data()))
        refused(each.write("x", data()))
        refused(each.seal("_x", b"{}"))
        refused(each.list())
        refused(each.link((), ("x",)))
    assert lake.branches() == {"main"}


def test_only_publishing_writes_to_a_target(lake: Lake) -> None:
    """S-11: not even what is not linked."""
    sink = evolve(lake.sink(), name="main")
    for answer in (sink.put("x", data()), sink.write("x", data()), sink.seal("_x", b""), sink.link((), ("x",))):
        assert "expected a staging name" in refused(answer)


def test_a_link_that_fails_half_way_is_unknown_and_one_that_never_began_is_refused(lake: Lake) -> None:
    sink = lake.sink()
    good = done(sink.put("good", data()))
    bad = evolve(good, path="bad", address="s3://elsewhere/bad")
    many = tuple(evolve(good, path=f"good-{number}") for number in range(5 * sink.connection.pool))
    assert isinstance(sink.link((*many, bad)), Unknown)
    refused(sink.link((bad,)))


def test_a_path_that_is_linked_and_deleted_at_once_is_there(lake: Lake) -> None:
    sink = lake.sink(lake.commit({"x": b"old", "y": b"old"}))
    stored = done(sink.put("x", data(b"new")))
    done(sink.link((stored,), ("x", "y")))
    assert lake.read(sink.name, "x") == b"new"
    assert paths(done(sink.list())) == ["x"]


def test_a_deletion_that_the_server_did_not_do_is_read_from_its_good_answer(lake: Lake) -> None:
    """The server says 200, and which keys it did not delete."""
    lake.ask("PUT", f"{lake.place}/settings/branch_protection", body=[{"pattern": "perago-*"}])
    sink = lake.sink(lake.commit({"a": b"a"}))
    answer = sink.link((), ("a",))
    assert isinstance(answer, Unknown)
    assert "1 of 1 paths were not deleted" in answer.reason
    assert paths(done(sink.list())) == ["a"]


# ---------------------------------------------------------------------------------------------------------------------
# The folder of hooks

Write = Callable[[LakeFSSink, str], Answer[Any]]
WRITES: dict[str, Write] = {
    "put": lambda sink, path: sink.put(path, data()),
    "write": lambda sink, path: sink.write(path, data()),
    "seal": lambda sink, path: sink.seal(path, b"{}"),
    "delete": lambda sink, path: sink.link((), (path,)),
    "link": lambda sink, path: sink.link((evolve(done(sink.put("x", data())), path=path),)),
}


@pytest.mark.parametrize("way", WRITES)
def test_nobody_writes_into_the_folder_of_hooks(lake: Lake, way: str) -> None:
    """What is there runs inside the server; the fence is there."""
    sink = lake.sink(lake.commit({HOOK: HARMLESS}))
    assert "belongs to the server" in refused(WRITES[way](sink, "_lakefs_actions/_more.yaml"))
    assert "belongs to the server" in refused(sink.list("_lakefs_actions/"))
    assert done(sink.list()) == ()
    assert lake.read(sink.name, HOOK) == HARMLESS


# ---- The source on a real lakeFS: what is listed, what is hidden, what is streamed (issue 7, item 6).


HOOK = "_lakefs_actions/fence.yaml"
HARMLESS = b"name: nothing\non:\n  pre-merge:\n    branches: [nowhere]\nhooks: []\n"


def test_a_listing_takes_one_request_for_each_thousand_objects(lake: Lake) -> None:
    files = numbered(2001)
    listed = lake.source(lake.commit(files)).list()
    assert paths(done(listed)) == sorted(files)
    assert listed.operations == 3


def test_a_listing_that_fits_one_page_is_one_request(lake: Lake) -> None:
    ref = lake.commit({"data/a": b"a", "data/b": b"b", "data-2/c": b"c"})
    assert lake.source(ref).list("data/").operations == 1
    assert paths(done(lake.source(ref).list("data/"))) == ["data/a", "data/b"]


def test_the_folder_of_hooks_is_invisible_below_the_root_and_refused_by_name(lake: Lake) -> None:
    """A body that could see it could publish its deletion, and take the fence away for everybody."""
    source = lake.source(lake.commit({HOOK: HARMLESS, "_lakefs_actions_2/x": b"ours", "a": b"a"}))
    assert paths(done(source.list())) == ["_lakefs_actions_2/x", "a"]
    assert paths(done(source.list("_lakefs_act"))) == ["_lakefs_actions_2/x"]
    for prefix in ("_lakefs_actions/", "_lakefs_actions/fence"):
        assert "belongs to the server" in refused(source.list(prefix))
    assert "belongs to the server" in refused(source.get(HOOK))


def test_a_page_of_nothing_but_hooks_ends_no_listing(lake: Lake) -> None:
    hooks = {f"_lakefs_actions/{each}.yaml": HARMLESS.replace(b"nothing", b"no-%d" % each) for each in range(1000)}
    ref = lake.commit({**hooks, "z": b"z"})
    assert paths(done(lake.source(ref).list())) == ["z"]


def test_odd_keys_are_listed_and_read_as_they_are(lake: Lake) -> None:
    """Strangers write markers, double slashes and worse; one of them must not fail a whole task."""
    odd = {
        "dir/": b"",
        "a//b": b"1",
        "/lead": b"2",
        "dots/../x": b"3",
        "./y": b"4",
        "tab\tnew\nline": b"5",
        "é🙂": b"6",
    }
    assert contents(lake.source(lake.commit(odd))) == odd


def test_an_object_can_be_read_in_pieces_and_left_unread(lake: Lake) -> None:
    data = bytes(range(256)) * 8192
    source = lake.source(lake.commit({"big": data, "small": b"small"}))
    with done(source.get("big")) as stream:
        assert stream.read(3) == data[:3]
        assert stream.read(70_000) == data[3:70_003]
    with done(source.get("small")) as stream:
        assert stream.read() == b"small"
        assert stream.read() == b""


def test_a_server_that_cannot_be_reached_is_an_answer(lake: Lake) -> None:
    nowhere = lake.through("http://127.0.0.1:9")
    ref = CommitRef("0" * 64)
    assert "no answer from lakeFS" in refused(nowhere.source(ref).list())
    assert "no answer from lakeFS" in refused(nowhere.source(ref).get("x"))


def test_a_source_travels_and_does_not_show_its_secret(lake: Lake) -> None:
    source = lake.source(lake.commit({"a": b"a"}))
    copied = pickle.loads(pickle.dumps(source))  # noqa: S301  our own pickle
    assert contents(copied) == {"a": b"a"}
    assert lake.connection.secret_key not in repr(source)
