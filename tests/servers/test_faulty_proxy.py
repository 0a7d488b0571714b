"""The proxy does to a request exactly what it was told to, and tells it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.support.servers.faulty_proxy import (
    LOSE_ANSWER,
    LOSE_REQUEST,
    PASS,
    FaultyProxy,
    Gate,
    Handling,
    Request,
    always,
    at_random,
    first_of,
    when,
)
from tests.support.servers.waiting import until

LARGE = bytes(range(256)) * 4096


class Backend(ThreadingHTTPServer):
    """Remembers what reached it, and answers with what was sent; in chunks if asked to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reached: list[tuple[str, str, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        assert isinstance(self.server, Backend)
        self.server.reached.append((self.command, self.path, body))
        if self.path.startswith("/nothing"):
            self.send_response(204)
            self.end_headers()
        elif self.path.startswith("/chunks"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (body[:10], body[10:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = answer  # noqa: N815  named by the standard library

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  named by the standard library
        """Say nothing."""


@pytest.fixture
def backend() -> Generator[Backend]:
    with Backend() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def connected(proxy: FaultyProxy) -> Generator[http.client.HTTPConnection]:
    address = urlsplit(proxy.url).netloc
    with closing(http.client.HTTPConnection(address, timeout=30)) as connection:
        yield connection


def ask(proxy: FaultyProxy, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    with connected(proxy) as connection:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def is_put(request: Request) -> bool:
    return request.method == "PUT"


def test_without_a_script_everything_passes_unchanged_and_is_counted(backend: Backend) -> None:
    with FaultyProxy(backend.url) as proxy, connected(proxy) as connection:
        asked = [
            ("PUT", "/a?x=1", LARGE, LARGE),
            ("PUT", "/chunks", LARGE, LARGE),
            ("HEAD", "/a", b"", b""),
            ("GET", "/nothing", b"", b""),
            ("PUT", "/a?x=2", b"s", b"s"),
        ]
        for method, path, body, expected in asked:
            connection.request(method, path, body)
            answer = connection.getresponse()
            assert answer.read() == expected
            assert answer.status == (204 if path == "/nothing" else 200)
        assert backend.reached == [(method, path, body) for method, path, body, _ in asked]
        assert proxy.counts() == {"PUT /a": 2, "PUT /chunks": 1, "HEAD /a": 1, "GET /nothing": 1}
        assert [request.status for request in proxy.seen] == [200, 200, 200, 204, 200]
        assert proxy.most_in_flight == 1
        proxy.forget()
        assert proxy.counts() == {}


def test_a_request_that_is_sent_again_reaches_the_server_twice_and_is_answered_once(backend: Backend) -> None:
    with FaultyProxy(backend.url, when(is_put, Handling(again=True))) as proxy:
        assert ask(proxy, "PUT", "/a", b"x") == (200, b"x")
        assert ask(proxy, "GET", "/a") == (200, b"")
        assert backend.reached == [("PUT", "/a", b"x"), ("PUT", "/a", b"x"), ("GET", "/a", b"")]
        assert proxy.counts() == {"PUT /a": 1, "GET /a": 1}


def test_a_lost_request_never_reaches_the_server(backend: Backend) -> None:
    with FaultyProxy(backend.url, always(LOSE_REQUEST)) as proxy:
        with pytest.raises(http.client.RemoteDisconnected):
            ask(proxy, "PUT", "/a")
        assert backend.reached == []
        assert [request.status for request in proxy.seen] == [None]


def test_a_lost_answer_is_one_to_a_request_that_was_carried_out(backend: Backend) -> None:
    with FaultyProxy(backend.url, always(LOSE_ANSWER)) as proxy:
        with pytest.raises(http.client.RemoteDisconnected):
            ask(proxy, "PUT", "/a", b"body")
        assert backend.reached == [("PUT", "/a", b"body")]
        assert [request.status for request in proxy.seen] == [200]


def test_only_the_requests_that_match_meet_the_fault_and_only_so_often(backend: Backend) -> None:
    script = first_of(when(is_put, LOSE_REQUEST, times=1), when(is_put, LOSE_ANSWER, times=1))
    with FaultyProxy(backend.url, script) as proxy:
        assert ask(proxy, "GET", "/a") == (200, b"")
        for _ in range(2):
            with pytest.raises(http.client.RemoteDisconnected):
                ask(proxy, "PUT", "/a")
        assert ask(proxy, "PUT", "/a", b"third") == (200, b"third")
        assert [request.handling for request in proxy.seen] == [PASS, LOSE_REQUEST, LOSE_ANSWER, PASS]


def test_a_held_answer_comes_when_it_is_let_go_and_others_pass_meanwhile(backend: Backend) -> None:
    gate = Gate()
    with FaultyProxy(backend.url, when(is_put, Handling(after=gate))) as proxy, ThreadPoolExecutor(1) as pool:
        held = pool.submit(ask, proxy, "PUT", "/a", b"body")
        gate.await_reached()
        assert backend.reached == [("PUT", "/a", b"body")]
        assert ask(proxy, "GET", "/b") == (200, b"")
        assert not held.done()
        gate.open()
        assert held.result(30) == (200, b"body")


def test_a_held_request_lands_late_although_its_sender_has_gone(backend: Backend) -> None:
    """The zombie's request of which everybody believes that it is lost."""
    gate = Gate()
    with FaultyProxy(backend.url, when(is_put, Handling(before=gate))) as proxy:
        with connected(proxy) as connection:
            connection.request("PUT", "/late", b"body")
            gate.await_reached()
        assert ask(proxy, "GET", "/b") == (200, b"")
        assert backend.reached == [("GET", "/b", b"")]
        gate.open()
        until(lambda: proxy.seen[0].status is not None)
        assert backend.reached[-1] == ("PUT", "/late", b"body")


def test_a_held_request_can_be_lost_once_it_is_let_go(backend: Backend) -> None:
    gate = Gate()
    with (
        FaultyProxy(backend.url, always(Handling(before=gate, lose_request=True))) as proxy,
        ThreadPoolExecutor(1) as pool,
    ):
        held = pool.submit(ask, proxy, "PUT", "/a")
        gate.await_reached()
        gate.open()
        assert isinstance(held.exception(30), http.client.RemoteDisconnected)
    assert backend.reached == []


def test_requests_of_several_connections_are_in_flight_together(backend: Backend) -> None:
    gate = Gate()
    with FaultyProxy(backend.url, always(Handling(before=gate))) as proxy, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, proxy, "GET", f"/{each}") for each in range(8)]
        until(lambda: len(proxy.seen) == 8)
        gate.open()
        assert {each.result(30) for each in asked} == {(200, b"")}
        assert proxy.most_in_flight == 8


def test_a_server_that_is_not_there_is_a_connection_that_ends(backend: Backend) -> None:
    nobody = backend.url
    backend.server_close()
    with FaultyProxy(nobody) as proxy, pytest.raises(http.client.RemoteDisconnected):
        ask(proxy, "GET", "/a")


def test_a_proxy_that_ends_lets_go_of_whoever_it_holds(backend: Backend) -> None:
    gate = Gate()
    with ThreadPoolExecutor(1) as pool:
        with FaultyProxy(backend.url, always(Handling(before=gate))) as proxy:
            held = pool.submit(ask, proxy, "PUT", "/a")
            gate.await_reached()
        assert isinstance(held.exception(30), ConnectionError)
    assert backend.reached == []


def test_one_seed_gives_one_sequence_and_both_kinds_of_loss() -> None:
    request = Request(1, "GET", "/", b"")

    def drawn(seed: int, lose_answer: float = 0.3) -> list[Handling]:
        script = at_random(seed, lose_request=0.3, lose_answer=lose_answer, delay=0.01)
        return [script(request) for _ in range(200)]

    assert drawn(7) == drawn(7) != drawn(8)
    assert 30 < sum(handling.lose_request for handling in drawn(7)) < 90
    assert 30 < sum(handling.lose_answer for handling in drawn(7)) < 90
    assert all(0 <= handling.delay <= 0.01 for handling in drawn(7))
    # One fault more or less leaves the others where they were.
    assert [handling.lose_request for handling in drawn(7)] == [
        handling.lose_request for handling in drawn(7, lose_answer=0.0)
    ]
