"""The coordination port on SQLite: keys, conditional changes and leases that the processes of one machine share.

A lease is a row with the moment it ends, and time is that of ``clock``. Nobody has to be awake for a lease to
end: a reader leaves out what has ended, and every change first removes it. So a key that was once seen to be gone
never comes back, and a lease that has ended cannot be renewed.

Keys and values are kept as bytes: byte order is the order of a listing, and a value may hold whatever JSON text may,
also half of a surrogate pair.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from typing import TypeVar

from perago_core.answers import Answer, NotDone, NotDoneError, Unknown
from perago_core.ports import Entry
from perago_local.database import Part, SqlitePort

T = TypeVar("T")

PART = Part(
    name="coordination",
    version=1,
    schema="""
        CREATE TABLE lease (id TEXT PRIMARY KEY, ttl REAL NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
        CREATE TABLE entry (
            key BLOB PRIMARY KEY,
            value BLOB NOT NULL,
            lease TEXT REFERENCES lease (id) ON DELETE CASCADE
        ) WITHOUT ROWID;
        CREATE INDEX entry_lease ON entry (lease) WHERE lease IS NOT NULL;
        CREATE INDEX lease_until ON lease (until)
    """,
    # Whoever held a lease of an earlier run of the machine ended with it.
    restarted="DELETE FROM lease",
)

_LIVE = "(lease IS NULL OR (SELECT until FROM lease WHERE id = entry.lease) > ?)"
_ONE = f"SELECT key, value FROM entry WHERE key = ? AND {_LIVE}"  # noqa: S608  made of constants
_AFTER = f"SELECT key, value FROM entry WHERE key > ? AND {_LIVE} ORDER BY key LIMIT ?"  # noqa: S608  constants
_RANGE = f"SELECT key, value FROM entry WHERE key >= ? AND key < ? AND key > ? AND {_LIVE} ORDER BY key LIMIT ?"  # noqa: S608
_NO_LIMIT = -1


class SqliteCoordination(SqlitePort):
    """A coordination store in one file. Any number of processes of one machine may open it."""

    _PART = PART

    def get(self, key: str) -> Answer[Entry | None]:
        """Read one key."""
        # Before the snapshot is taken. Counterexample for the other order: we take the snapshot, the holder renews,
        # the old end passes, we read the clock and say that a lease is gone which is held.
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> Entry | None:
            row = connection.execute(_ONE, (_key(key), now)).fetchone()
            return None if row is None else _entry(row)

        return self._database.read(work)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Answer[tuple[Entry, ...]]:
        """List the entries under a prefix in key order."""
        now, first, last = self._clock.now(), _bytes(prefix), _bytes(after)
        most = _NO_LIMIT if limit is None else limit

        def work(connection: sqlite3.Connection) -> tuple[Entry, ...]:
            if not first:
                rows = connection.execute(_AFTER, (last, now, most))
            else:
                rows = connection.execute(_RANGE, (first, _after(first), last, now, most))
            return tuple(_entry(row) for row in rows)

        return self._database.read(work)

    def create_if_absent(self, key: str, value: str, lease: str | None = None) -> Answer[Entry]:
        """Create the key unless it exists; give the entry that stands. Not done if the lease has ended."""

        def work(connection: sqlite3.Connection, _now: float) -> Entry:
            row = connection.execute("SELECT key, value FROM entry WHERE key = ?", (_key(key),)).fetchone()
            if row is not None:
                return _entry(row)
            if lease is not None and not _is_lease(connection, lease):
                message = f"lease {lease!r} has ended or never was: grant a new one"
                raise NotDoneError(message)
            connection.execute("INSERT INTO entry VALUES (?, ?, ?)", (_key(key), _bytes(value), lease))
            return Entry(key, value)

        return self._change(work)

    def swap(self, key: str, expected: str | None, value: str | None) -> Answer[bool]:
        """Change the value if it is the expected one. A key that is bound to a lease stays bound."""

        def work(connection: sqlite3.Connection, _now: float) -> bool:
            found = connection.execute("SELECT value FROM entry WHERE key = ?", (_key(key),)).fetchone()
            if (None if found is None else found[0]) != (None if expected is None else _bytes(expected)):
                return False
            if value is None:
                connection.execute("DELETE FROM entry WHERE key = ?", (_key(key),))
            elif found is None:
                connection.execute("INSERT INTO entry VALUES (?, ?, NULL)", (_key(key), _bytes(value)))
            else:
                connection.execute("UPDATE entry SET value = ? WHERE key = ?", (_bytes(value), _key(key)))
            return True

        return self._change(work)

    def grant(self, ttl: float) -> Answer[str]:
        """Get a lease that ends so many seconds from now."""
        lease = uuid.uuid4().hex

        def work(connection: sqlite3.Connection, now: float) -> str:
            if not 0 < ttl < float("inf"):
                message = f"a lease must live for more than 0 seconds and must end, not {ttl!r}"
                raise NotDoneError(message)
            connection.execute("INSERT INTO lease VALUES (?, ?, ?)", (lease, ttl, now + ttl))
            return lease

        return self._change(work)

    def keep_alive(self, lease: str) -> Answer[bool]:
        """Renew a lease; ``False`` says that it is gone."""

        def work(connection: sqlite3.Connection, now: float) -> bool:
            renewed = connection.execute("UPDATE lease SET until = ? + ttl WHERE id = ?", (now, lease))
            return renewed.rowcount == 1

        answer = self._change(work)
        # "Not done" would say that the store refused, and the holder would give up a lease it still has because
        # somebody else kept the file busy. It may try again until its own deadline.
        return Unknown(answer.reason) if isinstance(answer, NotDone) else answer

    def revoke(self, lease: str) -> Answer[None]:
        """End a lease and its keys; done also when it is gone."""

        def work(connection: sqlite3.Connection, _now: float) -> None:
            connection.execute("DELETE FROM lease WHERE id = ?", (lease,))

        return self._change(work)

    def _change(self, work: Callable[[sqlite3.Connection, float], T]) -> Answer[T]:
        """Do work under the write lock, at one moment, after everything that has ended by then is gone."""

        def at_one_moment(connection: sqlite3.Connection) -> T:
            now = self._clock.now()
            connection.execute("DELETE FROM lease WHERE until <= ?", (now,))
            return work(connection, now)

        return self._database.change(at_one_moment)


def _is_lease(connection: sqlite3.Connection, lease: str) -> bool:
    return connection.execute("SELECT 1 FROM lease WHERE id = ?", (lease,)).fetchone() is not None


def _key(text: str) -> bytes:
    if not text.strip():
        message = f"expected a key with something in it, found {text!r}"
        raise NotDoneError(message)
    return _bytes(text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _entry(row: tuple[bytes, bytes]) -> Entry:
    return Entry(*(part.decode("utf-8", "surrogatepass") for part in row))


def _after(prefix: bytes) -> bytes:
    """Return the first key after all that begin with the prefix; the last byte of UTF-8 text is never the greatest."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
