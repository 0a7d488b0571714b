"""Keys of a store as paths of a folder: which become files, which are left alone, which are refused.

A key is any text; a path is not. What a folder cannot show (an empty or ``.`` segment, an object whose name ends in
``/``) stays in the store untouched, neither shown nor deleted: one odd key must not fail a whole task. What would lead
*out* of the folder is refused, because nobody writes such a key by accident.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from perago_core.ports import Stored
from perago_worker.folders.errors import WorkspaceError, shown


@frozen
class Layout:
    """What a folder will hold: files and empty folders by relative path, and how many keys it cannot show."""

    files: dict[str, Stored]
    folders: dict[str, Stored]
    left_alone: int


def layout_of(listing: Iterable[Stored], prefix: str) -> Layout:
    """Sort the keys under a prefix. The prefix is a folder: ``sales/`` does not include ``sales-2024/x``."""
    files: dict[str, Stored] = {}
    folders: dict[str, Stored] = {}
    left_alone = 0
    for stored in listing:
        if not stored.path.startswith(prefix) or stored.path == prefix:  # the marker of the workspace itself
            continue
        relative = stored.path.removeprefix(prefix)
        _refuse_escape(stored.path, relative)
        name = relative.removesuffix("/")
        if any(part in {"", "."} for part in name.split("/")):
            left_alone += 1
        elif relative == name:
            files[relative] = stored
        elif stored.size == 0:
            folders[name] = stored  # a directory marker, as Hadoop and Spark write them
        else:
            left_alone += 1
    return Layout(files, folders, left_alone)


def _refuse_escape(key: str, relative: str) -> None:
    # A drive letter is an ordinary name here: bodies run on POSIX systems, and what may be written must be readable.
    if relative.startswith("/") or "\0" in relative or ".." in relative.split("/"):
        raise WorkspaceError(
            f"expected keys that stay inside the workspace; found {shown(key)}. Rename or delete it on the branch"
        )
