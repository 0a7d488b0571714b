"""Trees and the paths in them: changing a few paths without touching the rest, listing, merging file by file.

A changed file rewrites its own folder and those above it and no other: all else is shared with the tree before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import pygit2
from pygit2.enums import FileMode

from perago_core.answers import NotDoneError
from perago_core.names import problem_of
from perago_core.ports import Stored

#: Split paths, each with the blob it shall be, or ``None`` where it shall not be.
Changes: TypeAlias = Mapping[tuple[str, ...], pygit2.Oid | None]
_Entry: TypeAlias = tuple[int, pygit2.Oid]
_Sides: TypeAlias = tuple[pygit2.Oid | None, ...]
_LONGEST_NAME = 255
#: What else is ``.git`` to some file system: HFS+ ignores code points, NTFS drops dots and spaces and has short names.
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_GIT_NAMES = frozenset({".git", "git~1", ".gitmodules"})


def split_path(path: str) -> tuple[str, ...]:
    """Split a path into its names, or refuse it."""
    problem = _path_problem(path)
    if problem is not None:
        message = f"the path {path[:80]!r} cannot be stored: {problem}"
        raise NotDoneError(message)
    return tuple(path.split("/"))


def is_marker(path: str) -> bool:
    """Whether a path is a directory marker: git has no empty folders, so a marker is accepted and not kept."""
    return path.endswith("/") and path != "/"


def _path_problem(path: str) -> str | None:
    anywhere = problem_of(path)
    if anywhere is not None:
        return anywhere
    for name in path.split("/"):
        if not name:
            return "it is a directory marker, and git has no empty folders; give the path of a file"
        if len(name.encode()) > _LONGEST_NAME:
            return f"{name[:20]!r}... has more than {_LONGEST_NAME} bytes; shorten it"
        if _IGNORED.sub("", name).casefold().split(":")[0].rstrip(" .") in _GIT_NAMES:
            return f"{name!r} is a name that git keeps for itself; rename the file"
    return None


def changed(repository: pygit2.Repository, base: pygit2.Oid, changes: Changes) -> pygit2.Oid:
    """Return the tree that ``base`` becomes by these changes. Deleting a path that does not exist changes nothing."""
    return _changed(repository, base, changes, "") or repository.TreeBuilder().write()


def _changed(repository: pygit2.Repository, base: pygit2.Oid | None, changes: Changes, at: str) -> pygit2.Oid | None:
    """Return the changed folder; ``None``: nothing is left in it."""
    builder = repository.TreeBuilder() if base is None else repository.TreeBuilder(base)
    before = None if base is None else _tree(repository, base)
    inside: dict[str, dict[tuple[str, ...], pygit2.Oid | None]] = {}
    for path, blob in changes.items():
        inside.setdefault(path[0], {})[path[1:]] = blob
    for name, below in inside.items():
        was = None if before is None or name not in before else (before[name].filemode, before[name].id)
        becomes = _changed_entry(repository, was, below, f"{at}{name}")
        if becomes is not None:
            builder.insert(name, becomes[1], FileMode(becomes[0]))
        elif was is not None:
            builder.remove(name)
    return builder.write() if len(builder) else None


def _changed_entry(repository: pygit2.Repository, was: _Entry | None, changes: Changes, path: str) -> _Entry | None:
    """Return what an entry becomes. A file goes first and comes last, so one change can make it a folder or back."""
    itself = () in changes
    blob = changes.get(())
    below = {rest: each for rest, each in changes.items() if rest}
    if itself and blob is None and not _is_folder(was):
        was = None
    if was is None or _is_folder(was):
        if below:
            folder = _changed(repository, None if was is None else was[1], below, f"{path}/")
            was = None if folder is None else (FileMode.TREE, folder)
    elif any(each is not None for each in below.values()):
        _refuse(path, "a file", "a folder")
    if blob is None:
        return was
    if _is_folder(was):
        _refuse(path, "a folder", "a file")
    executable = was is not None and was[0] == FileMode.BLOB_EXECUTABLE
    return (FileMode.BLOB_EXECUTABLE if executable else FileMode.BLOB), blob


def _is_folder(entry: _Entry | None) -> bool:
    return entry is not None and entry[0] == FileMode.TREE


def _refuse(path: str, found: str, wanted: str) -> None:
    message = f"{path!r} is {found} and cannot also be {wanted}: delete it in the same change"
    raise NotDoneError(message)


def listed(repository: pygit2.Repository, tree: pygit2.Oid, prefix: str) -> Iterator[Stored]:
    """List the files whose path begins like this, in order. Folders that cannot match are not even opened."""
    sizes = repository.odb
    for path, blob in _walked(repository, tree, "", prefix):
        yield Stored(path, str(blob), str(blob), sizes.read_header(blob)[1])


def _walked(repository: pygit2.Repository, tree: pygit2.Oid, at: str, prefix: str) -> Iterator[tuple[str, pygit2.Oid]]:
    for name, (mode, found) in _entries(repository, tree).items():
        path = f"{at}{name}"
        if mode == FileMode.TREE:
            inside = f"{path}/"
            if inside.startswith(prefix) or prefix.startswith(inside):
                yield from _walked(repository, found, inside, prefix)
        elif mode != FileMode.COMMIT and path.startswith(prefix):  # a submodule is no file of ours
            yield path, found


def _entries(repository: pygit2.Repository, tree: pygit2.Oid | None) -> dict[str, _Entry]:
    """Return a folder's entries. A name that is no UTF-8, which only a stranger can have made, keeps its bytes."""
    if tree is None:
        return {}
    return {_name(entry): (entry.filemode, entry.id) for entry in _tree(repository, tree)}


