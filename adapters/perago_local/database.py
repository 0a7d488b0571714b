"""One SQLite file that several processes share: transactions that give one of the three answers.

Theory of operation
-------------------
1. A change is one ``BEGIN IMMEDIATE`` transaction. The write lock is taken first and everything is read under it, so
   no two processes decide on the same state, and there is no upgrade from reading to writing that could fail halfway.
2. Whatever fails before ``COMMIT`` was never made: *not done*. A ``COMMIT`` that raises may or may not be on the disk:
   *unknown*. There is no other place where it can be unknown, because the file is on this machine.
3. The clock is read after the lock is held. Counterexample: a process reads the time, waits four seconds for the lock,
   and renews by its old time a lease that somebody else has meanwhile seen end.
4. A process may be killed at any instant. The write-ahead log makes the next opener see all of a transaction or none,
   and the kernel gives back the locks of the dead. ``synchronous=FULL``, because an intent must survive a power cut
   before the call it announces is sent (RC-1).
5. A connection serves one caller at a time and never crosses a fork: SQLite's locks belong to a process.
6. A connection goes on with a file that was removed, or whose place another one has taken, and nobody else sees what it
   does there. So each use looks whether the file is still the one that was opened. Counterexample, seen: the folder was
   removed and made again, and a worker polled the old file, where there was nothing to do, for ever.

What does not fit: a network file system. Its locks and shared memory are not those of one machine.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, TypeVar

from attrs import field, frozen

from perago_clock import MachineClock
from perago_clock import boot as this_boot
from perago_core.answers import Answer, Done, NotDone, NotDoneError, Unknown
from perago_core.ports import Clock
from perago_local.disk import trouble

T = TypeVar("T")

BUSY_TIMEOUT = 10.0
_RETRY_PAUSE = 0.01


class DatabaseError(Exception):
    """The file cannot be used; the message says what was expected, what was found and what to do."""


@frozen
class Part:
    """What one user of a file keeps in it: tables under a version, and what a restart of the machine means to them.

    ``restarted`` is SQL: deadlines of an earlier run of the machine mean nothing any more (see ``clock``).
    In it ``:now`` is the present of the new run. ``upgrades``: SQL by the version that it leads on from.
    """

    name: str
    version: int
    schema: str
    restarted: str
    upgrades: Mapping[int, str] = field(factory=dict[int, str])


class Database:
    """A file and the connections of this process to it. Usable from any thread, and after a fork."""

    def __init__(
        self, path: Path | str, part: Part, *, busy_timeout: float = BUSY_TIMEOUT, boot: str = "", now: float = 0.0
    ) -> None:
        self.path = Path(path)
        self._part = part
        self._busy_timeout = busy_timeout
        self._boot = boot or this_boot()
        self._opened = now
        self._pid = os.getpid()
        self._idle: deque[sqlite3.Connection] = deque()
        self._inherited: list[deque[sqlite3.Connection]] = []
        self._file = (0, 0)
        self._prepare()

    def change(self, work: Callable[[sqlite3.Connection], T]) -> Answer[T]:
        """Do work in one transaction under the write lock."""
        try:
            with self._connection() as connection:
                return _transaction(connection, work, self._described)
        except (sqlite3.Error, DatabaseError) as problem:
            return NotDone(self._described(problem))

    def read(self, work: Callable[[sqlite3.Connection], T]) -> Answer[T]:
        """Do work that only reads, on one snapshot, without waiting for writers."""
        try:
            with self._connection() as connection, _snapshot(connection):
                return Done(work(connection))
        except NotDoneError as refusal:
            return NotDone(str(refusal))
        except (sqlite3.Error, DatabaseError) as problem:
            return Unknown(self._described(problem))

    def close(self) -> None:
        """Close what this process has open and nobody is using."""
        if self._pid == os.getpid():
            while self._idle:
                self._idle.pop().close()

    def _described(self, problem: Exception) -> str:
        known = isinstance(problem, sqlite3.Error) and _kind(problem) in _ADVICE
        return f"{self.path.name}: {problem}" + (f". {self._advice(problem)}." if known else "")

    def _advice(self, problem: Exception) -> str:
        kind = _kind(problem)
        found = trouble(self.path) if kind in _OF_THE_DISK else ""
        return found or _ADVICE.get(kind, _HELD_BY_ANOTHER)

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        if self._pid != os.getpid():
            # A forked child must neither use nor close its parent's connections: keeping them referenced keeps them
            # from being closed by the garbage collector.
            self._inherited.append(self._idle)
            self._pid, self._idle = os.getpid(), deque()
        self._demand_file()
        with self._pooled() as connection:
            yield connection

    @contextmanager
    def _pooled(self) -> Generator[sqlite3.Connection]:
        idle = self._idle
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._open()
        try:
            yield connection
        except sqlite3.Error:
            connection.close()
            raise
        except BaseException:
            _roll_back(connection)
            idle.append(connection)
            raise
        else:
            idle.append(connection)

    def _demand_file(self) -> None:
        """Leave a file that is no longer in its place; begin anew in the one that is."""
        try:
            found = self.path.stat()
        except OSError as problem:
            self.close()
            message = f"expected {self.path}, which was there; found: {problem.strerror}. "
            message += "Put it back; or start anew: the next command makes an empty one"
            raise DatabaseError(message) from problem
        if (found.st_dev, found.st_ino) != self._file:
            self.close()
            self._prepare()

    def _open(self) -> sqlite3.Connection:
        # Autocommit, so that no statement opens a transaction behind our back; the pool hands a connection to one
        # thread at a time, which is what the check it switches off is for.
        connection = sqlite3.connect(
            self.path,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def _prepare(self) -> None:
        self._create_file()
        found = self.path.stat()
        try:
            with self._pooled() as connection:
                self._use_write_ahead_log(connection)
                answer = _transaction(connection, self._set_up, self._described)
        except sqlite3.OperationalError as problem:
            message = f"{self.path} could not be opened within {self._busy_timeout:g} s ({problem})"
            raise DatabaseError(f"{message}. {self._advice(problem)}.") from problem
        except sqlite3.DatabaseError as problem:
            message = f"expected a SQLite file at {self.path}; found: {problem}. {self._advice(problem)}."
            raise DatabaseError(message) from problem
        if not isinstance(answer, Done):
            message = f"{self.path} could not be set up: {answer.reason}. Free the file or give another path."
            raise DatabaseError(message)
        self._file = (found.st_dev, found.st_ino)

    def _create_file(self) -> None:
        """Make the file readable by its owner only; SQLite gives its side files the same permissions.

        A file that is there is not opened: closing it gives back every lock this process has on it, whoever took it.
        Seen: with a second ``Database`` on the file, the next process to end took itself for the last, and deleted the
        write-ahead log under the first, which went on alone.
        """
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as problem:
            if self.path.is_file() and os.access(self.path, os.R_OK | os.W_OK):
                return
            there = "a folder" if self.path.is_dir() else "one that we may not write"
            found = there if isinstance(problem, FileExistsError) else problem.strerror
            message = f"expected a file that can be written at {self.path}, found: {found}. "
            advice = trouble(self.path) or "Create the folder, correct its permissions, or give another path"
            raise DatabaseError(f"{message}{advice}.") from problem

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """Switch the journal once per file. SQLite does not wait for a lock here, so twenty first openers must."""
        until = time.monotonic() + self._busy_timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as problem:
                if time.monotonic() > until or _kind(problem) not in _HELD:
                    raise
                time.sleep(_RETRY_PAUSE)
            else:
                return

    def _set_up(self, connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS part (name TEXT PRIMARY KEY, version INTEGER, boot TEXT)")
        found = connection.execute("SELECT version, boot FROM part WHERE name = ?", (self._part.name,)).fetchone()
        if found is None:
            for statement in _statements(self._part.schema):
                connection.execute(statement)
            row = (self._part.name, self._part.version, self._boot)
            connection.execute("INSERT INTO part VALUES (?, ?, ?)", row)
            return
        version, boot = found
        while version in self._part.upgrades:
            for statement in _statements(self._part.upgrades[version]):
                connection.execute(statement)
            version += 1
            connection.execute("UPDATE part SET version = ? WHERE name = ?", (version, self._part.name))
        if version != self._part.version:
            message = f"expected version {self._part.version} of the {self._part.name} tables, found {version}: "
            message += "use the program that wrote them, or another file"
            raise NotDoneError(message)
        if boot != self._boot:
            for statement in _statements(self._part.restarted):
                connection.execute(statement, {"now": self._opened})
            connection.execute("UPDATE part SET boot = ? WHERE name = ?", (self._boot, self._part.name))


#: Somebody has the lock; it passes.
_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (
    "The file is damaged: stop all workers, move it away, put a copy in its place or none; what was published stays "
    "in the store"
)
#: What else keeps a file from being used. Counterexample, seen: a full disk was told as a process that holds the file.
_ADVICE = {
    sqlite3.SQLITE_FULL: "The disk is full: free some space; what was answered is kept",
    sqlite3.SQLITE_IOERR: "The disk did not do what it should: is it full, or failing? What was answered is kept",
    sqlite3.SQLITE_READONLY: "The file, its folder or the disk is read-only: make it writable",
    sqlite3.SQLITE_CANTOPEN: "The file cannot be opened: look at its folder's permissions, a full or read-only disk, "
    "and the limit of open files (ulimit -n)",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
#: What a look at the disk may explain better.
_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
_HELD_BY_ANOTHER = (
    "Another process holds it, perhaps one that was stopped in the middle of a transaction: continue it, or end it"
)


def _kind(problem: Exception) -> int:
    """Give SQLite's primary code; 0 where the problem is not SQLite's own."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF


class SqlitePort:
    """A port in one file: its database, and the clock that its deadlines are counted on. Subclasses set the tables."""

    _PART: ClassVar[Part]

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Clock | None = None,
        busy_timeout: float = BUSY_TIMEOUT,
        boot: str = "",
    ) -> None:
        self._clock = MachineClock() if clock is None else clock
        self._database = Database(path, self._PART, busy_timeout=busy_timeout, boot=boot, now=self._clock.now())

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _transaction(
    connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], describe: Callable[[Exception], str]
) -> Answer[T]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        value = work(connection)
    except NotDoneError as refusal:
        connection.execute("ROLLBACK")
        return NotDone(str(refusal))
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as problem:
        _roll_back(connection)
        return Unknown(f"the commit was not confirmed: {describe(problem)}")
    return Done(value)


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        _roll_back(connection)


def _statements(script: str) -> list[str]:
    """Split a script of ours, which has no semicolon inside a statement; ``executescript`` would commit first."""
    return [statement for statement in script.split(";") if statement.strip()]
