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
from typing import BinaryIO

from perago_core.ports import Stored
from perago_core.values import CommitRef
from perago_worker.folders.owned import take

_CHUNK = 1 << 20
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

    def take(self, key: str, size: int, to: Path) -> bool:
        """Make ``to`` a copy of the content of this name; ``False`` if it is not here, or is not what was kept."""
        entry = self._entry(key)
        try:
            with entry.open("rb") as kept:
                digest = _copied(kept, to, size)
                right = digest == kept.read()
        except FileNotFoundError:
            return False
        if right:
            with suppress(OSError):  # evicted meanwhile
                os.utime(entry)  # used now: the last to be evicted
            to.chmod(0o444)
            return True
        # Cut short, rotten, or written to by somebody: it is no content at all.
        to.unlink()
        entry.unlink(missing_ok=True)
        return False

    def keep(self, key: str, content: Path) -> None:
        """Keep a copy of a content. Somebody else may have been faster, which is as good; a full disk is no error."""
        entry = self._entry(key)
        half = entry.with_name(f"{key}.{secrets.token_hex(8)}")
        try:
            entry.parent.mkdir(exist_ok=True)
            with content.open("rb") as plain:
                digest = _copied(plain, half, content.stat().st_size)
            with half.open("ab") as file:
                file.write(digest)
            half.replace(entry)
            self._kept_since += _bytes(entry.stat())
        except OSError:
            half.unlink(missing_ok=True)

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
            path.unlink(missing_ok=True)
            freed += _bytes(found)
        return freed

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self._folder.glob("??/*"):
            name = _NAME.fullmatch(path.name)
            if name is None:
                continue
            with suppress(FileNotFoundError):
                found = path.stat()
                if not name["half"]:
                    yield path, found
                elif time.time() - found.st_mtime > _STALE:
                    path.unlink()

    def _entry(self, key: str) -> Path:
        return self._folder / key[:2] / key


def _bytes(found: os.stat_result) -> int:
    return max(found.st_size, found.st_blocks * 512)


def _copied(source: BinaryIO, to: Path, size: int) -> bytes:
    """Copy so many bytes, or as many as there are; give their digest."""
    digest = hashlib.sha256()
    with to.open("wb") as file:
        while size and (chunk := source.read(min(size, _CHUNK))):
            digest.update(chunk)
            file.write(chunk)
            size -= len(chunk)
    return digest.digest()
