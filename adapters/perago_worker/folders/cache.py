"""A cache of object contents that all attempts on this machine share, in one process or many.

An entry is a file that never changes, named after the store's checksum: the content, and behind it the SHA-256 of the
content. It appears complete, by a rename, and whoever uses it takes a copy that is checked while it is made. So nobody
ever waits for anybody: two downloads of one object are merely one too many, and eviction takes nothing from anybody.

Counterexample, seen: entries were taken as hard links and known by their size. A body that rewrote its input with as
many bytes gave them to every later task of the machine, and all of those completed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from perago_core.ports import Stored
from perago_core.values import CommitRef
from perago_worker.folders.owned import take
from perago_worker.folders.place import Place

_CHUNK = 1 << 20
#: Characters of a name that its folder is called by.
_SHARD = 2
#: What a file takes on a disk, however small it is.
_BLOCK = 4096
#: How far below its limit a full cache is brought, so that not every task has to clean up.
_LOW_WATER = 0.9
#: Seconds after which a half-written copy has no writer any more.
_STALE = 3600.0
#: An entry, or a copy of one that is being written. Whatever else lies here is not ours to remove.
_NAME = re.compile(r"[0-9a-f]{64}(?P<half>\.[0-9a-f]{16})?")


def content_key(repository: str, ref: CommitRef, stored: Stored) -> str:
    """Name a content. Where the store gives no checksum, the place in an immutable commit names it as well.

    The repository is part of the name: checksums may be weak, and one team's collision is not another team's data.
    """
    what = f"{stored.checksum}\0{stored.size}" if stored.checksum else f"{ref}\0{stored.path}"
    return hashlib.sha256(f"{repository}\0{what}".encode("utf-8", "surrogatepass")).hexdigest()


class Cache:
    """A folder of entries, kept below ``limit`` bytes as far as nobody uses more at once."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = take(folder, "worker.cache")
        self._limit = limit
        self._kept_since = limit

    def take(self, key: str, size: int, to: Place) -> bytes | None:
        """Copy the content of this name to where it is needed; give its digest, ``None`` if it is not here as kept."""
        entry = self._entry(key)
        try:
            with open(entry, "rb") as kept:  # noqa: PTH123  once for each file of a workspace
                with to.create() as file:
                    digest = _copied(kept, file, size)
                right = digest == kept.read()
        except FileNotFoundError:
            return None
        if right:
            with suppress(OSError):  # evicted meanwhile
                os.utime(entry)  # used now: the last to be evicted
            return digest
        # Cut short, rotten, or written to by somebody: it is no content at all.
        Path(to.path).unlink()
        Path(entry).unlink(missing_ok=True)
        return None

    def keep(self, key: str) -> Keeping:
        """Begin to keep a content, which is then written piece by piece."""
        return Keeping(self, self._entry(key))

    def count(self, size: int) -> None:
        """Note that so many bytes were kept."""
        self._kept_since += max(size, _BLOCK)

    def trim_if_due(self) -> None:
        """Trim now and then. Looking through the cache takes long where it is large; a little too much is no harm.

        A folder that was removed is made again.
        """
        take(self._folder, "worker.cache")
        if self._kept_since >= self._limit * (1 - _LOW_WATER) / 2:
            self._kept_since = 0
            self.trim()

    def trim(self) -> int:
        """Bring the cache below its limit, least recently used first; give the bytes freed. One process at a time."""
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._trim()
        except BlockingIOError:
            return 0
        finally:
            os.close(lock)

    def _trim(self) -> int:
        entries = sorted(self._entries(), key=lambda each: each[1].st_mtime_ns)
        total = sum(_bytes(found) for _path, found in entries)
        if total <= self._limit:
            return 0
        freed = 0
        for path, found in entries:
            if total - freed <= self._limit * _LOW_WATER:
                break
            Path(path).unlink(missing_ok=True)
            freed += _bytes(found)
        return freed

    def _entries(self) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(self._folder) as folders:
            below = [each.path for each in folders if len(each.name) == _SHARD and each.is_dir(follow_symlinks=False)]
        for folder in below:
            with suppress(FileNotFoundError), os.scandir(folder) as found:
                for each in found:
                    name = _NAME.fullmatch(each.name)
                    if name is None:
                        continue
                    with suppress(FileNotFoundError):
                        seen = each.stat()
                        if not name["half"]:
                            yield each.path, seen
                        elif time.time() - seen.st_mtime > _STALE:
                            Path(each.path).unlink()

    def _entry(self, key: str) -> str:
        return f"{self._folder}/{key[:_SHARD]}/{key}"


class Keeping:
    """A content on its way into the cache, in the same pass in which it is written to where it is needed.

    Others find it once it ends well. Somebody else may be faster, which is as good; a full disk is no error: what
    cannot be kept is fetched again.
    """

    def __init__(self, cache: Cache, entry: str) -> None:
        self._cache = cache
        self._entry = entry
        self._half = f"{entry}.{secrets.token_hex(8)}"
        self._digest = hashlib.sha256()
        self._size = 0
        self._file: BinaryIO | None = None

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 of what was written so far, also of what cannot be kept."""
        return self._digest.digest()

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._file = _created(self._half)
        return self

    def write(self, piece: bytes) -> None:
        """Add a piece."""
        self._digest.update(piece)
        self._size += len(piece)
        if self._file is None:
            return
        try:
            self._file.write(piece)
        except OSError:
            self._drop()

    def __exit__(self, trouble: type[BaseException] | None, *_: object) -> None:
        if self._file is None:
            return
        if trouble is not None:
            self._drop()
            return
        try:
            self._file.write(self._digest.digest())
            self._file.close()
            os.replace(self._half, self._entry)  # noqa: PTH105  once for each file of a workspace
        except OSError:
            self._drop()
        else:
            self._cache.count(self._size)

    def _drop(self) -> None:
        """Keep nothing of it."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()  # what was not written yet meets a full disk once more
            self._file = None
        with suppress(OSError):
            Path(self._half).unlink()


def _created(path: str) -> BinaryIO:
    """Create a file, with the folder it is in where nothing was kept there yet."""
    try:
        return open(path, "xb")  # noqa: PTH123  once for each file of a workspace
    except FileNotFoundError:
        Path(path).parent.mkdir(exist_ok=True)
        return Path(path).open("xb")


def _bytes(found: os.stat_result) -> int:
    return max(found.st_size, found.st_blocks * 512)


def _copied(source: BinaryIO, file: BinaryIO, size: int) -> bytes:
    """Copy so many bytes, or as many as there are; give their digest."""
    digest = hashlib.sha256()
    while size and (chunk := source.read(min(size, _CHUNK))):
        digest.update(chunk)
        file.write(chunk)
        size -= len(chunk)
    return digest.digest()
