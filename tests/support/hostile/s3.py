"""Right answers of an S3, and every call of the store and the coordination on a bucket that asks for them.

What the bucket holds was written by the store itself, into memory. Whatever is written afterwards is answered as S3
does, with the digest of the bytes, and forgotten, so that every call finds the same.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from attrs import evolve

from perago_bucket import BucketCoordination, BucketStore, Connection, immutable, record
from perago_bucket.answers import answer as judged
from perago_bucket.client import Read, bucket
from perago_core.answers import Answer, Done
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.values import Claim, CommitRef, StagedRef, Target
from tests.support.hostile.answers import Right
from tests.support.hostile.campaign import Calls
from tests.support.hostile.lakefs import NAME
from tests.support.hostile.server import Asked

TARGET: Final = Target("lake", "main")
BUCKET: Final = "perago"
#: Statuses that say no more and no less than 200 to whoever gets the digest of what it sent, or what it asked for.
_ALSO: Final = frozenset(range(200, 300))
_DATE: Final = "Tue, 17 Nov 2026 10:00:00 GMT"
_XML: Final = "application/xml"


class _Held:
    """A branch with a file, a staging name with another that is committed, a claim of it; and a key with a value."""

    def __init__(self) -> None:
        written = Connection("memory://hostile")
        store, coordination = BucketStore(written), BucketCoordination(written)
        self.first: CommitRef = _done(store.create(TARGET, {"data.txt": b"x"}))
        _done(store.open_staging(TARGET, NAME, self.first))
        sink = store.sink(TARGET, NAME)
        self.stored = _done(sink.put("more.txt", io.BytesIO(b"y")))
        _done(sink.link((self.stored,)))
        staged: StagedRef = _done(store.commit(TARGET, NAME, "message"))
        self.staged = staged.commit
        self.claim = Claim(TARGET, "wf", "wf/step", "task-1", 1, "x" * 16, self.first)
        _done(store.claim(self.claim))
        _done(coordination.create_if_absent("key", "value"))
        memory = bucket(written)
        found = [each.key for each in memory.list("")]
        self.objects: Mapping[str, bytes] = {key: _held(memory.read(key)) for key in found}


def _held(found: Read | None) -> bytes:
    assert found is not None
    return found.data


@cache
def held() -> _Held:
    """Write it once."""
    return _Held()


def answers(asked: Asked) -> Right:
    """Answer as S3 does. The client reserves what the head of an error announces: petabytes end its process."""
    return evolve(_answer(asked), longest=10**9)


def _answer(asked: Asked) -> Right:
    parts = urlsplit(asked.path)
    key, query = unquote(parts.path).removeprefix(f"/{BUCKET}").removeprefix("/"), parse_qs(parts.query, True)  # noqa: FBT003
    if "list-type" in query:
        return _listing(query.get("prefix", [""])[0])
    if "delete" in query:
        return Right(200, b"<DeleteResult><Deleted><Key>k</Key></Deleted></DeleteResult>", _XML, also=_ALSO)
    if asked.method == "PUT":
        return Right(200, b"", "", headers=(("ETag", _tag(asked.body)),), also=_ALSO, silent=True)
    if asked.method == "DELETE":
        return Right(204, b"", "")
    found = held().objects.get(key)
    if found is None:
        return Right(
            404, f"<Error><Code>NoSuchKey</Code><Message>gone</Message><Key>{key}</Key></Error>".encode(), _XML
        )
    headers = (("ETag", _tag(found)), ("Last-Modified", _DATE))
    return Right(200, found, "", lax=_entries(key, found), headers=headers, also=_ALSO)


def _entries(key: str, data: bytes) -> frozenset[str]:
    """Name the entries of a record's tables: without one of them it is another record, and a right one."""
    if "/branches/" not in key:
        return frozenset()
    document = json.loads(data)
    attempts = (attempt for task in document["claims"].values() for attempt in task)
    return frozenset((*document["names"], *document["claims"], *attempts))


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _listing(prefix: str) -> Right:
    listed = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-11-17T10:00:00.000Z</LastModified>"
        f"<ETag>{_tag(data)}</ETag><Size>{len(data)}</Size></Contents>"
        for key, data in sorted(held().objects.items())
        if key.startswith(prefix)
    )
    told = f"<Name>{BUCKET}</Name><Prefix>{prefix}</Prefix><IsTruncated>false</IsTruncated>"
    return Right(200, f"<ListBucketResult>{told}{listed}</ListBucketResult>".encode(), _XML, also=_ALSO)


def calls(connection: Connection) -> Calls:
    """Every call of both ports that asks the bucket; what a process remembers is forgotten before each."""
    there, store, coordination = held(), BucketStore(connection), BucketCoordination(connection)
    sink: Any = store.sink(TARGET, NAME)
    merge = PublishPlan(PlanKind.MERGE, TARGET, there.first, there.staged, Condition.HEAD, name=NAME)
    made: dict[str, Callable[[], Answer[Any]]] = {
        "head": lambda: store.head(TARGET),
        "look": lambda: store.look("lake", there.first),
        "open staging": lambda: store.open_staging(TARGET, f"{NAME}2", there.first),
        "commit": lambda: _plain(store.commit(TARGET, NAME, "message")),
        "claim": lambda: store.claim(there.claim),
        "claims": lambda: store.claims(TARGET, "wf/step"),
        "read claim": lambda: store.read_claim(there.claim),
        "staging names": lambda: store.staging_names("lake"),
        "barrier": lambda: store.barrier(TARGET),
        "merge": lambda: store.publish(merge),
        "return": lambda: store.publish(evolve(merge, kind=PlanKind.RETURN, commit=there.first, name=None)),
        "drop": lambda: store.drop(TARGET, NAME),
        "put": lambda: _plain(sink.put("data.txt", io.BytesIO(b"x"))),
        "link": lambda: sink.link((there.stored,)),
        "list": sink.list,
        "read": lambda: store.read("lake", there.first).list(),
        "get": lambda: _content(store.read("lake", there.first).get("data.txt")),
        "history": lambda: store.history(TARGET),
        "collect": lambda: store.collect_objects("lake", (), 10.0**9),
        "coordination get": lambda: coordination.get("key"),
        "coordination list": lambda: coordination.list("k"),
        "coordination create": lambda: coordination.create_if_absent("other", "value"),
        "coordination swap": lambda: coordination.swap("key", "value", "next"),
    }
    return {name: _forgetful(call) for name, call in made.items()}


def _forgetful(call: Callable[[], Answer[Any]]) -> Callable[[], Answer[Any]]:
    def asked() -> Answer[Any]:
        immutable._kept = immutable._Kept(immutable._ROOM)  # pyright: ignore[reportPrivateUsage]  what a process remembers
        record._memory = record._Memory()  # pyright: ignore[reportPrivateUsage]  what a process remembers
        return call()

    return asked


def _plain(answer: Answer[Any]) -> Answer[Any]:
    """Leave out of what was stored the names that are new each time."""
    if isinstance(answer, Done):
        return Done(type(answer.value).__name__)
    return answer


def _content(answer: Answer[Any]) -> Answer[Any]:
    """Read a file to its end, as a workspace does: an error on the way is no answer."""
    return judged(answer.value.read) if isinstance(answer, Done) else answer


def _done(answer: Answer[Any]) -> Any:  # noqa: ANN401  whatever it was asked for
    assert isinstance(answer, Done), answer
    return answer.value
