"""What each answer of lakeFS, and each silence, means; the statuses are made up, the requests and sockets are real."""

from __future__ import annotations

import http.server
import json
import pickle
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from perago_core.answers import Done, NotDone, Unknown
from perago_core.names import staging_name
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.ports import Stored
from perago_core.values import CommitRef, Target
from perago_lakefs import Connection, LakeFSStore
from perago_lakefs.hook import found_by

TARGET = Target("lake", "main")
NAME = staging_name(TARGET, "wf/step", 1, 0, "task-1", "x" * 16)
COMMIT = CommitRef("a" * 64)
SECRET = "never to be seen"  # noqa: S105  it is none


class Server:
    """Answers every request with one status and body, and counts them; so many seconds pass after each byte."""

    def __init__(self, status: int, body: bytes = b"", pause: float = 0.0, *, kind: str = "application/json") -> None:
        self.asked: list[str] = []
        self.status, self.body, self.kind = status, body, kind
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                server.asked.append(f"{self.command} {self.path}")
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if server.status == 0:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(server.status)
                self.send_header("Content-Type", server.kind)
                self.send_header("Content-Length", str(len(server.body)))
                self.send_header("Retry-After", "3600")  # whoever obeys does not come back
                self.end_headers()
                for piece in (bytes([each]) for each in server.body) if pause else (server.body,):
                    self.wfile.write(piece)
                    time.sleep(pause)

            do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815  names of the base class

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Generator[LakeFSStore]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield LakeFSStore(Connection(self.url, "key", SECRET, timeout=5.0))
        finally:
            self._server.shutdown()
            self._server.server_close()


def told(message: str) -> bytes:
    return json.dumps({"message": message}).encode()


CHANGES = {
    "400": (400, told("invalid value"), NotDone),
    "401": (401, told("error authenticating request"), NotDone),
    "403": (403, told("insufficient permissions"), NotDone),
    "404": (404, told("not found"), NotDone),
    "409 without a body": (409, b"", NotDone),
    "410": (410, told("repository in deletion"), NotDone),
    "412": (412, told("pre-merge hook aborted"), NotDone),
    "423": (423, told("too many attempts"), NotDone),
    "429": (429, told("too many attempts"), NotDone),
    "501": (501, told("not implemented"), NotDone),
    "500 predicate": (500, told("update branch: predicate failed"), NotDone),
    "408": (408, told("time-out"), Unknown),
    "499": (499, b"", Unknown),
    "500": (500, told("something else"), Unknown),
    "302 of a gateway": (302, b"", Unknown),
    "502 of a gateway": (502, b"<html>", Unknown),
    "502 that is not UTF-8": (502, "indisponible é".encode("latin-1"), Unknown),
    "503": (503, told("slow down"), Unknown),
    "a broken answer": (201, b"{", Unknown),
    "a dropped connection": (0, b"", Unknown),
}


@pytest.mark.parametrize(("status", "body", "kind"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_sent_once_and_its_answer_is_one_of_three(status: int, body: bytes, kind: type) -> None:
    """S-19, T-P7: whatever comes back, and if nothing does."""
    server = Server(status, body)
    with server.running() as store:
        answer = store.commit(TARGET, NAME, "message")
    assert not isinstance(answer, Done)
    assert type(answer) is kind, answer
    assert len(server.asked) == 1
    assert "\n" not in answer.reason
    assert SECRET not in repr(answer)


def test_a_link_that_a_gateway_redirects_is_not_taken_for_done() -> None:
    server = Server(302)
    with server.running() as store:
        answer = store.sink(TARGET, NAME).link((Stored("data.txt", "local://x/data/1", "0" * 32, 1),))
    assert isinstance(answer, Unknown), answer
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [0, 503])
def test_a_read_is_asked_again_a_few_times(status: int) -> None:
    server = Server(status)
    with server.running() as store:
        answer = store.look("lake", COMMIT)
    assert isinstance(answer, Unknown)
    assert len(server.asked) == 4


def test_a_server_that_cannot_be_reached_did_nothing() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        answer = LakeFSStore(Connection(url, "key", SECRET)).open_staging(TARGET, NAME, COMMIT)
    assert isinstance(answer, NotDone)


def test_a_server_that_never_answers_is_given_up_and_that_says_nothing() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        connection = Connection(f"http://127.0.0.1:{silent.getsockname()[1]}", "key", SECRET, timeout=0.2)
        assert isinstance(LakeFSStore(connection).open_staging(TARGET, NAME, COMMIT), Unknown)


@pytest.mark.parametrize(
    ("name", "at"),
    [("a/b", COMMIT), ("-a", COMMIT), ("a.b", COMMIT), ("", COMMIT), ("a" * 221, COMMIT), (NAME, "main"), (NAME, "")],
)
def test_what_is_no_name_or_no_commit_is_refused_before_anything_is_sent(name: str, at: str) -> None:
    """P-41: a branch name in the place of a commit would mean whatever it is at by then."""
    server = Server(201)
    with server.running() as store:
        assert isinstance(store.open_staging(TARGET, name, CommitRef(at)), NotDone)
    assert server.asked == []


def test_a_target_is_neither_committed_to_nor_dropped() -> None:
    """S-11."""
    server = Server(204)
    with server.running() as store:
        assert isinstance(store.drop(TARGET, "main"), NotDone)
        assert isinstance(store.commit(TARGET, "main", "sneaky"), NotDone)
    assert server.asked == []


def test_a_connection_travels_and_keeps_its_secret() -> None:
    connection = Connection("http://127.0.0.1:1/api/v1/", "key", SECRET)
    assert connection.api == "http://127.0.0.1:1/api/v1"
    assert SECRET not in repr(connection)
    assert SECRET not in repr(connection.session())
    assert pickle.loads(pickle.dumps(connection)) == connection  # noqa: S301  our own pickle
    assert connection.session() is connection.session()


def test_only_our_hook_is_taken_for_our_hook() -> None:
    assert found_by("PERAGO-FENCE the head is <abc1>") == ("head", "abc1")
    assert found_by("another hook said that the head is <abc1>") is None


def test_a_check_that_is_answered_too_late_lets_nothing_be_sent() -> None:
    """S-24b: each byte comes in time, and the last one does not: all of them have one time together."""
    server = Server(200, json.dumps({"id": NAME, "commit_id": COMMIT}).encode(), pause=0.01)
    plan = PublishPlan(
        PlanKind.REPLACE, TARGET, CommitRef("b" * 64), COMMIT, Condition.HEAD, name=NAME, tree="tree", token=7
    )
    with server.running():
        answer = LakeFSStore(Connection(server.url, "key", SECRET, publish_timeout=0.5)).publish(plan)
    assert isinstance(answer, NotDone)
    assert "Nothing was moved: try again" in answer.reason
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"", b"404 page not found\n", b"<html>", b'"gone"', b'{"error": "no such route"}'])
def test_a_gateway_that_finds_no_lakefs_does_not_say_that_something_is_missing(body: bytes) -> None:
    """Counterexample: a name counts as revoked, and stands."""
    server = Server(404, body)
    with server.running() as store:
        assert isinstance(store.look("lake", COMMIT), NotDone)
        assert isinstance(store.head(TARGET), NotDone)
        assert isinstance(store.drop(TARGET, NAME), NotDone)


def test_a_lookup_of_nothing_is_an_answer() -> None:
    server = Server(404, told("not found"))
    with server.running() as store:
        assert store.look("lake", COMMIT) == Done(None)
        assert store.head(TARGET) == Done(None)
        assert store.drop(TARGET, NAME) == Done(None, 2)
