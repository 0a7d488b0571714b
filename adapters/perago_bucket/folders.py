"""A folder and what is below it, reached step by step: a symbolic link in the way leads nowhere, and is an error.

Whatever gets a name here is complete before it has one. It is made apart, in ``.aside``, waited for until the disk has
it, and then linked or renamed to where it belongs. What a killed process leaves there is no object and never becomes
one.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from secrets import token_hex

from attrs import frozen

from perago_core.answers import NotDoneError

ASIDE = ".aside"
_OURS = re.compile(r"[0-9a-f]{32}")
#: How files and folders are opened: links are not followed, and nobody waits at a pipe that somebody has put there.
READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_NAME = 255
#: How long nobody removes what is being made, in seconds.
_AT_WORK = 3600.0
#: How file systems say that a file cannot have two names.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}


@frozen
class Made:
    """A file or folder that is made apart: the folder it is in, and what it is called there for the time being."""

    folder: int
    name: str

    def link(self, folder: int, name: str) -> None:
        """Give it a name that nothing has. ``NotImplementedError``: the file system knows no second names."""
        try:
            os.link(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            message = f"the file system has no hard links: {error.strerror}"
            raise NotImplementedError(message) from error

    def rename(self, folder: int, name: str) -> None:
        """Give it a name. A file takes the place of one that is there, a folder only that of an empty one."""
        os.rename(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder)


@frozen
class Root:
    """A folder whose inside is ours. ``durable``: wait for the disk, so that what was done survives a loss of power."""

    path: Path
    durable: bool

    @contextmanager
    def at(self, names: Sequence[str], *, make: bool = False) -> Generator[int]:
        """Open a folder below. ``FileNotFoundError``: it is not there, unless it is to be made."""
        if make:
            self.path.mkdir(parents=True, exist_ok=True)
        # Whoever set the root up may have meant a link; below it, nobody has.
        here = os.open(self.path, FOLDER & ~os.O_NOFOLLOW)
        try:
            for name in names:
                if make:
                    self._make(here, name)
                below = os.open(name, FOLDER, dir_fd=here)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    @contextmanager
    def file(self, parts: Iterable[bytes]) -> Generator[Made]:
        """Make a file apart, all of it; it is gone afterwards unless it was renamed."""
        with self._aside() as aside:
            made = Made(aside, token_hex(16))
            try:
                self.write(aside, made.name, parts)
                yield made
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(made.name, dir_fd=aside)

    @contextmanager
    def folder(self) -> Generator[Made]:
        """Make a folder apart; it is gone afterwards, with what is in it, unless it was renamed."""
        with self._aside() as aside:
            made = Made(aside, token_hex(16))
            os.mkdir(made.name, dir_fd=aside)
            try:
                yield made
            finally:
                clear(aside, made.name)

    def write(self, folder: int, name: str, parts: Iterable[bytes]) -> None:
        """Write a file that is not there yet."""
        with open(os.open(name, _NEW, 0o666, dir_fd=folder), "wb") as file:  # noqa: PTH123  relative to a folder
            file.writelines(parts)
            file.flush()
            self.sync(file.fileno())

    def sync(self, descriptor: int) -> None:
        """Wait until the disk has this file, or the names in this folder."""
        if self.durable:
            os.fsync(descriptor)

    def take_aside(self, folder: int, name: str) -> None:
        """Take a folder away in one step, and then remove what is in it; one that is gone is no problem."""
        with self._aside() as aside, suppress(FileNotFoundError):
            apart = token_hex(16)
            os.rename(name, apart, src_dir_fd=folder, dst_dir_fd=aside)
            clear(aside, apart)

    def sweep(self, older_than: float) -> None:
        """Remove what was left aside more than so many seconds ago, and at least an hour: who makes it is at work.

        Whoever was only asleep finds nothing to give a name to. A folder is taken from under its name first: without
        its content it could still be renamed to where it was meant for.
        """
        latest = time.time() - max(older_than, _AT_WORK)
        with self._aside() as aside:
            old = [name for name in names_in(aside) if _OURS.fullmatch(name) and _changed(aside, name) < latest]
            for name in old:
                try:
                    os.unlink(name, dir_fd=aside)
                except IsADirectoryError:
                    self.take_aside(aside, name)
                except FileNotFoundError:
                    continue

    @contextmanager
    def _aside(self) -> Generator[int]:
        with self.at((ASIDE,), make=True) as aside:
            yield aside

    def _make(self, folder: int, name: str) -> None:
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            return
        self.sync(folder)


def _changed(folder: int, name: str) -> float:
    """Return when a file or folder changed last; what is neither, or is gone, has no such time."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return inf
    return found.st_mtime if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) else inf


def clear(folder: int, name: str) -> None:
    """Remove a folder with the versions in it, the oldest first. What is not ours stays, and its folder with it."""
    with suppress(FileNotFoundError, NotADirectoryError):
        with step(folder, name) as here:
            for each in sorted(names_in(here), key=lambda name: (len(name), name)):
                if each.startswith("@"):
                    clear(here, each)
                elif each.isdecimal():
                    with suppress(FileNotFoundError, IsADirectoryError):
                        os.unlink(each, dir_fd=here)
        remove_if_empty(folder, name)


@contextmanager
def step(folder: int, name: str) -> Generator[int]:
    """Open a folder in a folder."""
    here = os.open(name, FOLDER, dir_fd=folder)
    try:
        yield here
    finally:
        os.close(here)


def names_in(folder: int) -> list[str]:
    """List the names in a folder that is open."""
    return os.listdir(folder)


def remove_if_empty(folder: int, name: str) -> bool:
    """Remove a folder unless something is in it, or it is gone; say whether it was removed."""
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError:
        return False
    return True


def names_of(key: str) -> tuple[str, ...]:
    """Return the names that lead to an object; one that could lead elsewhere, or is no file name, is refused."""
    names = tuple(key.split("/"))
    for name in names:
        if name in {"", ".", ".."} or name.startswith("@") or "\0" in name or len(os.fsencode(name)) > _LONGEST_NAME:
            message = f"{name[:80]!r} cannot be the name of a file: use a shorter one, or another"
            raise NotDoneError(message)
    return names
