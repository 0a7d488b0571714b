"""What a body says while it runs: log records, progress, and what it prints. Notes inform; they decide nothing.

A note is one line of JSON, written with one call and shorter than the system's atomic pipe write. So the notes of
several threads and of forked children never mix within a line, and a writer killed half-way leaves no half line.
"""

from __future__ import annotations

import json
import logging
import os
import select
import time
from typing import Any, TypeAlias, cast

from attrs import asdict, frozen

#: Characters of text in one note. JSON may need six bytes for one of them.
_TEXT = min(600, (select.PIPE_BUF - 400) // 6)
#: Notes one long message may become: a page of Java has some forty.
_PIECES = 64
#: Seconds between two notes of progress; more often is noise.
_PACE = 0.1


@frozen
class Logged:
    """A record of ``logging``."""

    level: int
    name: str
    text: str


@frozen
class Changed(Logged):
    """What an attempt has staged: files and bytes written, files deleted."""


@frozen
class Progressed:
    """How far the body is, between 0 and 1."""

    fraction: float | None
    text: str


@frozen
class Transferred(Progressed):
    """How far the files are that go to a body or come from it. For whoever watches; no task's log keeps it."""


@frozen
class Printed:
    """A line the body, or something it started, wrote to stdout or stderr."""

    text: str


Note: TypeAlias = Logged | Progressed | Printed


def decode(line: bytes) -> Note | None:
    """Read a note; ``None`` for a line that is none, because a body may write anything anywhere."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match found:
        case {"level": int(level), "name": str(name), "text": str(text)}:
            return Logged(level, name, text)
        case {"fraction": None, "text": str(text)}:
            return Progressed(None, text)
        case {"fraction": float() | int() as fraction, "text": str(text)} if (
            fraction is not True and 0 <= fraction <= 1
        ):
            return Progressed(cast("float", fraction), text)
        case _:
            return None


class NoteWriter:
    """The body's end of the pipe. A pipe that is closed or full of nobody's interest never breaks the body."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._identity = os.fstat(pipe).st_ino
        self._last_progress = 0.0

    def log(self, level: int, name: str, text: str) -> None:
        """Send a log record, in pieces if it is long, cut between its lines."""
        pieces = _pieces(text)
        for piece in pieces[:_PIECES]:
            self._send(Logged(level, name[:100], piece))
        if len(pieces) > _PIECES:
            left = sum(map(len, pieces[_PIECES:]))
            self._send(Logged(level, name[:100], f"... {left} characters more"))

    def progress(self, fraction: float | None, message: str) -> None:
        """Send progress, unless the last one was a moment ago and this is not the end."""
        now = time.monotonic()
        if fraction != 1.0 and now - self._last_progress < _PACE:
            return
        self._last_progress = now
        self._send(Progressed(fraction, message[:_TEXT]))

    def _send(self, note: Logged | Progressed) -> None:
        line = json.dumps(asdict(note)).encode("utf-8") + b"\n"
        try:
            # A body may close every descriptor it finds and open a file, which then has our number.
            if os.fstat(self._pipe).st_ino == self._identity:
                os.write(self._pipe, line)
        except OSError:
            return


def _pieces(text: str) -> list[str]:
    """Cut a text into pieces that fit into a note: between lines, and within one only if it alone is too long."""
    pieces: list[str] = []
    for line in text.split("\n"):
        for at in range(0, len(line) or 1, _TEXT):
            part = line[at : at + _TEXT]
            if pieces and at == 0 and len(pieces[-1]) + 1 + len(part) <= _TEXT:
                pieces[-1] += f"\n{part}"
            else:
                pieces.append(part)
    return pieces


class NoteHandler(logging.Handler):
    """Sends the records of ``logging`` as notes."""

    def __init__(self, writer: NoteWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        try:
            self._writer.log(record.levelno, record.name, self.format(record))
        except Exception:  # noqa: BLE001  a record whose arguments do not fit its message must not end the body
            self.handleError(record)
