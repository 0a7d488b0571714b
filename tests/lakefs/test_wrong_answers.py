"""What is not lakeFS's documented answer is never taken for done: redirections, pages, cut and foreign documents.

A proxy, a login page or a store in another region answers in a server's place; the requests and sockets are real.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from perago_core.answers import Done
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.ports import Stored
from perago_lakefs import LakeFSStore, client
from tests.lakefs.test_answers import COMMIT, NAME, TARGET, Server

LINKED = Stored("data.txt", "local://x/data/1", "0" * 32, 1)
CALLS: dict[str, Callable[[LakeFSStore], Any]] = {
    "head": lambda store: store.head(TARGET),
    "look": lambda store: store.look("lake", COMMIT),
    "open_staging": lambda store: store.open_staging(TARGET, NAME, COMMIT),
    "commit": lambda store: store.commit(TARGET, NAME, "message"),
    "staging_names": lambda store: store.staging_names("lake"),
    "drop": lambda store: store.drop(TARGET, NAME),
    "barrier": lambda store: store.barrier(TARGET),
    "reset": lambda store: store.publish(
        PublishPlan(PlanKind.RETURN, TARGET, COMMIT, COMMIT, Condition.NONE, name=NAME)
    ),
    "put": lambda store: store.sink(TARGET, NAME).put("data.txt", io.BytesIO(b"x")),
    "link": lambda store: store.sink(TARGET, NAME).link((LINKED,)),
    "delete": lambda store: store.sink(TARGET, NAME).link((), ("data.txt",)),
    "list": lambda store: store.sink(TARGET, NAME).list(),
    "read": lambda store: store.read("lake", COMMIT).list(),
}
BODIES = {
    "a page": ("text/html", b"<html><body>Sign in</body></html>"),
    "health": ("application/json", b'{"status": "UP"}'),
    "a list": ("application/json", b"[]"),
    "null": ("application/json", b"null"),
    "cut": ("application/json", b'{"results": [{"id": "a'),
    "nothing": ("application/json", b""),
    "a number": ("application/json", b"7"),
    "nested": ("application/json", b'{"results": {"results": []}, "pagination": []}'),
    "no type": ("", b"fine"),
}
STATUSES = (200, 201, 202, 203, 302, 304, 307)


def never_documented() -> Iterator[tuple[str, int, str, bytes]]:
    for (name, (kind, body)), status in product(BODIES.items(), STATUSES):
        yield f"{status} {name}", status, kind, body


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_that_is_not_documented_is_never_done(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counterexample, seen: dropping a name was done by a login page with 200, and a link by a redirection."""
    monkeypatch.setattr(client, "_PAUSES", ())  # a read is asked again; here only what comes of it counts
    believed: list[str] = []
    server = Server(200)
    with server.running() as store:
        for name, server.status, server.kind, server.body in never_documented():
            if isinstance(CALLS[call](store), Done):
                believed.append(name)
    assert believed == []


def test_a_listing_whose_pages_do_not_go_on_ends() -> None:
    """Counterexample, seen: ``has_more`` with the same offset for ever was 112 requests in five seconds."""
    page: dict[str, Any] = {
        "results": [],
        "pagination": {"has_more": True, "next_offset": "", "results": 0, "max_per_page": 1},
    }
    server = Server(200, json.dumps(page).encode())
    with server.running() as store:
        answers = (store.read("lake", COMMIT).list(), store.staging_names("lake"))
    assert not any(isinstance(each, Done) for each in answers)
    assert len(server.asked) == 2
