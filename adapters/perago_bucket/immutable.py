"""What never changes: written before anything points at it, under a name nobody had, read once by each process.

A name is the digest of what it names and a nonce. The digest tells whether the bytes are still what was written. The
nonce makes two writes of equal bytes two objects. Counterexample without it: an abandoned attempt leaves a range that
nothing reaches, ``gc`` has listed it, the next attempt writes the very same range, points at it, and ``gc`` deletes it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from secrets import token_hex
from typing import Any, TypeVar

from perago_bucket.layout import Place, digest_of, is_name
from perago_core.answers import NotDoneError

T = TypeVar("T")

#: How many bytes of commits, claims and manifests a process remembers.
_ROOM = 64 << 20


class _Kept:
    """The objects that were read or written last, as long as there is room."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[tuple[Any, str], tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, str]) -> Any | None:  # noqa: ANN401  of as many kinds as there are shelves
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: tuple[Any, str], value: object, size: int) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = (value, size)
            self._room -= size
            while self._room < 0:
                _, (_, freed) = self._kept.popitem(last=False)
                self._room += freed


_kept = _Kept(_ROOM)


def fetch(place: Place, shelf: str, name: str, parse: Callable[[bytes], T]) -> T | None:
    """Read an object by its name, once; ``None``: there is none. Bytes that are not what it says are refused."""
    key = place.key(shelf, name)
    known: T | None = _kept.get((place.bucket, key))
    if known is not None or not is_name(name):
        return known
    found = place.bucket.read(key)
    if found is None:
        return None
    if not is_of(name, digest_of(found.data)):
        message = f"{key} does not hold what its name says: somebody has written over it"
        raise NotDoneError(message)
    value = parse(found.data)
    _kept.put((place.bucket, key), value, len(found.data))
    return value


def keep(place: Place, shelf: str, data: bytes, value: object) -> str:
    """Write an object, remember what it says, and give its name."""
    name = f"{digest_of(data)}{token_hex(8)}"
    key = place.key(shelf, name)
    place.bucket.write(key, data)
    _kept.put((place.bucket, key), value, len(data))
    return name


def is_of(name: str, digest: str) -> bool:
    """Return whether an object of this name holds bytes of this digest."""
    return name.startswith(digest)
