"""The same requests on a folder: of one machine, or of several that share a file system.

What is written once is a file, under a name of hexadecimal digits as everything of that kind has. What is created and
swapped is a folder of ``versions``. Whatever else lies there is somebody else's: it is not listed, and so not deleted.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from perago_bucket import versions
from perago_bucket.client import Listed, Read
from perago_bucket.documented import whole
from perago_bucket.folders import ASIDE, READING, Root, names_of, remove_if_empty
from perago_core.answers import NotDoneError

_ONCE = re.compile(r"[0-9a-f]{32,80}")
_PART = 1 << 20
_ROUNDS = 100


class Disk:
    """The requests to one folder."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        durable = options.get("durable", "true")
        if options.keys() - {"durable"} or durable not in {"true", "false"}:
            message = f"{folder} is a folder, which has one option, durable = true or false: found {', '.join(options)}"
            raise NotDoneError(message)
        self._root = Root(folder, durable == "true")

    def read(self, key: str) -> Read | None:
        """Read a small object; ``None``: there is none."""
        names = names_of(key)
        opened = self._opened(names)
        if opened is not None:
            with open(opened, "rb") as file:  # noqa: PTH123  it is open
                return Read(whole(iter(lambda: file.read(_PART), b""), key), "written once")
        found = versions.look(self._root, names)
        if found is None:
            return None
        life, version = found
        return Read(version.data or b"", version.tag(life))

    def create(self, key: str, data: bytes) -> str | None:
        """Write the object unless there is one; give its tag, ``None``: there is one."""
        return versions.create(self._root, names_of(key), data)

    def swap(self, key: str, tag: str, data: bytes) -> str | None:
        """Write the object if it still has this tag; give the new one, ``None``: it has another, or is gone."""
        return versions.swap(self._root, names_of(key), tag, data)

    def write(self, key: str, data: bytes | Iterator[bytes]) -> None:
        """Write an object that is never swapped, under a name that nobody else writes, or all with the same bytes."""
        names = names_of(key)
        if _ONCE.fullmatch(names[-1]) is None:
            message = f"expected a name of hexadecimal digits for what is written once, found {names[-1][:80]!r}"
            raise NotDoneError(message)
        with self._root.file((data,) if isinstance(data, bytes) else data) as made:
            for turn in range(_ROUNDS):
                try:
                    with self._root.at(names[:-1], make=True) as folder:
                        made.rename(folder, names[-1])
                        self._root.sync(folder)
                except FileNotFoundError:
                    # Its folder was empty and has been removed; or what we had made was swept, while we slept.
                    if turn == _ROUNDS - 1:
                        raise
                else:
                    return

    def open(self, key: str) -> Iterator[bytes] | None:
        """Open an object that was written once, whose bytes come part by part; ``None``: there is none."""
        opened = self._opened(names_of(key))
        return None if opened is None else _parts(opened)

    def list(self, prefix: str) -> Iterator[Listed]:
        """List the objects below a folder, in whatever order; the prefix ends where a name does."""
        return self._below(names_of(prefix) if prefix else ())

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is no problem. Folders that are empty then go as well."""
        for key in keys:
            names = names_of(key)
            with suppress(FileNotFoundError), self._root.at(names[:-1]) as folder:
                try:
                    os.unlink(names[-1], dir_fd=folder)
                except IsADirectoryError:
                    versions.end(self._root, names)
                    remove_if_empty(folder, names[-1])
            self._remove_empty(names[:-1])

    def sweep(self, older_than: float) -> None:
        """Remove what the killed have left aside more than so many seconds ago, and at least an hour."""
        self._root.sweep(older_than)

    def _remove_empty(self, names: tuple[str, ...]) -> None:
        """Remove a folder that is empty, and those around it that are then."""
        with suppress(FileNotFoundError):
            while names:
                with self._root.at(names[:-1]) as above:
                    if not remove_if_empty(above, names[-1]):
                        return
                names = names[:-1]

    def _opened(self, names: tuple[str, ...]) -> int | None:
        """Open a file that was written once; ``None``: there is none, or it is of another kind."""
        try:
            with self._root.at(names[:-1]) as folder:
                opened = os.open(names[-1], READING, dir_fd=folder)
        except FileNotFoundError:
            return None
        if stat.S_ISREG(os.fstat(opened).st_mode):
            return opened
        os.close(opened)
        return None

    def _below(self, names: tuple[str, ...]) -> Iterator[Listed]:
        folders: list[str] = []
        files: list[Listed] = []
        try:
            with self._root.at(names) as here, os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif _ONCE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            found = entry.stat(follow_symlinks=False)
                            files.append(_listed((*names, entry.name), found.st_size, found.st_mtime))
        except FileNotFoundError:
            return
        yield from files
        if any(map(versions.is_life, folders)):
            standing = versions.look(self._root, names)
            if standing is None:
                versions.bury(self._root, names)
            else:
                yield _listed(names, len(standing[1].data or b""), standing[1].modified)
            return
        for name in folders:
            if names or name != ASIDE:
                yield from self._below((*names, name))


def _parts(opened: int) -> Iterator[bytes]:
    with open(opened, "rb", buffering=0) as file:
        while part := file.read(_PART):
            yield part


def _listed(names: tuple[str, ...], size: int, modified: float) -> Listed:
    return Listed("/".join(names), size, datetime.fromtimestamp(modified, UTC))
