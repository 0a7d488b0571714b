"""A cache of object contents that all attempts on this machine share, in one process or many.

An entry is a file that never changes, named after the store's checksum. It appears complete, by a link, and whoever
uses it holds a link of their own (a *pin*). So nobody ever waits for anybody: two downloads of one object are merely
one too many, and eviction takes only the cache's own name away, never the bytes somebody is using. A link count above
one is what "in use" means; it survives crashes, and ends when the attempt's folder is swept.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from perago_core.ports import Stored
from perago_core.values import CommitRef
from perago_worker.folders.owned import take

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

    def take(self, key: str, size: int, pin: Path) -> bool:
        """Make ``pin`` the content of this name; ``False`` if it is not here."""
        entry = self._entry(key)
        try:
            _link(entry, pin)
            os.utime(pin)  # used now: the last to be evicted
        except FileNotFoundError:
            return False
        if pin.stat().st_size == size:
            return True
        # Cut short by a full disk or a power failure. It is no content at all.
        pin.unlink()
        entry.unlink(missing_ok=True)
        return False

    def keep(self, key: str, pin: Path) -> None:
        """Keep what ``pin`` holds. Somebody else may have been faster, which is as good; a full disk is no error."""
        entry = self._entry(key)
        entry.parent.mkdir(exist_ok=True)
        with suppress(OSError):
            _link(pin, entry)
            self._kept_since += _bytes(pin.stat())

    def trim_if_due(self) -> None:
        """Trim now and then. Looking through the cache takes long where it is large; a little too much is no harm."""
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
            if found.st_nlink == 1:
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


def _link(source: Path, to: Path) -> None:
    """Hard-link a file; a copy, complete before it is seen, where the file system cannot or will not."""
    try:
        to.hardlink_to(source)
    except FileExistsError:
        return
    except FileNotFoundError:
        raise
    except OSError:
        half = to.with_name(f"{to.name}.{secrets.token_hex(8)}")
        try:
            shutil.copyfile(source, half)
            half.replace(to)
        finally:
            half.unlink(missing_ok=True)
