"""Commits: small immutable objects."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from perago_bucket import immutable
from perago_bucket.layout import COMMITS, Place
from perago_core.answers import NotDoneError
from perago_core.values import Commit, CommitRef


def write(place: Place, tree: str, parents: Iterable[CommitRef], message: str, by: str) -> CommitRef:
    """Write a commit; nothing points at it yet.

    ``by`` is the staging name, so that people can tell whose it is.
    """
    at = str(int(time.time()))
    metadata = (("committer", by), ("time", at))
    document = {"parents": list(parents), "tree": tree, "message": message, "metadata": metadata}
    data = json.dumps(document, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")
    return CommitRef(immutable.keep(place, COMMITS, data, _parsed(data)))


def look(place: Place, ref: CommitRef) -> Commit | None:
    """Read a commit by its id; ``None``: there is none. A branch is no id: whoever means a commit gets no other."""
    found = immutable.fetch(place, COMMITS, ref, _parsed)
    return None if found is None else _named(ref, found)


def needed(place: Place, ref: CommitRef) -> Commit:
    """Read a commit by its id, or refuse."""
    found = look(place, ref)
    if found is None:
        message = f"no commit {ref} in {place.folder}: give the full id of a commit that exists"
        raise NotDoneError(message)
    return found


def _named(ref: CommitRef, found: Commit) -> Commit:
    return Commit(ref, found.parents, found.tree, found.message, found.metadata)


def _parsed(data: bytes) -> Commit:
    document = json.loads(data.decode("utf-8", "surrogatepass"))
    return Commit(
        CommitRef("unnamed"),
        tuple(CommitRef(each) for each in document["parents"]),
        document["tree"],
        document["message"],
        tuple((key, value) for key, value in document["metadata"]),
    )