def _name(entry: pygit2.Object) -> str:
    assert entry.raw_name is not None
    return entry.raw_name.decode("utf-8", "surrogateescape")


def _tree(repository: pygit2.Repository, tree: pygit2.Oid) -> pygit2.Tree:
    found = repository[tree]
    assert isinstance(found, pygit2.Tree)
    return found


def found(repository: pygit2.Repository, tree: pygit2.Oid, path: str) -> pygit2.Oid | None:
    """Return the blob at a path; ``None``: there is no file."""
    try:
        entry = _tree(repository, tree)[path]
    except KeyError:
        return None
    return entry.id if isinstance(entry, pygit2.Blob) else None


def differing(
    repository: pygit2.Repository, one: pygit2.Oid | None, other: pygit2.Oid | None, prefix: str, at: str = ""
) -> Iterator[str]:
    """Name the files under a prefix that differ between two folders. Folders that both share are not opened."""
    left, right = _entries(repository, one), _entries(repository, other)
    for name in sorted(left.keys() | right.keys()):
        sides = (left.get(name), right.get(name))
        path = f"{at}{name}"
        if sides[0] == sides[1]:
            continue
        folders = tuple(side[1] if _is_folder(side) and side is not None else None for side in sides)
        inside = f"{path}/"
        if any(folders) and (inside.startswith(prefix) or prefix.startswith(inside)):
            yield from differing(repository, folders[0], folders[1], prefix, inside)
        if path.startswith(prefix) and any(side is not None and not _is_folder(side) for side in sides):
            yield path


def merged(repository: pygit2.Repository, sides: _Sides, at: str = "") -> pygit2.Oid:
    """Merge three ways (base, ours, theirs), whole file by whole file: lines of data are never mixed."""
    base, ours, theirs = (_entries(repository, each) for each in sides)
    builder = repository.TreeBuilder()
    for name in sorted(base.keys() | ours.keys() | theirs.keys()):
        kept = _merged_entry(repository, (base.get(name), ours.get(name), theirs.get(name)), f"{at}{name}")
        if kept is not None:
            builder.insert(name, kept[1], FileMode(kept[0]))
    return builder.write()


def _merged_entry(
    repository: pygit2.Repository, sides: tuple[_Entry | None, _Entry | None, _Entry | None], path: str
) -> _Entry | None:
    base, ours, theirs = sides
    if theirs in {base, ours}:
        return ours
    if ours == base:
        return theirs
    if all(side is None or _is_folder(side) for side in sides):
        below = merged(repository, tuple(None if side is None else side[1] for side in sides), f"{path}/")
        return (FileMode.TREE, below) if _entries(repository, below) else None
    message = f"{path!r} was changed on the target and in the staged commit: start again from the current head"
    raise NotDoneError(message)
