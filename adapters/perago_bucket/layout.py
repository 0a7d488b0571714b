"""What lies where in the bucket, below its prefix; how a folder holds what changes is in ``versions``.

=============================================  =========================================================================
``<repository>/branches/<branch>``             the record of a branch, the only thing that ever changes: see ``record``
``<repository>/commits/<name>``                commits; these and the next two are ``immutable``
``<repository>/nodes/<name>``                  the manifest, in ranges of paths: see ``manifest``
``<repository>/claims/<name>``                 claims, written before a record points at them
``<repository>/data/<staging name>/<random>``  the bytes of files, each upload under a name of its own
``<repository>/together/<random>``             what decides whether several records change: see ``transaction``
``.coordination/``                             policy, ledger and audit, if they are here: see ``coordination``
``.probe/<random>/``                           what a probe makes and removes
=============================================  =========================================================================
"""

from __future__ import annotations

import hashlib
import re

from attrs import frozen

from perago_bucket.client import Bucket
from perago_core.answers import NotDoneError
from perago_core.names import EVERY, escape, unescape
from perago_core.values import Target

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_STAGING = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,219}")
_NAME = re.compile(r"[0-9a-f]{80}")
BRANCHES, COMMITS, NODES, CLAIMS, DATA, VALUES = "branches", "commits", "nodes", "claims", "data", "values"
TOGETHER = "together"

#: The folder of the data that a branch begins with: no staging name is like it.
FIRST = "first"


@frozen
class Place:
    """One repository in a bucket: where its objects are. ``folder`` is its name, or the one a probe has made."""

    bucket: Bucket
    folder: str
    #: How many paths a range of its manifests has on average; fewer than that are never cut.
    fan_out: int = 512

    def key(self, shelf: str, name: str) -> str:
        """Name an object of the repository."""
        return f"{self.folder}/{shelf}/{name}"

    def branch(self, branch: str) -> str:
        """Name the record of a branch. Staging names are no branches, so they share no name with one."""
        if branch.startswith(EVERY):
            message = f"expected a branch, found {branch!r}: names that begin with {EVERY!r} are for staging"
            raise NotDoneError(message)
        return self.key(BRANCHES, escape(branch))

    def branches(self) -> tuple[str, ...]:
        """List the branches there are."""
        found = (each.key.rpartition("/")[2] for each in self.bucket.list(f"{self.folder}/{BRANCHES}"))
        return tuple(sorted(map(unescape, found)))


def place_of(bucket: Bucket, repository: str) -> Place:
    """Return where a repository is. Its name comes from outside, so it must not be able to leave the prefix."""
    if _REPOSITORY.fullmatch(repository) is None or ".." in repository:
        message = (
            f"{repository!r} is no repository name: use letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
        raise NotDoneError(message)
    return Place(bucket, repository)


def coordination_of(bucket: Bucket) -> Place:
    """Return where keys and values are. They are written one at a time, so ranges are short."""
    return Place(bucket, ".coordination", 64)


def staging(name: str) -> str:
    """Return a staging name back; refuse what is a target, or could be one."""
    if not name.startswith(EVERY) or _STAGING.fullmatch(name) is None:
        message = f"expected a staging name, found {name[:80]!r}: only publishing changes a target"
        raise NotDoneError(message)
    return name


def is_name(name: str) -> bool:
    """Return whether this may name a commit, a range or a claim."""
    return _NAME.fullmatch(name) is not None


def digest_of(data: bytes) -> str:
    """Name immutable bytes."""
    return hashlib.sha256(data).hexdigest()


def key_of(*parts: str) -> str:
    """Write names of any length and any letters as one short key."""
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def task_key(target: Target, logical_task: str) -> str:
    """Return the key that all claims of one task on one target share."""
    return key_of(target.branch, logical_task)
