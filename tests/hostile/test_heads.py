"""The head of an answer: whatever we read in one go, the standard library understands the same way."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perago_http import pool
from perago_http.head import plain

BODY = b"body"
#: Heads that say little or much of where the body ends, mostly well written.
VALUES = {
    "Content-Length": ("0", "3", "007", "-1", "+3", "3, 3", "9" * 20, ""),
    "Transfer-Encoding": ("chunked", "CHUNKED", "gzip, chunked", ""),
    "Connection": ("close", "keep-alive", "Keep-Alive, Close"),
    "Content-Type": ("text/html", "multipart/mixed; boundary=x", "Message/RFC822"),
    "X-A": ("", "a b", "\u00e4", "\x0b", "\x85b", "a\x00"),
}
LINES = st.one_of(
    *(
        st.tuples(st.sampled_from((name, name.lower())), st.sampled_from(values)).map(": ".join)
        for name, values in VALUES.items()
    ),
    st.text("aZ-_ \t:()\r\n", max_size=6),
)
STATUS = st.sampled_from(
    [
        *["HTTP/1.1 200 OK"] * 10,
        *("HTTP/1.1 204 No Content", "HTTP/1.1 204", "HTTP/1.1 304 Not Modified", "HTTP/1.0 200 OK"),
        *("HTTP/1.1 100 Continue", "HTTP/1.1 404 ", "HTTP/1.1  200 OK", "HTTP/2 200", "ICY 200"),
    ]
)


#: As lakeFS and Conductor send them.
LAKEFS = (
    "HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nCache-Control: no-store, must-revalidate\r\nContent-Length: 4\r\n"
    'Content-Type: application/octet-stream\r\nEtag: "08d2e98e6754af941484848930ccbaddfefe13d6"\r\n\r\n'
)
CONDUCTOR = (
    "HTTP/1.1 200 \r\nVary: Origin\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    "Date: Wed, 18 Nov 2026 20:00:00 GMT\r\nKeep-Alive: timeout=60\r\nConnection: keep-alive\r\n\r\n"
)
OURS: Any = pool.Server.ConnectionCls.response_class


def answer(kind: Callable[..., Any], arrived: bytes) -> Iterator[Any]:
    """Give an answer of which these bytes have arrived, and the connection is still open."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(arrived)
        yield kind(here, method="GET")


def understood(kind: Callable[..., Any], arrived: bytes) -> tuple[object, ...]:
    """Give all that is asked of the head of an answer, and what is behind it."""
    for each in answer(kind, arrived):
        each.begin()
        found = (each.version, each.status, each.code, each.reason, each.length, each.chunked, each.will_close)
        headers = each.headers
        body = each.fp.read(len(BODY)) if each.fp is not None and each.length != 0 else b""
        return (*found, headers.items(), headers.defects, headers.get("content-type"), body)
    raise AssertionError


@settings(max_examples=1500)
@given(STATUS, st.lists(LINES, max_size=4))
def test_what_is_read_in_one_go_is_what_the_standard_library_reads(status: str, lines: list[str]) -> None:
    arrived = "\r\n".join((status, *lines, "", "")).encode("iso-8859-1") + BODY
    if plain(arrived) is not None:
        assert understood(OURS, arrived) == understood(HTTPResponse, arrived)


@pytest.mark.parametrize("head", [LAKEFS, CONDUCTOR, "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n"])
def test_what_our_servers_send_is_read_in_one_go(head: str) -> None:
    arrived = head.encode() + BODY
    assert plain(arrived) is not None
    assert understood(OURS, arrived) == understood(HTTPResponse, arrived)
    assert all(plain(arrived[:cut]) is None for cut in range(len(head))), "and nothing that is not here whole"


@pytest.mark.parametrize(
    "line",
    [
        *("Content-Length: 5", "Content-Length: -1", "Transfer-Encoding: gzip", "Connection: close", "A: b\r\n c"),
        *("A : b", "no colon", "A: \u00e4", "A: b\rC: d", "Content-Type: multipart/mixed"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_ours(line: str) -> None:
    assert plain(LAKEFS.replace("Accept-Ranges: bytes", line).encode("iso-8859-1")) is None
