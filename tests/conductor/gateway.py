"""A guarded door in front of a real Conductor: TLS, a key and a secret for a token, and tokens that end."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from attrs import define, field

from tests.etcd.server import Certificates

KEY, SECRET = "the-key", "the-secret"


@define
class Gateway:
    """What the door knows: which tokens are good, what was asked for and answered."""

    url: str = ""
    tokens: set[str] = field(factory=set[str])
    asked: list[str] = field(factory=list[str])

    def forget_tokens(self) -> None:
        """Let all tokens end."""
        self.tokens.clear()


@contextmanager
def guarded(upstream: str, certificates: Certificates) -> Generator[Gateway]:
    """Put a door in front of a server."""
    gateway = Gateway()
    client = httpx.Client(base_url=upstream, timeout=60.0, trust_env=False)

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/api/token":
                said = json.loads(body)
                if (said["keyId"], said["keySecret"]) != (KEY, SECRET):
                    return self._answer(401, {"error": "INVALID_CREDENTIALS"})
                gateway.tokens.add(token := secrets.token_hex(16))
                return self._answer(200, {"token": token})
            return self._pass_on("POST", body)

        def do_GET(self) -> None:
            self._pass_on("GET", b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class names it
            gateway.asked.append(format % args)

        def _pass_on(self, method: str, body: bytes) -> None:
            if self.headers.get("X-Authorization") not in gateway.tokens:
                return self._answer(401, {"error": "EXPIRED_TOKEN", "message": "Token is expired"})
            kind = {"Content-Type": self.headers.get("Content-Type", "application/json")}
            answer = client.request(method, self.path, content=body, headers=kind)
            return self._send(answer.status_code, answer.content, answer.headers.get("Content-Type", "text/plain"))

        def _answer(self, status: int, document: object) -> None:
            self._send(status, json.dumps(document).encode(), "application/json")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.cert, certificates.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    gateway.url = f"https://127.0.0.1:{server.server_port}/api"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield gateway
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        client.close()
