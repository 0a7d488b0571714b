"""A folder as it is: its files with what the file system knows of them, and what has changed since it was made.

Change is a matter of content. Size, and the change time the kernel keeps, only save reading a file that nobody can have
touched; see ``Difference``.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from perago_worker.folders.errors import WorkspaceError, shown

#: How many offending names a message has.
_NAMED = 3


@frozen
class Seen:
    """A file as the file system shows it. ``changed`` is the time of its last change, which no program can set."""

    size: int
    inode: int
    modified: int
    changed: int


@frozen
class Tree:
    """The files and the folders below one folder, by relative path with ``/``."""

    files: dict[str, Seen]
    folders: frozenset[str]


def scan(root: Path) -> Tree:
    """Look at everything below a folder without following a link. Anything but files and folders is refused."""
    try:
        found = os.lstat(root)
    except FileNotFoundError:
        raise WorkspaceError(
            "expected the workspace folder; found that the body removed it. Empty it instead"
        ) from None
    if not stat.S_ISDIR(found.st_mode):
        raise WorkspaceError(
            "expected the workspace folder; found something else in its place. Leave the folder itself alone"
        )
    files: dict[str, Seen] = {}
    folders: set[str] = set()
    odd: list[str] = []
    for name, entry in _walk(root):
        if entry.is_symlink():
            odd.append(f"{shown(name)} (a symbolic link)")
        elif entry.is_dir(follow_symlinks=False):
            folders.add(name)
        elif entry.is_file(follow_symlinks=False):
            files[name] = _seen(entry.stat(follow_symlinks=False))
        else:
            odd.append(f"{shown(name)} (neither file nor folder)")
    if odd:
        more = f" and {len(odd) - _NAMED} more" if len(odd) > _NAMED else ""
        raise WorkspaceError(
            f"expected files and folders only; found {', '.join(sorted(odd)[:_NAMED])}{more}. "
            "Copy what a link points to, or delete it"
        )
    return Tree(files, frozenset(folders))


def _walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Go through everything, without recursion: a body may nest folders deeper than Python may call."""
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            with os.scandir(root / above) as entries:
                listed = list(entries)
        except PermissionError:
            raise WorkspaceError(
                f"expected a folder we can read; found {shown(above)} closed. Do not take away permissions"
            ) from None
        for entry in listed:
            name = f"{above}{entry.name}"
            if not _is_text(entry.name):
                raise WorkspaceError(f"expected names in UTF-8; found {shown(name)}. Rename the file")
            yield name, entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{name}/")


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _seen(found: os.stat_result) -> Seen:
    return Seen(found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


@frozen
class Changes:
    """What must be written and what must be removed, by relative path."""

    written: tuple[str, ...]
    deleted: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.written or self.deleted)


@frozen
class Difference:
    """Compares a folder with what it was made from. ``originals`` holds the SHA-256 of each file as it was.

    A file that looks exactly as before (same inode, size, times) is not read again, under two conditions:

    * Its change time lies before ``settled``, taken when the folder was complete. Clocks of file systems tick in
      milliseconds: a body that starts in the tick in which a file was made can write to it and leave every time as it
      was. Such a file is read (Git calls it racy).
    * The file system tells the truth (``keeps_change_times``); otherwise ``settled`` is 0 and everything is read.
    """

    before: Mapping[str, Seen]
    originals: Mapping[str, bytes]
    settled: int

    def with_now(self, root: Path, now: Tree) -> Changes:
        """Say what has changed."""
        written = tuple(sorted(name for name, seen in now.files.items() if self._differs(root, name, seen)))
        deleted = tuple(sorted(name for name in self.before if name not in now.files))
        return Changes(written, deleted)

    def _differs(self, root: Path, name: str, seen: Seen) -> bool:
        before = self.before.get(name)
        if before is None or before.size != seen.size:
            return True
        if before == seen and seen.changed < self.settled:
            return False
        try:
            with open_plain(root / name) as file:
                return hashlib.file_digest(file, hashlib.sha256).digest() != self.originals[name]
        except PermissionError:
            raise WorkspaceError(
                f"expected files we can read; found {shown(name)} closed. Do not take away permissions"
            ) from None


def open_plain(path: Path | str) -> io.FileIO:
    """Open a file for reading, and nothing that points to one or stands in its place: a pipe would be waited for.

    Without a buffer: who reads it reads blocks.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise WorkspaceError(f"expected a file; found that {shown(str(path).rpartition('/')[2])} is none any more")
    return os.fdopen(opened, "rb", buffering=0)


def keeps_change_times(folder: Path) -> bool:
    """Find out whether this file system notices every write. Some in memory miss those through a mapping."""
    try:
        return _notices_a_mapped_write(folder)
    except OSError:
        return False  # no mappings at all, or a network in between


def _notices_a_mapped_write(folder: Path) -> bool:
    # Without a name: who is killed here would leave a file that nobody knows to be ours.
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"before")
        probe.flush()
        first = os.fstat(probe.fileno()).st_ctime_ns
        until = time.monotonic() + 1.0
        while clock_of(folder) <= first:
            if time.monotonic() > until:
                return False  # a clock that does not move tells nothing
            time.sleep(0.001)
        with mmap.mmap(probe.fileno(), 6) as mapped:
            mapped[:] = b"after!"
        return os.fstat(probe.fileno()).st_ctime_ns > first


def clock_of(folder: Path) -> int:
    """Read the clock by which the file system stamps changes."""
    with tempfile.TemporaryFile(dir=folder) as stamp:
        return os.fstat(stamp.fileno()).st_ctime_ns
