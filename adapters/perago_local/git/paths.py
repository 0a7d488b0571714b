"""Which paths may be stored. They come from outside, and they become names in a tree and later files on some disk."""

from __future__ import annotations

import re

from perago_local.git.refusing import Refused

_LONGEST_PATH = 1024
_LONGEST_NAME = 255
#: What else is ``.git`` to some file system: HFS+ ignores code points, NTFS drops dots and spaces and has short names.
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_GIT_NAMES = frozenset({".git", "git~1", ".gitmodules"})


def checked(path: str) -> tuple[str, ...]:
    """Split a path into its names, or refuse it."""
    problem = _problem(path)
    if problem is not None:
        message = f"the path {path[:80]!r} cannot be stored: {problem}"
        raise Refused(message)
    return tuple(path.split("/"))


def is_marker(path: str) -> bool:
    """Say whether a path is a directory marker: git has no empty folders, so a marker is accepted and not kept."""
    return path.endswith("/") and path != "/"


def is_ignored(path: str) -> bool:
    """Say whether readers of the data leave a file out: Spark and Hive skip names that begin like this."""
    return path.rpartition("/")[2].startswith(("_", "."))


def _problem(path: str) -> str | None:
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode; rename the file"
    if length > _LONGEST_PATH:
        return f"it has {length} bytes, and at most {_LONGEST_PATH} are allowed; shorten it"
    if "\0" in path:
        return "it contains a NUL character"
    if path.startswith("/"):
        return "it is absolute; give it relative to the root of the repository"
    for name in path.split("/"):
        if name in {"", ".", ".."}:
            return f"it has {name!r} where a name should be; give the path in its shortest form"
        if len(name.encode()) > _LONGEST_NAME:
            return f"{name[:20]!r}... has more than {_LONGEST_NAME} bytes; shorten it"
        if _IGNORED.sub("", name).casefold().split(":")[0].rstrip(" .") in _GIT_NAMES:
            return f"{name!r} is a name that git keeps for itself; rename the file"
    return None
