"""What may stand before a real Conductor: it passes requests on, unless it has a word of its own to say."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

import httpx
from attrs import frozen

from tests.support.etcd.server import Certificates


@frozen
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@frozen
class Word:
    """An answer."""

    status: int
    body: str = ""
    kind: str = "application/json"


#: What it says itself to a request; ``None``: it is passed on.
Says: TypeAlias = Callable[[Asked], Word | None]


@contextmanager
def fronted(upstream: str, says: Says, certificates: Certificates | None = None) -> Generator[str]:
    """Put it before a server and give its address; with certificates it speaks TLS."""
    client = httpx.Client(base_url=upstream, timeout=60.0, trust_env=False)

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(self.command, self.path, dict(self.headers.items()), body)
            self._send(says(asked) or self._passed_on(asked))

        do_POST = do_PUT = do_GET  # noqa: N815  as the base class looks for them

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class names it
            """Keep quiet."""

        def _passed_on(self, asked: Asked) -> Word:
            kind = {"Content-Type": asked.headers.get("Content-Type", "application/json")}
            answer = client.request(asked.method, asked.path, content=asked.body, headers=kind)
            return Word(answer.status_code, answer.text, answer.headers.get("Content-Type", "text/plain"))

        def _send(self, word: Word) -> None:
            body = word.body.encode()
            self.send_response(word.status)
            self.send_header("Content-Type", word.kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.cert, certificates.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificates is None else 'https'}://127.0.0.1:{server.server_port}/api"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        client.close()
