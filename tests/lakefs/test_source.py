"""The source on a real lakeFS: what is listed, what is hidden, what is streamed (issue 7, item 6)."""

from __future__ import annotations

import pickle

import pytest

from perago_core.values import CommitRef
from tests.conformance.support import contents, done, refused
from tests.support.lakefs.lake import Lake, numbered, paths
from tests.support.servers.sharing import shared_lakefs

HOOK = "_lakefs_actions/fence.yaml"
HARMLESS = b"name: nothing\non:\n  pre-merge:\n    branches: [nowhere]\nhooks: []\n"


@pytest.fixture
def lake() -> Lake:
    return Lake.on(shared_lakefs())


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
