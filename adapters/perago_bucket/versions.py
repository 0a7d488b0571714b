"""One object that is replaced under a condition, on a file system that knows none: as a row of versions.

``<key>/@<life>/<number>``. A version is a file that never changes. Replacing number 7 means giving the name 8 to a file
that is complete, which succeeds for one of all who try (``link``). No lock is taken, so whoever dies or sleeps holds
nobody up.

Old versions are removed, always the oldest first, and some stay. Counterexample: a writer that has read 7 sleeps until
8 was made and removed, and makes it again. So it looks afterwards whether 7 is still there. If it is, then 8 had not
been removed, so it had not been there. If not, it may have been too late, or others have gone on since: nobody knows.

What is there must be *the* 7. Counterexample: one who has read 6 and slept makes a 7 as well, in vain, and one who has
read 7 and slept finds that one. So each version begins with a nonce, which is part of its tag. What was made in vain is
below what is current, where nobody looks.

Deleting an object is its last version: nobody can follow on that. Then its life is taken away in one step, by a name
that no other life has. A new one is made apart and takes the place of an empty folder, or of none. So no number of one
life is ever mistaken for that of another.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import BinaryIO

from attrs import frozen

from perago_bucket.documented import whole
from perago_bucket.folders import READING, Made, Root, names_in, step

#: How many versions stay. Whoever sleeps between its replacement and its look back, while so many follow, cannot tell.
KEPT = 8
#: How often somebody begins again because others were faster.
_ROUNDS = 100
_TAG = re.compile(r"(@[0-9a-f]{16})\.([1-9][0-9]*)\.([0-9a-f]{32})")
_LIFE = re.compile(r"@[0-9a-f]{16}")
_NUMBER = re.compile(r"[1-9][0-9]*")
_HEADER = re.compile(rb"([0-9a-f]{32}) (is|gone)\n")
_HEADER_LENGTH = 64
_PART = 1 << 20


class OvertakenError(OSError):
    """A version was made, and when its maker looked back, what it was to replace was gone: nobody knows."""


@frozen
class Version:
    """One version as it was read. ``data``: ``None`` if it is the last, after which there is no object."""

    number: int
    nonce: str
    data: bytes | None
    modified: float

    def tag(self, life: str) -> str:
        """Name the version for whoever wants to replace it."""
        return f"{life}.{self.number}.{self.nonce}"


def is_life(name: str) -> bool:
    """Return whether a folder of this name is the life of the object that the folder around it is."""
    return _LIFE.fullmatch(name) is not None


def life_in(folder: int) -> str | None:
    """Return the life that is in the folder of an object; ``None``: there is no object."""
    return next(filter(is_life, names_in(folder)), None)


def create(root: Root, names: Sequence[str], data: bytes) -> str | None:
    """Begin the life of an object; give its tag, ``None``: it has one."""
    life, nonce = f"@{token_hex(8)}", token_hex(16)
    with root.folder() as made:
        _write_first(root, made, life, _content(nonce, data))
        for _ in range(_ROUNDS):
            try:
                with root.at(names[:-1], make=True) as folder:
                    made.rename(folder, names[-1])
                    root.sync(folder)
            except FileNotFoundError:
                # Its folder was empty, and removed. Or a server was asked twice, because its answer was lost.
                found = look(root, names)
                if found is None or found[0] != life:
                    continue
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise
                if not _is_free(root, names):
                    return None
                continue
            return f"{life}.1.{nonce}"
    message = f"{'/'.join(names)} could not be made: others remove its folder, or what was made, again and again"
    raise OSError(message)


def look(root: Root, names: Sequence[str]) -> tuple[str, Version] | None:
    """Return the current version of an object, with its life; ``None``: there is none, or its last one was made."""
    try:
        with root.at(names) as folder:
            life = life_in(folder)
        if life is None:
            return None
        with root.at((*names, life)) as here:
            found = current(here)
    except FileNotFoundError:
        return None  # it ended while we looked
    return None if found is None or found.data is None else (life, found)


def current(here: int) -> Version | None:
    """Return the current version of a life; ``None``: it was taken away.

    A listing is a hint, because names come and go while it is made. That the next number is not there, and this one
    still is after that, means that it was current in between: a next one that was there and is gone would have taken
    this one with it. What was made in vain is never the highest of a listing, which for so few names is one step.
    """
    for _ in range(_ROUNDS):
        numbers = [int(name) for name in names_in(here) if _NUMBER.fullmatch(name)]
        if not numbers:
            return None
        number = max(numbers)
        while _is_there(here, number + 1):
            number += 1
        found = _read(here, number)
        if found is not None:
            return found
    message = f"expected a version that stays while it is read, found {_ROUNDS} that did not: too many write here"
    raise OSError(message)


def swap(root: Root, names: Sequence[str], tag: str, data: bytes | None) -> str | None:
    """Replace the version of this tag, for good with ``None``; give the new tag, ``None``: another one is current."""
    known = _TAG.fullmatch(tag)
    if known is None:
        return None
    life, number, nonce = known[1], int(known[2]), token_hex(16)
    try:
        with root.at((*names, life)) as here:
            # Most who come too late are told so here, and have made nothing in vain.
            if _is_there(here, number + 1) or _nonce(here, number) != known[3]:
                return None
            with root.file(_content(nonce, data)) as made:
                if not _is_followed(here, number, nonce, made):
                    return None
            root.sync(here)
            was_current = _nonce(here, number) == known[3]
            with suppress(OSError):  # whoever comes next removes them
                remove_old(here, number + 1)
    except FileNotFoundError:
        return None  # the object has ended, or what we had made was swept while we slept
    if not was_current:
        message = (
            f"{'/'.join(names)} was replaced, and when we looked back what we had replaced was gone: others have gone "
            "on since, or had gone on before"
        )
        raise OvertakenError(message)
    return f"{life}.{number + 1}.{nonce}"


def _is_followed(here: int, number: int, nonce: str, made: Made) -> bool:
    """Let a version be followed by what was made, unless another follows it already."""
    try:
        made.link(here, str(number + 1))
    except FileExistsError:
        # A server that was asked twice, because its answer was lost, says so of what it did itself.
        return _nonce(here, number + 1) == nonce
    return True


def end(root: Root, names: Sequence[str]) -> None:
    """End the life of an object, whatever its version; one that has none is no problem, one that began since stays."""
    ending: str | None = None
    for _ in range(_ROUNDS):
        found = look(root, names)
        if found is None or ending not in {None, found[0]}:
            bury(root, names)
            return
        ending, version = found
        with suppress(OvertakenError):  # whoever buries what we ended takes away what we look back at
            swap(root, names, version.tag(ending), None)
    message = f"{'/'.join(names)} could not be ended: {_ROUNDS} times somebody else replaced it first"
    raise OSError(message)


def bury(root: Root, names: Sequence[str]) -> None:
    """Take away a life that has ended, unless there is none or it has not: whoever ended it may have died before."""
    try:
        with root.at(names) as folder:
            life = life_in(folder)
            if life is None:
                return
            with root.at((*names, life)) as here:
                last = current(here)
            if last is not None and last.data is None:
                root.take_aside(folder, life)
    except FileNotFoundError:
        return


def _is_free(root: Root, names: Sequence[str]) -> bool:
    """Return whether an object may be made here after all, once what has ended is out of the way."""
    if look(root, names) is not None:
        return False
    bury(root, names)
    try:
        with root.at(names) as folder:
            others = [name for name in names_in(folder) if not is_life(name)]
    except FileNotFoundError:
        return True
    if others:
        message = f"{'/'.join(names)} holds {others[0][:80]!r}, which is not ours: move it out of {root.path}"
        raise OSError(message)
    return True


def _write_first(root: Root, made: Made, life: str, content: Sequence[bytes]) -> None:
    with step(made.folder, made.name) as top:
        os.mkdir(life, dir_fd=top)
        with step(top, life) as here:
            root.write(here, "1", content)
            root.sync(here)
        root.sync(top)


def _content(nonce: str, data: bytes | None) -> tuple[bytes, ...]:
    return (f"{nonce} gone\n".encode(),) if data is None else (f"{nonce} is\n".encode(), data)


def remove_old(here: int, number: int) -> None:
    """Remove all but the newest, the oldest first; what others remove meanwhile is no problem."""
    for each in sorted(int(name) for name in names_in(here) if _NUMBER.fullmatch(name)):
        if each > number - KEPT:
            return
        try:
            os.unlink(str(each), dir_fd=here)
        except FileNotFoundError:
            continue


def _is_there(here: int, number: int) -> bool:
    try:
        os.stat(str(number), dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _nonce(here: int, number: int) -> str | None:
    """Return the nonce of a version; ``None``: it is gone."""
    file = _opened(here, number)
    if file is None:
        return None
    with file:
        return _header(file, number)[0]


def _read(here: int, number: int) -> Version | None:
    """Read a version; ``None``: it is gone."""
    file = _opened(here, number)
    if file is None:
        return None
    with file:
        nonce, is_last = _header(file, number)
        data = whole(iter(lambda: file.read(_PART), b""), str(number))
        return Version(number, nonce, None if is_last else data, os.fstat(file.fileno()).st_mtime)


def _opened(here: int, number: int) -> BinaryIO | None:
    try:
        return os.fdopen(os.open(str(number), READING, dir_fd=here), "rb")
    except FileNotFoundError:
        return None


def _header(file: BinaryIO, number: int) -> tuple[str, bool]:
    """Read the line a version begins with: its nonce, and whether it is the last one."""
    found = _HEADER.fullmatch(file.readline(_HEADER_LENGTH))
    if found is None:
        message = f"expected version {number}, found something else: it was not written here"
        raise OSError(message)
    return found[1].decode(), found[2] == b"gone"
