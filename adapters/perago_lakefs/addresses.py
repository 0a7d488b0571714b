"""Names and ids on lakeFS: what may be one, and which id lakeFS gives a commit by its content.

A commit's id is a digest of what it says (``commit:v1``, part of lakeFS's format since its beginning). lakeFS checks it
when a commit is written by its id, so a mistake here is refused, never believed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from perago_core.names import is_staging_name
from perago_core.values import CommitRef
from perago_lakefs.answers import Refused

_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,219}")
_COMMIT = re.compile(r"[0-9a-f]{64}")
_BYTES, _STRING, _INT, _STRINGS, _MAP, _EMBEDDED = range(6)


def branch_name(name: str) -> str:
    """Give a name that a branch may have, or refuse."""
    if _BRANCH.fullmatch(name) is None:
        message = f"{name!r} is no branch name on lakeFS: use letters, digits, '_' and '-', at most 220"
        raise Refused(message)
    return name


def staging_name(name: str) -> str:
    """Give a name that is ours to write and delete, or refuse: a target is moved by publishing only."""
    if not is_staging_name(name):
        message = f"{name!r} is no staging name: only names made for an execution are written, committed or deleted"
        raise Refused(message)
    return branch_name(name)


def is_commit_id(ref: str) -> bool:
    """Say whether this is the full id of a commit. A branch name is none: it means whatever it is at by then."""
    return _COMMIT.fullmatch(ref) is not None


def commit_id(ref: str) -> CommitRef:
    """Give the full id of a commit, or refuse."""
    if not is_commit_id(ref):
        message = f"{ref!r} is no commit id: give the 64 digits of a commit, since a branch may move meanwhile"
        raise Refused(message)
    return CommitRef(ref)


def digest(*parts: str) -> str:
    """Give a short name for a list of texts, another one for every other list."""
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def parentless(committer: str, message: str, tree: str, created: int, metadata: Mapping[str, str]) -> CommitRef:
    """Give the id of a commit without parents."""
    said = b"".join(
        (
            _string("commit:v1"),
            _string(committer),
            _string(message),
            _string(tree),
            _int(created),
            bytes((_MAP,)) + _int(len(metadata)),
            *(_string(key) + _string(metadata[key]) for key in sorted(metadata)),
            bytes((_EMBEDDED,)) + _bytes(hashlib.sha256(bytes((_STRINGS,)) + _int(0)).digest()),
        )
    )
    return CommitRef(hashlib.sha256(said).hexdigest())


def _int(value: int) -> bytes:
    return bytes((_INT, 8)) + value.to_bytes(8, "big", signed=True)


def _bytes(value: bytes) -> bytes:
    return bytes((_BYTES,)) + _int(len(value)) + value


def _string(value: str) -> bytes:
    said = value.encode()
    return bytes((_STRING,)) + _int(len(said)) + said
