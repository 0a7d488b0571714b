"""One repository: where it is, what its refs are called, how it is made, opened and read.

========================================  ==============================================================================
``refs/heads/<branch>``                   targets, and staging branches under their own names
``refs/perago/staged/<name>``             the tree linked so far; it also tells a staging name from a target
``refs/perago/claims/<task>/<attempt>``   one claim record, a blob
``refs/perago/raised/<task>``             the highest claim of a task, a blob
========================================  ==============================================================================

Whatever must survive ``git gc`` is under a ref.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from perago_core.answers import NotDoneError
from perago_core.values import Claim, Commit, CommitRef, Target

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
STAGED = "refs/perago/staged/"
CLAIMS = "refs/perago/claims/"
RAISED = "refs/perago/raised/"
HEADS = "refs/heads/"
#: The file in which git keeps many refs at once after a ``git gc`` or ``git pack-refs``.
PACKED = "packed-refs"
#: Larger blobs are packed whole by git, so that they can be streamed from a pack too.
BIG = 16 * 1024 * 1024


class _Handles(threading.local):
    def __init__(self) -> None:
        self.opened: dict[tuple[Path, int], pygit2.Repository] = {}


_handles = _Handles()


def folder_of(root: Path, name: str) -> Path:
    """Return the folder of a repository. The name comes from outside, so it must not be able to leave the root."""
    if _REPOSITORY.fullmatch(name) is None or ".." in name or name.endswith((".git", ".lock")):
        message = (
            f"{name!r} is no repository name: use letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
        raise NotDoneError(message)
    return root / f"{name}.git"


def opened(folder: Path) -> pygit2.Repository:
    """Open a repository, once for each thread: a handle of libgit2 is not made to be shared."""
    try:
        identity = folder.stat().st_ino
    except FileNotFoundError as missing:
        message = f"no repository at {folder}: `perago run` makes it; create it first, or correct the repository's name"
        raise NotDoneError(message) from missing
    key = (folder, identity)
    if key not in _handles.opened:
        _handles.opened[key] = pygit2.Repository(str(folder))
    return _handles.opened[key]


def create(folder: Path, branch: str) -> None:
    """Make an empty repository unless there is one, whole or not at all."""
    head = head_ref(branch)
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = folder.parent / f".making-{secrets.token_hex(8)}"
    try:
        repository = pygit2.init_repository(str(making), bare=True, initial_head=branch)
        repository.set_head(head)
        # Git packs what is larger undivided and undeltified; the default of 512 MiB would need that much memory.
        repository.config["core.bigFileThreshold"] = BIG
        repository.config["core.compression"] = 1
        try:
            making.rename(folder)
        except OSError:
            if not folder.exists():  # else somebody else has made it
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


def durable(repository: pygit2.Repository) -> bool:
    """Whether every write must reach the disk before it counts, as the repository's own setting says."""
    setting = "core.fsyncObjectFiles"
    return setting in repository.config and repository.config.get_bool(setting)


def head_ref(branch: str) -> str:
    """Name the ref of a branch, refusing what git would refuse."""
    ref = f"{HEADS}{branch}"
    if not pygit2.reference_is_valid_name(ref) or branch.startswith("-"):
        message = f"{branch!r} is no branch name: see 'git help check-ref-format'"
        raise NotDoneError(message)
    return ref


def staging_ref(name: str) -> str:
    """Name the ref of a staging branch: letters, digits, ``_`` and ``-`` (P-41)."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,219}", name) is None:
        message = f"{name!r} is no staging name: use letters, digits, '_' and '-', at most 220"
        raise NotDoneError(message)
    return f"{HEADS}{name}"


def task_key(target: Target, logical_task: str) -> str:
    """Return the key that all claims of one task on one target share."""
    return _digest(target.branch, logical_task)


def record_ref(claim: Claim) -> str:
    """Name the ref of one attempt's claim record. Every delivery of the attempt shares it: one of them publishes."""
    attempt = _digest(*claim.key)
    return f"{CLAIMS}{task_key(claim.target, claim.logical_task)}/{attempt}"


