"""Stopping or killing this process at a chosen SQL statement, between the two where a power cut would hit hardest."""

from __future__ import annotations

import os
import signal
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any


def run_in_child(work: Callable[[], object]) -> int:
    """Run work in a forked child and give its exit code; the negative of a signal's number if one ended it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  a child must not go on as a second test run, whatever happened in it
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def watch_statements(seen: Callable[[str], None]) -> None:
    """Have every connection that this process opens from now on tell each statement just before it runs."""

    class Watched(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  whatever it is called with
            super().__init__(*args, **options)
            self.set_trace_callback(seen)

    setattr(sqlite3, "connect", Watched)  # noqa: B010  a class in place of a function, which it is called like


class Countdown:
    """Sends this process a signal just before so many statements have run. Does nothing until it is set."""

    def __init__(self, fatal: signal.Signals) -> None:
        self._fatal = fatal
        self._left = 0
        watch_statements(self._seen)

    def set(self, statements: int) -> None:
        self._left = statements

    def _seen(self, _statement: str) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), self._fatal)


def integrity(path: Path) -> str:
    """Ask SQLite whether the file is in order: ``ok``, and no reference dangles."""
    with closing(sqlite3.connect(path)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        dangling = connection.execute("PRAGMA foreign_key_check").fetchall()
    return str(verdict) if not dangling else f"dangling: {dangling}"
