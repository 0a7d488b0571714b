"""Bytes into lines, within a bound: a body that prints without end fills neither memory nor log."""

from __future__ import annotations

from collections.abc import Iterator

#: A line longer than this is cut into several.
_LONGEST = 4096


class Lines:
    """Cuts a stream into lines, passes on the first ``limit`` bytes, and says how much it kept to itself."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._withheld = 0
        self._half = bytearray()

    def feed(self, received: bytes) -> Iterator[bytes]:
        """Take bytes; give the lines they complete."""
        self._half += received
        while True:
            end = self._half.find(b"\n", 0, _LONGEST)
            if end < 0 and len(self._half) < _LONGEST:
                return
            taken = bytes(self._half[:end]) if end >= 0 else bytes(self._half[:_LONGEST])
            del self._half[: end + 1 if end >= 0 else _LONGEST]
            yield from self._passed(taken)

    def end(self) -> Iterator[bytes]:
        """Return the line without an end, and a word on what was withheld."""
        if self._half:
            yield from self._passed(bytes(self._half))
            self._half.clear()
        if self._withheld:
            yield f"... {self._withheld} bytes more, not kept".encode()
            self._withheld = 0

    def _passed(self, line: bytes) -> Iterator[bytes]:
        size = len(line) + 1  # its end counts: a body may print nothing but ends
        if size > self._left:
            self._withheld += size
            self._left = 0
            return
        self._left -= size
        yield line
