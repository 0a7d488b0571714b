"""The HTTP server of the page: loopback only, a thread for each request, nothing cached, nothing from elsewhere.

    GET  /TOKEN/                 the page; ``page.css`` and ``page.js`` beside it
    GET  /TOKEN/api/NAME?...     data as JSON: 200; 404 there is no such thing; 503 nobody can say now, ``unknown``
    GET  /TOKEN/timeline?run=    the timeline of a run, a page of its own with its own policy
    POST /TOKEN/api/NAME?...     an action: 200 done; 409 refused; 503 it may or may not have been done, ``unknown``

Texts of others reach the page as JSON only, and there as text only (``page.js`` makes no markup of strings); the
security policy would not run it otherwise.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from attrs import frozen

from perago_core.contract import is_list, is_object
from perago_core.errors import one_line
from perago_core.pipelines import OrchestratorError
from perago_worker.api.errors import UserError, said
from perago_worker.cli.console import CommandError, UnansweredError
from perago_worker.logger import log
from perago_worker.printable import printable
from perago_worker.ui.door import LOOPBACK, Door
from perago_worker.ui.endpoints import Data, Endpoints, Query

_JSON, _HTML, _TEXT = "application/json", "text/html; charset=utf-8", "text/plain; charset=utf-8"
_FILES = {
    "": ("page.html", _HTML),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "page.svg": ("page.svg", "image/svg+xml"),
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: A timeline brings its own policy, by hashes of what is inside it; it may be framed by our page and by no other.
_TIMELINE_POLICY = "frame-ancestors 'self'"
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
#: Seconds a connection may stay silent.
_PATIENCE = 60


@frozen
class Reply:
    """One answer."""

    status: HTTPStatus
    body: bytes
    kind: str = _TEXT
    policy: str = _POLICY


class PageServer(ThreadingHTTPServer):
    """Serves one project on loopback until it is shut down. ``port`` 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, endpoints: Endpoints, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.endpoints = endpoints
        self.door = Door(self.server_address[1])

    def server_bind(self) -> None:
        """Listen."""
        # The library asks a name server for our name first, which may take long, and which nobody needs.
        TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  as the library calls it
        """Say what went wrong while an answer was written, unless it is that a browser has gone away."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            log.warning("a request was not answered: %s", said(error) if isinstance(error, Exception) else error)

    def answer(self, method: str, target: str, host: str | None, origin: str | None) -> Reply:
        """Answer one request."""
        address = urlsplit(target)
        token, _, path = address.path.removeprefix("/").partition("/")
        refusal = self.door.refusal(host, origin, unquote(token))
        if refusal is not None:
            return Reply(HTTPStatus.FORBIDDEN, f"{refusal}\n".encode())
        query = dict(parse_qsl(address.query))
        if method == "POST":
            return self._act(path, query)
        if path in _FILES:
            name, kind = _FILES[path]
            return Reply(HTTPStatus.OK, _file(name), kind)
        if path == "timeline":
            return _told(lambda: _page(self.endpoints.timeline(query)), HTTPStatus.NOT_FOUND)
        look = self.endpoints.looks.get(path.removeprefix("api/")) if path.startswith("api/") else None
        if look is None:
            return Reply(HTTPStatus.NOT_FOUND, b"there is no such page; open the address that `perago ui` printed\n")
        return _told(lambda: _data(HTTPStatus.OK, look(query)), HTTPStatus.NOT_FOUND)

    def _act(self, path: str, query: Query) -> Reply:
        act = self.endpoints.acts.get(path.removeprefix("api/")) if path.startswith("api/") else None
        if act is None:
            advice = "this page is read only: `perago ui --actions` lets it cancel and retry runs, and nothing else"
            return _data(HTTPStatus.METHOD_NOT_ALLOWED, {"error": advice})
        return _told(lambda: _data(HTTPStatus.OK, act(query)), HTTPStatus.CONFLICT)


class _Handler(BaseHTTPRequestHandler):
    """Reads a request and writes the answer."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "perago", ""
    timeout = _PATIENCE

    def do_GET(self) -> None:
        """Show something."""
        self._answer("GET")

    def do_POST(self) -> None:
        """Do something."""
        self._answer("POST")

    def _answer(self, method: str) -> None:
        # What is asked is in the address. A body is not read, so nothing may follow it on this connection.
        self.close_connection = self.close_connection or method == "POST"
        assert isinstance(self.server, PageServer)
        self._write(self.server.answer(method, self.path, self.headers.get("Host"), self.headers.get("Origin")))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002  as above
        """Refuse what is no request, or of another kind, without repeating any of it."""
        self.close_connection = True
        self._write(Reply(HTTPStatus(code), b"expected GET or POST of an address that `perago ui` printed\n"))

    def _write(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {**_HEADERS, "Content-Security-Policy": reply.policy, "Content-Type": reply.kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as above
        """Say nothing: the address of a request has the token in it."""


def _told(make: Callable[[], Reply], refused: HTTPStatus) -> Reply:
    """Make an answer; what was refused and what nobody knows are answers as well, and never look alike."""
    try:
        return make()
    except UnansweredError as unknown:
        return _data(HTTPStatus.SERVICE_UNAVAILABLE, {"unknown": str(unknown)})
    except CommandError as refusal:
        return _data(refused, {"error": str(refusal)})
    except (UserError, OrchestratorError) as unknown:
        return _data(HTTPStatus.SERVICE_UNAVAILABLE, {"unknown": str(unknown)})
    except Exception as error:  # noqa: BLE001  whatever it is, it is no answer
        log.debug("an answer of the page failed", exc_info=True)
        return _data(HTTPStatus.SERVICE_UNAVAILABLE, {"unknown": one_line(said(error))})


def _data(status: HTTPStatus, data: Data) -> Reply:
    return Reply(status, json.dumps(_shown(data)).encode(), _JSON)


def _page(text: str) -> Reply:
    return Reply(HTTPStatus.OK, text.encode(), _HTML, _TIMELINE_POLICY)


def _shown(data: Any) -> Any:  # noqa: ANN401  any JSON
    """Make every text one that steers nothing: what turns the direction of writing is shown instead."""
    if isinstance(data, str):
        return printable(data)
    if is_object(data):
        return {printable(key): _shown(value) for key, value in data.items()}
    return [_shown(each) for each in data] if is_list(data) else data


@cache
def _file(name: str) -> bytes:
    return files("perago_worker.ui").joinpath(name).read_bytes()
