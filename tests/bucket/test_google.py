"""Google's conditions are generations, in fields of its own. What of it is tried here, and what its emulator cannot.

The emulator has no writes by the interface that the client speaks (its own is another one, `uploadType` and all), with
or without a condition. So on it nothing is proved, and no worker starts; on Google the first worker's probe decides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from typing import cast

import pytest

from perago_bucket import BucketStore, Connection
from perago_bucket.client import bucket
from perago_core.answers import Unknown
from tests.support.servers.buckets import BUCKET
from tests.support.servers.sharing import shared_fake_gcs

FIRST, SECOND = "1700000000000001", "1700000000000002"


class Recorder(ThreadingHTTPServer):
    """Answers as Google does, and writes down the condition of each write."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.conditions: list[str | None] = []


class Answering(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        conditions = cast("Recorder", self.server).conditions
        self.rfile.read(int(self.headers["Content-Length"]))
        conditions.append(self.headers["x-goog-if-generation-match"])
        self._answer(FIRST if len(conditions) == 1 else SECOND, b"")

    def do_GET(self) -> None:
        self._answer(FIRST, b"record")

    def _answer(self, generation: str, body: bytes) -> None:
        self.send_response(200)
        fields = {"ETag": '"same bytes, same tag"', "x-goog-generation": generation, "Content-Length": str(len(body))}
        for name, value in {**fields, "Last-Modified": "Tue, 17 Nov 2026 10:00:00 GMT"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name for it
        """Say nothing."""


@pytest.fixture
def google() -> Iterator[Recorder]:
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def connection(url: str) -> Connection:
    return Connection(f"gs://{BUCKET}/{token_hex(8)}", (("base_url", url), ("bearer_token", "anybody")))


def test_a_swap_is_by_the_generation_that_was_read_and_not_by_an_entity_tag(google: Recorder) -> None:
    """A tag there may be a digest too; a generation never comes back."""
    client = bucket(connection(f"http://127.0.0.1:{google.server_address[1]}"))
    assert client.create("record", b"record") == FIRST
    read = client.read("record")
    assert read is not None
    assert read.tag == FIRST
    assert client.swap("record", read.tag, b"another") == SECOND
    assert google.conditions == ["0", FIRST]


@pytest.mark.servers
def test_its_emulator_has_no_writes_by_this_interface_so_that_nothing_is_proved() -> None:
    answer = BucketStore(connection(shared_fake_gcs().url)).probe()
    assert isinstance(answer, Unknown), answer
    assert "invalid uploadType" in answer.reason
