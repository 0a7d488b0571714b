"""Whom a worker tells what happens: a small server that keeps every body it is sent, or never answers."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from attrs import define, field


@define
class Collector:
    """What was posted, by path, and with which headers. ``asked``: something has come."""

    url: str
    bodies: dict[str, list[bytes]] = field(factory=dict[str, list[bytes]])
    headers: list[dict[str, str]] = field(factory=list[dict[str, str]])
    asked: threading.Event = field(factory=threading.Event)


@contextmanager
def collector(*, silent: bool = False, moved_to: str = "") -> Generator[Collector]:
    """Listen on a free port of this machine; ``silent``: take everything and answer nothing until the end.

    ``moved_to``: send whoever asks to another address.
    """
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.headers.append({name.lower(): value for name, value in self.headers.items()})
            found.bodies.setdefault(self.path, []).append(body)
            found.asked.set()
            if silent:
                over.wait()
                self.close_connection = True
                return
            self.send_response(307 if moved_to else 200)
            if moved_to:
                self.send_header("Location", moved_to)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the library calls it
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
