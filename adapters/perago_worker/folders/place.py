"""Where a file of a workspace will be: made new, never one that is there, nor a link to somewhere else."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO, Final, NoReturn

from attrs import frozen

from perago_worker.folders.errors import WorkspaceError, shown

_CHUNK: Final = 1 << 20
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: What a file system says of a name that it does not take.
_NO_NAME: Final = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)


@frozen
class Place:
    """A file that will be there, below ``work``, with these permissions."""

    work: str
    name: str
    mode: int

    @property
    def path(self) -> str:
        """Say where it is."""
        return f"{self.work}/{self.name}"

    def create(self) -> BinaryIO:
        """Make the file, and give it to be written."""
        with naming(self.name):
            return os.fdopen(os.open(self.path, _CREATE, self.mode), "wb")

    def copy(self, other: Place, size: int) -> None:
        """Be a copy that the body can do with what it likes: never a link, or an edit of one would be one of both.

        The kernel copies, and shares the blocks until they are written to where the file system can.
        """
        with open(other.path, "rb", buffering=0) as original, self.create() as copy:  # noqa: PTH123  thousands
            _copy(original.fileno(), copy.fileno(), size, self.name)


@contextmanager
def naming(name: str) -> Generator[None]:
    """Make something of this name; say so where a file system cannot have it beside what is there."""
    try:
        yield
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise WorkspaceError(collision(name)) from None
    except ValueError as error:
        raise WorkspaceError(_impossible(name, error)) from None
    except OSError as error:
        if error.errno not in _NO_NAME:
            raise
        raise WorkspaceError(_impossible(name, error)) from None


def collision(name: str) -> str:
    """Say that two keys would be one file."""
    return (
        f"expected a place of its own for each key; found that {shown(name)} and another key are one on this file "
        "system, or one is the folder of the other. Rename one of them on the branch"
    )


def _impossible(name: str, error: Exception) -> str:
    return f"{shown(name)} cannot be a file here: {error}. Rename it on the branch"


def _copy(original: int, copy: int, size: int, name: str) -> None:
    left = size
    try:
        while left:
            left -= os.copy_file_range(original, copy, left) or _cut_short(name)
    except (OSError, AttributeError):  # another file system, or a system without that call
        os.lseek(original, 0, os.SEEK_SET)
        with open(original, "rb", closefd=False) as source, open(copy, "wb", closefd=False) as file:
            file.seek(0)
            shutil.copyfileobj(source, file, _CHUNK)


def _cut_short(name: str) -> NoReturn:
    raise OSError(f"no bytes came while copying to {shown(name)}")
