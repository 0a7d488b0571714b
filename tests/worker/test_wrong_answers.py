"""Servers that answer wrongly, without any server of the real kind: a poll of Conductor, etcd's gateway."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_core.answers import Done, Unknown
from perago_etcd.coordination import EtcdCoordination
from tests.support.hostile.conductor import TASK

#: What one task of a poll may look like when something else wrote it.
MALFORMED: dict[str, Any] = {
    "an unknown status": TASK | {"status": "PONDERING"},
    "no start time": {name: value for name, value in TASK.items() if name != "startTime"},
    "no retry count": TASK | {"retryCount": None},
    "a start time in words": TASK | {"startTime": "yesterday"},
    "no workflow": TASK | {"workflowInstanceId": None},
    "null": None,
    "a list": [],
    "a number": 7,
}


@contextmanager
def answering(body: bytes) -> Generator[str]:
    """Answer every request with status 200 and this JSON."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815  names of the base class

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("wrong", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_task_that_cannot_be_read_costs_that_task_and_not_those_that_came_with_it(
    wrong: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Counterexample, seen: one such task ended the worker's loop, and nobody ran the good ones of its batch."""
    with (
        answering(json.dumps([wrong, TASK]).encode()) as url,
        closing(ConductorOrchestrator(url, poll_wait=0.0)) as orchestrator,
    ):
        polled = orchestrator.poll("w", ("write",), 2)
    assert isinstance(polled, Done), polled
    assert {each.snapshot.workflow_id for each in polled.value} == {"wf-1"}
    assert "cannot be read and is left to time out" in caplog.text


ETCD: dict[str, Callable[[EtcdCoordination], Any]] = {
    "get": lambda port: port.get("key"),
    "list": lambda port: port.list("prefix/"),
    "create": lambda port: port.create_if_absent("key", "value"),
    "swap": lambda port: port.swap("key", None, "value"),
    "grant": lambda port: port.grant(10.0),
    "keep alive": lambda port: port.keep_alive("7"),
    "revoke": lambda port: port.revoke("7"),
    "caution": lambda port: port.caution(),
}


@pytest.mark.parametrize("body", [b"{}", b'{"status": "UP"}', b"[]", b"null", b"7", b'{"header": 7}', b"<html>", b""])
@pytest.mark.parametrize("call", ETCD)
def test_what_is_not_etcds_own_answer_is_unknown(call: str, body: bytes) -> None:
    """Counterexample, seen: a gateway's health page said "no such key", "no open intents" and "the lease is gone"."""
    with answering(body) as url, closing(EtcdCoordination((url,))) as port:
        answer = ETCD[call](port)
    assert isinstance(answer, Unknown), answer
