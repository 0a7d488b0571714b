"""The coordination port on etcd: each call is one request, each condition is checked by etcd in one transaction.

The JSON gateway leaves out every field that is false, zero or empty, writes 64-bit numbers as text, and takes keys and
values in base64. So ``succeeded`` missing means *no*, and a keep-alive that answers without ``TTL`` says that the lease
is gone, with status 200.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.ports import Cautioned, Entry
from perago_etcd import documents
from perago_etcd.cluster import Cluster
from perago_etcd.documents import Pair
from perago_etcd.gateway import Gateway, Json
from perago_http import reading

T = TypeVar("T")

PREFIX = "perago/"
#: Entries in one answer: a record has under a kilobyte, and etcd limits a message to some megabytes.
PAGE = 500
_FORGETFUL = ("3.5.0", "3.5.1", "3.5.2")
_BLANK = NotDone("expected a key with something in it, found a blank one", operations=0)


class EtcdCoordination(Cautioned):
    """A coordination store that workers on several machines share. All its keys begin with ``prefix``."""

    def __init__(
        self,
        endpoints: tuple[str, ...],
        *,
        user: str = "",
        password: str = "",
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        timeout: float = 5.0,
        prefix: str = PREFIX,
        insecure: bool = False,
    ) -> None:
        if not prefix.strip():
            message = "expected a prefix for our keys, found none: two users of one etcd would meet; give one"
            raise ValueError(message)
        self._prefix = prefix
        self._gateway = Gateway(Cluster(endpoints, user, password, ca, cert, key, timeout, insecure))

    def close(self) -> None:
        """Close the connections."""
        self._gateway.close()

    def caution(self) -> Answer[str]:
        """Return a known defect of this version of etcd, for the doctor; blank: none.

        3.5.0 to 3.5.2 write down that a change was applied before it is. Killed between the two, they have forgotten
        it after their restart, although it was answered (etcd-io/etcd issue 13766).
        """
        answer = _read(self._gateway.read("maintenance/status", {}), lambda found: documents.text(found, "version"))
        if not isinstance(answer, Done):
            return answer
        if answer.value not in _FORGETFUL:
            return Done("")
        return Done(f"etcd {answer.value} may forget an answered change when it is killed; use 3.5.3 or later")

    def get(self, key: str) -> Answer[Entry | None]:
        """Read one key, as the majority has it."""
        if not key.strip():
            return _BLANK
        return _read(self._gateway.read("kv/range", {"key": self._name(key)}), self._first)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Answer[tuple[Entry, ...]]:
        """List the entries under a prefix in key order, a page in each request, all of the first one's revision.

        Not done if etcd has compacted that revision away meanwhile; the next listing begins at a newer one.
        """
        under = _bytes(self._prefix + prefix)
        body = {"range_end": _base64(_after(under)), "sort_order": "ASCEND"}
        first = max(under, _bytes(self._prefix + after) + b"\0") if after else under
        found: list[Entry] = []
        pages, more = 0, True
        while more and (limit is None or len(found) < limit):
            size = PAGE if limit is None else min(PAGE, limit - len(found))
            answer = _read(self._gateway.read("kv/range", {**body, "key": _base64(first), "limit": size}), _page)
            if not isinstance(answer, Done):
                return answer
            page = answer.value
            if page.pairs and page.pairs[-1].key < first:
                return Unknown(f"expected keys from {first!r} on; found {page.pairs[-1].key!r}", pages + 1)
            pages, more = pages + 1, page.more and bool(page.pairs)
            # A key that is no text is a stranger's; one of them must not make the listing fail for ever.
            found += [self._entry(each) for each in page.pairs if _is_text(each)]
            if more:
                # Of the first page only: the header names the newest revision there is, whichever one was asked for.
                body.setdefault("revision", page.revision)
                first = page.pairs[-1].key + b"\0"
        return Done(tuple(found), operations=pages)

    def create_if_absent(self, key: str, value: str, lease: str | None = None) -> Answer[Entry]:
        """Create the key unless it exists; give the entry that stands. Not done if the lease has ended."""
        if not key.strip():
            return _BLANK
        name = self._name(key)
        put = {"key": name, "value": _base64(_bytes(value)), "lease": lease or "0"}
        answer = self._transaction(_is_absent(name), {"request_put": put}, {"request_range": {"key": name}})

        def standing(found: Json) -> Entry:
            if documents.succeeded(found):
                return Entry(key, value)
            # etcd compared and read in one transaction: what was not absent is there.
            (there,) = documents.pairs(documents.first_range(found))
            return self._entry(there)

        return _read(answer, standing)

    def swap(self, key: str, expected: str | None, value: str | None) -> Answer[bool]:
        """Change the value if it is the expected one. A key that is bound to a lease stays bound."""
        if not key.strip():
            return _BLANK
        name = self._name(key)
        if expected is None:
            condition = _is_absent(name)
        else:
            condition = {"key": name, "target": "VALUE", "result": "EQUAL", "value": _base64(_bytes(expected))}
        change: Json
        if value is None:
            change = {"request_delete_range": {"key": name}}
        else:
            # Without this flag the new value would be bound to no lease, and outlive the one the key was bound to.
            keep = expected is not None
            change = {"request_put": {"key": name, "value": _base64(_bytes(value)), "ignore_lease": keep}}
        return _read(self._transaction(condition, change), documents.succeeded)

    def grant(self, ttl: float) -> Answer[str]:
        """Get a lease. etcd counts in whole seconds and has a minimum; a lease may live longer than asked."""
        if not 0 < ttl < math.inf:
            return NotDone(f"a lease must live for more than 0 seconds and must end, not {ttl!r}")
        return _read(self._gateway.change("lease/grant", {"TTL": math.ceil(ttl)}), documents.lease_id)

    def keep_alive(self, lease: str) -> Answer[bool]:
        """Renew a lease; ``False`` says that it is gone."""
        if not _is_lease(lease):
            return Done(value=False, operations=0)  # etcd has never granted such a lease
        answer = _read(self._gateway.change("lease/keepalive", {"ID": lease}), documents.time_to_live)
        if isinstance(answer, Done):
            return Done(answer.value > 0)
        # "Not done" would say that etcd refused, and the holder would give up a lease it still has because etcd was
        # being restarted. It may try again until its own deadline.
        return Unknown(answer.reason)

    def revoke(self, lease: str) -> Answer[None]:
        """End a lease and its keys; done also when it is gone."""
        if not _is_lease(lease):
            return Done(None, operations=0)
        answer = self._gateway.change("lease/revoke", {"ID": lease})
        if isinstance(answer, NotDone) and "lease not found" in answer.reason:
            return Done(None)
        return Done(None) if isinstance(answer, Done) else answer

    def _transaction(self, condition: Json, then: Json, otherwise: Json | None = None) -> Answer[Json]:
        body = {"compare": [condition], "success": [then], "failure": [] if otherwise is None else [otherwise]}
        return self._gateway.change("kv/txn", body)

    def _name(self, key: str) -> str:
        return _base64(_bytes(self._prefix + key))

    def _first(self, found: Json) -> Entry | None:
        there = documents.pairs(found)
        return self._entry(there[0]) if there else None

    def _entry(self, found: Pair) -> Entry:
        return Entry(_text(found.key).removeprefix(self._prefix), _text(found.value))


@frozen
class _Page:
    pairs: tuple[Pair, ...]
    more: bool
    revision: str


def _page(found: Json) -> _Page:
    return _Page(documents.pairs(found), documents.has_more(found), documents.revision(found))


def _read(answer: Answer[Json], into: Callable[[Json], T]) -> Answer[T]:
    return reading.read(answer, into, "etcd")


def _is_lease(lease: str) -> bool:
    return lease.isascii() and lease.isdecimal()


def _is_absent(name: str) -> Json:
    return {"key": name, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}


def _bytes(text: str) -> bytes:
    """Write text as bytes; a value may hold whatever JSON text may, also half of a surrogate pair."""
    return text.encode("utf-8", "surrogatepass")


def _base64(plain: bytes) -> str:
    return base64.b64encode(plain).decode("ascii")


def _text(plain: bytes) -> str:
    return plain.decode("utf-8", "surrogatepass")


def _is_text(found: Pair) -> bool:
    try:
        _text(found.key)
    except ValueError:
        return False
    return True


def _after(prefix: bytes) -> bytes:
    """Return the first key after all that begin with the prefix; the last byte of UTF-8 text is never the greatest."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
