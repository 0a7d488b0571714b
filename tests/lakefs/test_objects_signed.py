"""Large objects on a lakeFS that signs addresses: they go to the store and come from it, past the server (item 6)."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import urllib3

from perago_conformance.support import done, refused
from perago_core.answers import Unknown
from perago_lakefs.objects.transfer import LARGE
from perago_lakefs.objects.write import PART
from tests.lakefs.signing import Signing, signing
from tests.support.lakefs.lake import Lake
from tests.support.servers.faulty_proxy import LOSE_REQUEST, PASS, FaultyProxy, always, when
from tests.support.servers.lakefs import LAKEFS
from tests.support.servers.sharing import demand

SMALL = b"small" * 1000
BIG = os.urandom(LARGE)
PASSING = always(PASS)
HUGE = os.urandom(1 << 20) * ((PART >> 20) + 1)


@pytest.fixture(scope="module")
def running() -> Iterator[Signing]:
    demand(LAKEFS)
    with signing() as both:
        yield both


@pytest.fixture
def store(running: Signing) -> FaultyProxy:
    """Give what stands before the store, which has forgotten what it saw."""
    running.store.script = PASSING
    running.store.forget()
    return running.store


@pytest.fixture
def server(running: Signing) -> Iterator[FaultyProxy]:
    with FaultyProxy(running.server.url) as proxy:
        yield proxy


@pytest.fixture
def lake(running: Signing, server: FaultyProxy, store: FaultyProxy) -> Lake:
    assert store.script is PASSING, "else no repository can be made"
    return Lake.on(running.server).through(server.url)


def bytes_sent(proxy: FaultyProxy) -> int:
    return sum(len(each.body) for each in proxy.seen)


@pytest.mark.parametrize("content", [BIG, HUGE], ids=["signed", "in parts"])
@pytest.mark.parametrize("way", ["write", "put"])
def test_a_large_object_goes_to_the_store_and_not_through_the_server(
    lake: Lake, server: FaultyProxy, store: FaultyProxy, way: str, content: bytes
) -> None:
    sink = lake.sink()
    server.forget()
    if way == "put":
        stored = done(sink.put("x", io.BytesIO(content)))
        assert done(sink.list()) == (), "nothing is visible before it is linked"
        done(sink.link((stored,)))
    else:
        stored = done(sink.write("x", io.BytesIO(content)))
    assert bytes_sent(server) < 10_000, "what passes the server are only words"
    assert bytes_sent(store) >= len(content)
    (listed,) = done(sink.list())
    assert (listed.path, listed.size, listed.checksum) == ("x", len(content), stored.checksum)
    server.forget()
    with done(lake.source(lake.committed(sink.name)).get("x")) as stream:
        assert stream.read() == content
    assert "presign=true" in server.seen[-1].target


def test_a_small_object_takes_one_request_all_the_same(lake: Lake, server: FaultyProxy) -> None:
    sink = lake.sink()
    server.forget()
    done(sink.write("x", io.BytesIO(SMALL)))
    ref = lake.committed(sink.name)
    with done(lake.source(ref).get("x")) as stream:
        assert stream.read() == SMALL
    assert len(server.seen) == 3, "the upload, the commit, the read"


def test_equal_bytes_have_equal_checksums_whichever_way_they_came(running: Signing, lake: Lake) -> None:
    """S-12, and the cache: what went to a signed address is no change to what went through the server."""
    sink = lake.sink()
    stored = done(sink.write("signed", io.BytesIO(BIG)))
    Lake(lake.connection, lake.repository).upload("plain", BIG, sink.name)
    assert running.server.url != lake.connection.url
    assert {each.checksum for each in done(sink.list())} == {stored.checksum}
    assert lake.about(sink.name, "signed")["content_type"] == "application/octet-stream"


def test_the_store_does_not_learn_who_we_are(lake: Lake, store: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signed address is all it needs; our keys are the server's business."""
    sent: list[Mapping[str, str]] = []
    request = urllib3.PoolManager.request

    def watched(self: urllib3.PoolManager, method: str, url: str, **given: Any) -> urllib3.BaseHTTPResponse:  # noqa: ANN401
        if url.startswith(store.url):
            sent.append(given["headers"])
        return request(self, method, url, **given)

    monkeypatch.setattr(urllib3.PoolManager, "request", watched)
    sink = lake.sink()
    done(sink.write("x", io.BytesIO(BIG)))
    with done(lake.source(lake.committed(sink.name)).get("x")) as stream:
        stream.read()
    assert len(sent) == 2, "once out, once back"
    assert not any(name.lower() == "authorization" for headers in sent for name in headers)


@pytest.mark.parametrize("content", [BIG, HUGE], ids=["signed", "in parts"])
def test_bytes_the_store_lost_are_sent_again(lake: Lake, store: FaultyProxy, content: bytes) -> None:
    sink = lake.sink()
    store.script = when(lambda request: request.method == "PUT", LOSE_REQUEST, times=1)
    done(sink.write("x", io.BytesIO(content)))
    with done(lake.source(lake.committed(sink.name)).get("x")) as stream:
        assert stream.read() == content


def test_parts_that_cannot_be_sent_are_thrown_away(lake: Lake, store: FaultyProxy) -> None:
    """Parts that nobody completes are paid for until somebody tidies up."""
    sink = lake.sink()
    store.script = when(lambda request: request.method == "PUT", LOSE_REQUEST)
    assert isinstance(sink.write("x", io.BytesIO(HUGE)), Unknown)
    assert [each.status for each in store.seen if each.method == "DELETE"] == [204]
    assert done(sink.list()) == ()


@pytest.mark.parametrize("content", [BIG, HUGE], ids=["signed", "in parts"])
def test_a_name_that_is_gone_takes_no_large_object_either(lake: Lake, content: bytes) -> None:
    sink = lake.sink()
    lake.drop(sink)
    refused(sink.put("x", io.BytesIO(content)))
    refused(sink.write("x", io.BytesIO(content)))
    assert lake.branches() == {"main"}
