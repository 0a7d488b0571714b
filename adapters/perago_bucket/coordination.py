"""The coordination port on a bucket: one record that is swapped, whose head is the manifest of all keys.

So a listing shows all keys as they stood at one moment, a key that was deleted leaves nothing behind that could be
mistaken for it, and a change costs what changed. All changes queue at one record: enough for tens of publications a
minute; a cluster that is busier has etcd.

There are no leases: a bucket has no clock that takes a key away when its holder has died. Whoever runs ``locked`` needs
etcd, or SQLite on one machine.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NoReturn, TypeVar

from attrs import evolve

from perago_bucket import immutable, manifest, record
from perago_bucket.answers import answer
from perago_bucket.client import Connection, bucket
from perago_bucket.layout import VALUES, Place, coordination_of
from perago_bucket.record import Record
from perago_core.answers import Answer, NotDoneError
from perago_core.ports import Entry, Stored
from perago_core.values import CommitRef

T = TypeVar("T")

#: The name of the one record.
STATE = "state"
_INSTEAD = "set coordination.kind to etcd, or to local on one machine"


class BucketCoordination:
    """Keys and values below one prefix of a bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, key: str) -> Answer[Entry | None]:
        """Read one key."""

        def work() -> Entry | None:
            place = self._place()
            return _found(place, _root(place), key)

        return answer(work)

    def create_if_absent(self, key: str, value: str, lease: str | None = None) -> Answer[Entry]:
        """Create the key unless it exists; give the entry that stands. Refused with a lease: there are none."""

        def work() -> Entry:
            if lease is not None:
                _without_leases()
            place = self._place()

            def create(found: Record) -> tuple[Record | None, Entry]:
                stands = _found(place, found.head, key)
                if stands is not None:
                    return None, stands
                return _with(place, found, key, value), Entry(key, value)

            return self._change(place, create)

        return answer(work)

    def swap(self, key: str, expected: str | None, value: str | None) -> Answer[bool]:
        """Change the value if it is ``expected`` (``None``: absent); ``None`` as the value deletes the key."""

        def work() -> bool:
            place = self._place()

            def change(found: Record) -> tuple[Record | None, bool]:
                stands = _found(place, found.head, key)
                if (None if stands is None else stands.value) != expected:
                    return None, False
                return (None if expected == value else _with(place, found, key, value)), True

            return self._change(place, change)

        return answer(work)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Answer[tuple[Entry, ...]]:
        """List the entries under a prefix in key order, as they all stood at one moment."""

        def work() -> tuple[Entry, ...]:
            place = self._place()
            root = _root(place)
            listed = () if root is None else manifest.listed(place, root, prefix, after)
            return tuple(_entry(place, each) for each in islice(listed, limit))

        return answer(work)

    def grant(self, ttl: float) -> Answer[str]:
        """Refuse: a bucket has no leases."""
        return answer(lambda: _without_leases(ttl))

    def keep_alive(self, lease: str) -> Answer[bool]:
        """Refuse: a bucket has no leases."""
        return answer(lambda: _without_leases(lease))

    def revoke(self, lease: str) -> Answer[None]:
        """Refuse: a bucket has no leases."""
        return answer(lambda: _without_leases(lease))

    def instead_of_leases(self) -> str:
        """Say what to use by whoever needs leases."""
        return _INSTEAD

    def _place(self) -> Place:
        return coordination_of(bucket(self._connection))

    @staticmethod
    def _change(place: Place, wanted: Callable[[Record], tuple[Record | None, T]]) -> T:
        if not record.is_known(place, STATE):
            record.ensure(place, STATE, CommitRef(manifest.root_of(place, {})))
        return record.change(place, STATE, wanted)


def _root(place: Place) -> str | None:
    found = record.read(place, STATE)
    return None if found is None else found.head


def _with(place: Place, found: Record, key: str, value: str | None) -> Record:
    stored = None
    if value is not None:
        data = value.encode("utf-8", "surrogatepass")
        digest = immutable.keep(place, VALUES, data, value)
        stored = Stored(key, digest, digest, len(data))
    return evolve(found, head=CommitRef(manifest.changed(place, found.head, {key: stored})))


def _found(place: Place, root: str | None, key: str) -> Entry | None:
    stored = None if root is None else manifest.found(place, root, key)
    return None if stored is None else _entry(place, stored)


def _entry(place: Place, stored: Stored) -> Entry:
    value = immutable.fetch(place, VALUES, stored.address, lambda data: data.decode("utf-8", "surrogatepass"))
    if value is None:
        message = f"the value of {stored.path!r} is gone from {place.folder}: somebody else has deleted it"
        raise NotDoneError(message)
    return Entry(stored.path, value)


def _without_leases(*_asked: object) -> NoReturn:
    message = f"a bucket has no leases: {_INSTEAD}"
    raise NotDoneError(message)
