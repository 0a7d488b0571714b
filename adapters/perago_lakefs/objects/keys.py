"""Which keys a sync may touch. lakeFS takes nearly any text for a key, and keeps one folder for its own use.

What lies in ``_lakefs_actions/`` runs inside the server, our fence among it: whoever could write there could take the
fence away for everybody. So that folder is invisible to every sync: it is neither listed, read, written nor deleted.
"""

from __future__ import annotations

from perago_core.answers import NotDoneError
from perago_core.names import problem_of
from perago_lakefs.hook import FOLDER


def is_hidden(path: str) -> bool:
    """Return whether a key belongs to the server."""
    return path.startswith(FOLDER)


def readable(path: str) -> str:
    """Return a key or a prefix back that may be read, however odd; refuse what belongs to the server."""
    if is_hidden(path):
        raise NotDoneError(
            f"expected a path outside {FOLDER}, found {path[:80]!r}: what is there belongs to the server"
        )
    return path


def removable(path: str) -> str:
    """Return a key back that may be deleted, however odd, so that an overwrite can also clear what others left."""
    if not path:
        raise NotDoneError("expected a path, found an empty one")
    return readable(path)


def writable(path: str) -> str:
    """Return a key back that may be written: it becomes a file on somebody's disk. One ``/`` at the end is a marker."""
    problem = problem_of(path)
    if problem is not None:
        raise NotDoneError(f"the path {path[:80]!r} cannot be stored: {problem}")
    return readable(path)
