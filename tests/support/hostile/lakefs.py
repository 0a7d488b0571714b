"""Right answers of lakeFS, and every call that asks for them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from perago_core.names import staging_name
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.ports import Stored
from perago_core.values import Claim, CommitRef, Target
from perago_lakefs import LakeFSStore
from perago_lakefs.hook import TEXTS
from tests.support.hostile.answers import Right
from tests.support.hostile.campaign import Calls
from tests.support.hostile.server import Asked

TARGET: Final = Target("lake", "main")
NAME: Final = staging_name(TARGET, "wf/step", 1, 0, "task-1", "x" * 16)
COMMIT: Final = CommitRef("a" * 64)
LINKED: Final = Stored("data.txt", "local://x/data/1", "0" * 32, 1)
CLAIM: Final = Claim(TARGET, "wf", "wf/step", "task-1", 1, "x" * 16, COMMIT)

_COMMIT: Final[Mapping[str, Any]] = {
    "id": COMMIT,
    "parents": [],
    "committer": "perago",
    "message": "m",
    "creation_date": 1_700_000_000,
    "meta_range_id": "t" * 64,
    "metadata": {},
}
_OBJECT: Final = {
    "path": "data.txt",
    "path_type": "object",
    "physical_address": "local://x/data/1",
    "checksum": min(TEXTS),
    "size_bytes": 1,
    "mtime": 1_700_000_000,
    "content_type": "application/octet-stream",
}
#: What lakeFS may leave out.
LAX: Final = frozenset({"metadata", "generation", "version", "content_type", "size_bytes"})


def _page(*results: object) -> Mapping[str, Any]:
    turn = {"has_more": False, "next_offset": "", "results": len(results), "max_per_page": 1000}
    return {"pagination": turn, "results": list(results)}


#: Method, path below the repository, status, document. The first that fits.
_ROUTES: Final[tuple[tuple[str, str, int, Any], ...]] = (
    ("GET", "/branches/[^/]+/diff", 200, _page()),
    ("GET", "/refs/[^/]+/commits", 200, _page(_COMMIT)),
    ("GET", "/commits/.*", 200, _COMMIT),
    ("POST", "/branches/[^/]+/commits", 201, _COMMIT),
    ("GET", "/branches", 200, _page({"id": NAME, "commit_id": COMMIT})),
    ("GET", "/branches/[^/]+", 200, {"id": NAME, "commit_id": COMMIT}),
    ("GET", "/tags", 200, _page()),
    ("GET", "/tags/.*", 200, {"id": "tag", "commit_id": COMMIT}),
    ("POST", "/tags", 201, {"id": "tag", "commit_id": COMMIT}),
    ("POST", "/refs/[^/]+/merge/.*", 200, {"reference": COMMIT}),
    ("GET", "/refs/[^/]+/objects/stat", 200, _OBJECT),
    ("GET", "/refs/[^/]+/objects/ls", 200, _page(_OBJECT)),
    ("POST", "/branches/[^/]+/objects", 201, _OBJECT),
    ("PUT", "/branches/[^/]+/objects", 201, _OBJECT),
    ("POST", "/branches/[^/]+/objects/delete", 200, {"errors": []}),
)


def answers(asked: Asked) -> Right:
    """Answer as lakeFS does."""
    path = urlsplit(asked.path).path.removeprefix("/api/v1/repositories/lake")
    if "/merge/" in path and json.loads(asked.body)["message"] == "Barrier":
        return Right(400, b'{"message": "commit: no changes"}')
    if asked.method == "POST" and path == "/branches":
        return Right(201, COMMIT.encode(), "")  # it says text/html, and means nothing by it
    for method, route, status, document in _ROUTES:
        if asked.method == method and re.fullmatch(route, path):
            return Right(status, json.dumps(document).encode(), lax=LAX)
    return Right(204, b"", "")  # a deletion, a reset, a commit's record


def _plan(kind: PlanKind, condition: Condition) -> PublishPlan:
    return PublishPlan(kind, TARGET, COMMIT, COMMIT, condition, name=NAME)


def calls(store: LakeFSStore) -> Calls:
    """Every call of the port."""
    sink: Any = store.sink(TARGET, NAME)
    return {
        "head": lambda: store.head(TARGET),
        "look": lambda: store.look("lake", COMMIT),
        "open staging": lambda: store.open_staging(TARGET, NAME, COMMIT),
        "commit": lambda: store.commit(TARGET, NAME, "message"),
        "claim": lambda: store.claim(CLAIM),
        "claims": lambda: store.claims(TARGET, "wf/step"),
        "staging names": lambda: store.staging_names("lake"),
        "barrier": lambda: store.barrier(TARGET),
        "merge": lambda: store.publish(_plan(PlanKind.MERGE, Condition.HEAD)),
        "return": lambda: store.publish(_plan(PlanKind.RETURN, Condition.NONE)),
        "drop": lambda: store.drop(TARGET, NAME),
        "put": lambda: sink.put("data.txt", io.BytesIO(b"x")),
        "write": lambda: sink.write("data.txt", io.BytesIO(b"x")),
        "link": lambda: sink.link((LINKED,)),
        "delete": lambda: sink.link((), ("data.txt",)),
        "list": sink.list,
        "read": lambda: store.read("lake", COMMIT).list(),
        "history": lambda: store.history(TARGET),
        "remove claims": lambda: store.remove_claims(TARGET, "wf/step"),
    }
