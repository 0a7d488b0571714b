"""Which paths git can store: what may be stored anywhere, less what git keeps for itself."""

from __future__ import annotations

import re

from perago_core.paths import problem_of
from perago_local.git.refusing import Refused

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


def _problem(path: str) -> str | None:
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
