"""The bodies the workspace suite runs, by name: each works on files by relative path, wherever they are.

They are functions of this module, so that an implementation can run them in another process. ``Folder`` shows a folder
as the mapping they expect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from random import Random
from typing import TypeAlias

Files: TypeAlias = MutableMapping[str, bytes]


class TerminalError(Exception):
    """What a body of the suite raises to say that trying again cannot help; a harness translates it."""


class Folder(MutableMapping[str, bytes]):
    """The files of a folder and those below it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __getitem__(self, path: str) -> bytes:
        found = self._root / path
        if not found.is_file():
            raise KeyError(path)
        return found.read_bytes()

    def __setitem__(self, path: str, data: bytes) -> None:
        place = self._root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def __delitem__(self, path: str) -> None:
        (self._root / path).unlink()

    def __iter__(self) -> Iterator[str]:
        return (found.relative_to(self._root).as_posix() for found in self._root.rglob("*") if found.is_file())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def listing(files: Mapping[str, bytes]) -> bytes:
    """Say what a body that reads everything sees."""
    return "\n".join(f"{path} {len(files[path])}" for path in sorted(files)).encode()


def add(files: Files) -> None:
    files["new/räksmörgås und mehr.txt"] = b"added"


def edit(files: Files) -> None:
    files["data/a.txt"] += b" and more"


def same_size(files: Files) -> None:
    files["data/a.txt"] = files["data/a.txt"][::-1]


def rewrite_the_same(files: Files) -> None:
    files["data/a.txt"] = bytes(files["data/a.txt"])


def delete(files: Files) -> None:
    del files["data/a.txt"]


def delete_everything(files: Files) -> None:
    for path in list(files):
        del files[path]


def index(files: Files) -> None:
    files["index.txt"] = listing(files)


def nothing(_files: Files) -> None:
    """Change nothing."""


def empty_file(files: Files) -> None:
    files["empty"] = b""


def big_file(files: Files) -> None:
    files["big.bin"] = BIG


def fail(files: Files) -> None:
    files["data/a.txt"] = b"half done"
    raise RuntimeError("the body says no")


def fail_terminally(_files: Files) -> None:
    raise TerminalError("trying again cannot help")


#: 5 MiB that do not compress to nothing.
BIG = Random(5).randbytes(5 * 1024 * 1024)  # noqa: S311  the same bytes every time, and no secret

BODIES: Mapping[str, Callable[[Files], None]] = {
    body.__name__: body
    for body in (
        add,
        edit,
        same_size,
        rewrite_the_same,
        delete,
        delete_everything,
        index,
        nothing,
        empty_file,
        big_file,
        fail,
        fail_terminally,
    )
}