def raised_ref(target: Target, logical_task: str) -> str:
    """Name the ref of a task's highest claim."""
    return f"{RAISED}{task_key(target, logical_task)}"


def _digest(*parts: str) -> str:
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def target_of(repository: pygit2.Repository, ref: str) -> pygit2.Oid | None:
    """Return the object a ref points at now; ``None``: there is no such ref."""
    try:
        target = repository.lookup_reference(ref).target
    except KeyError:
        return None
    if isinstance(target, str):
        message = f"{ref} is a symbolic ref to {target}: name {target} itself as the target"
        raise NotDoneError(message)
    return target


def refs_under(repository: pygit2.Repository, prefix: str) -> tuple[str, ...]:
    """Name the refs of one folder of refs, in order, without reading any other: claims of other tasks may be many.

    Loose ones first: git writes the packed file before it removes what it packed, so none is missed on its way there.
    """
    home = Path(repository.path)
    found = {
        (Path(folder) / name).relative_to(home).as_posix()
        for folder, _, names in os.walk(home / prefix)
        for name in names
        if not name.endswith(".lock")
    }
    with suppress(FileNotFoundError):
        found |= packed_names((home / PACKED).read_bytes(), prefix)
    return tuple(sorted(found))


def without_packed(content: bytes, refs: Collection[str]) -> bytes:
    """Remove refs from the bytes of ``packed-refs``. A line ``^id`` belongs to the tag in the line before it."""
    removed = {ref.encode() for ref in refs}
    kept: list[bytes] = []
    dropping = False
    for line in content.splitlines(keepends=True):
        if not line.startswith(b"^"):
            dropping = line.rstrip(b"\n").partition(b" ")[2] in removed
        if not dropping:
            kept.append(line)
    return b"".join(kept)


def packed_names(content: bytes, prefix: str) -> set[str]:
    """List the refs in the bytes of ``packed-refs`` that begin with a prefix."""
    wanted = b" " + prefix.encode()
    return {line.partition(b" ")[2].decode() for line in content.splitlines() if line[40:].startswith(wanted)}


def commit_at(repository: pygit2.Repository, ref: str) -> pygit2.Commit | None:
    """Return a commit by its full id. A branch name is no id: whoever means a commit must not get whatever moves."""
    if _COMMIT.fullmatch(ref) is None:
        return None
    try:
        found = repository[ref]
    except KeyError:
        return None
    return found.peel(pygit2.Commit) if found.type == ObjectType.COMMIT else None


def needed(repository: pygit2.Repository, ref: str) -> pygit2.Commit:
    """Return a commit by its full id, or refuse."""
    found = commit_at(repository, ref)
    if found is None:
        message = f"no commit {ref} in {repository.path}: give the full id of a commit that exists"
        raise NotDoneError(message)
    return found


def described_commit(found: pygit2.Commit) -> Commit:
    """Return a commit as the core knows it."""
    parents = tuple(CommitRef(str(parent)) for parent in found.parent_ids)
    metadata = (("committer", found.committer.name), ("time", str(found.commit_time)))
    return Commit(CommitRef(str(found.id)), parents, str(found.tree_id), found.message, metadata)


def new_commit(
    repository: pygit2.Repository, tree: pygit2.Oid, parents: Iterable[pygit2.Oid], message: str, by: str
) -> pygit2.Oid:
    """Write a commit object; no ref points at it yet.

    ``by`` is the staging name, unique for each execution. Without it two executions that stage equal trees within one
    second would make the very same commit, and nobody could tell whose publication the head is.
    """
    now = int(time.time())
    author = pygit2.Signature("perago", "perago@localhost", now, 0)
    committer = pygit2.Signature(by, "perago@localhost", now, 0)
    return repository.create_commit(None, author, committer, message, tree, list(parents))
