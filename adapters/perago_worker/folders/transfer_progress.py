"""How far a transfer is: files and bytes, of totals that are known before the first byte moves."""

from __future__ import annotations

import io
import math
import threading
import time
from collections.abc import Callable, Collection
from typing import BinaryIO, TypeAlias

from attrs import frozen


@frozen
class Moved:
    """What has been moved so far, and what there is to move. Bytes that must be sent again are taken back."""

    files: int
    bytes: int
    of_files: int
    of_bytes: int

    @property
    def fraction(self) -> float:
        """Say how much of it has been moved, between 0 and 1. Files with nothing in them count as well."""
        return (self.files + self.bytes) / max(1, self.of_files + self.of_bytes)


#: Told after each step, by one thread at a time and in order.
MovedListener: TypeAlias = Callable[[Moved], object]


def nobody(_moved: Moved) -> None:
    """Ignore progress."""


def paced(listener: MovedListener, pause: float = 0.1) -> MovedListener:
    """Tell somebody of the end, and before that only now and then: a transfer has a step for each block."""
    last_shown = -math.inf

    def tell(moved: Moved) -> None:
        nonlocal last_shown
        if moved.files == moved.of_files or time.monotonic() - last_shown >= pause:
            last_shown = time.monotonic()
            listener(moved)

    return tell


class Tally:
    """Adds up what several threads move."""

    def __init__(self, sizes: Collection[int], listener: MovedListener) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._now = Moved(0, 0, len(sizes), sum(sizes))

    def add(self, size: int, files: int = 0) -> None:
        """Count bytes, and files that are complete with them; bytes to be sent again are negative."""
        with self._lock:
            now = self._now
            self._now = Moved(now.files + files, now.bytes + size, now.of_files, now.of_bytes)
            self._listener(self._now)


class Watched(io.RawIOBase):
    """A file being sent. What was read of it counts as moved; who goes back to send it again takes that back."""

    def __init__(self, data: BinaryIO | io.RawIOBase, tally: Tally) -> None:
        super().__init__()
        self._data = data
        self._tally = tally
        self._counted = 0

    def readable(self) -> bool:
        """Return true: it is read from, never written to."""
        return True

    def seekable(self) -> bool:
        """Return whether it can be sent again."""
        return self._data.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, as a client does that asks for the size. It does not count as moved."""
        return self._data.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._data.tell()

    def read(self, size: int = -1) -> bytes:
        """Read a block, and count it as moved."""
        chunk = self._data.read(size)
        if chunk:
            position = self._data.tell()
            self._tally.add(position - self._counted)
            self._counted = position
        return chunk
