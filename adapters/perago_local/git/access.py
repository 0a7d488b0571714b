"""The sink and the source: small values that name a repository and can be sent to any process on this machine."""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO

import pygit2
from attrs import frozen

from perago_core.answers import Answer, NotDoneError
from perago_core.names import is_ignored
from perago_core.ports import Stored
from perago_core.values import CommitRef
from perago_local.git import objects, staging, trees
from perago_local.git.answers import answer
from perago_local.git.repository import folder_of, needed, opened


@frozen
class GitSink:
    """Writes under one staging name."""

    root: Path
    repository: str
    name: str
    patience: float

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Store bytes for a path without making them part of the staging branch."""

        def work() -> Stored:
            trees.split_path(path.rstrip("/") if trees.is_marker(path) else path)
            blob, size = objects.write(self._opened(), data)
            if trees.is_marker(path) and size:
                message = f"the path {path!r} ends in '/', which is a directory marker, and has {size} bytes"
                raise NotDoneError(message)
            return Stored(path, str(blob), str(blob), size)

        return answer(work)

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        """Make stored bytes visible on the staging branch, and remove paths from it."""

        def work() -> None:
            repository = self._opened()
            changes: dict[tuple[str, ...], pygit2.Oid | None] = {
                trees.split_path(path): None for path in deleted if not trees.is_marker(path)
            }
            for each in stored:
                if not trees.is_marker(each.path):
                    changes[trees.split_path(each.path)] = _blob(repository, each)
            staging.link(repository, self.name, changes, self.patience)

        return answer(work)

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List what the staging branch shows under a prefix."""

        def work() -> tuple[Stored, ...]:
            repository = self._opened()
            return tuple(trees.listed(repository, staging.linked(repository, self.name), prefix))

        return answer(work)

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        """Write a manifest under a name that readers of the data ignore."""

        def work() -> None:
            if not is_ignored(path):
                message = f"readers would take {path!r} for data: give a manifest a name that begins with '_' or '.'"
                raise NotDoneError(message)
            repository = self._opened()
            blob, _ = objects.write(repository, io.BytesIO(manifest))
            staging.link(repository, self.name, {trees.split_path(path): blob}, self.patience)

        return answer(work)

    def _opened(self) -> pygit2.Repository:
        return opened(folder_of(self.root, self.repository))


def _blob(repository: pygit2.Repository, stored: Stored) -> pygit2.Oid:
    """Return the stored blob, refusing one that is gone: a tree that names it would be broken for good."""
    blob = pygit2.Oid(hex=stored.address)
    if blob not in repository.odb:
        message = f"the bytes of {stored.path!r} are not in the repository (any more): put them again"
        raise NotDoneError(message)
    return blob


@frozen
class GitSource:
    """Reads one commit."""

    root: Path
    repository: str
    ref: CommitRef

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List the objects of the commit under a prefix."""

        def work() -> tuple[Stored, ...]:
            repository = self._opened()
            return tuple(trees.listed(repository, needed(repository, self.ref).tree_id, prefix))

        return answer(work)

    def get(self, path: str) -> Answer[BinaryIO]:
        """Open one object of the commit."""

        def work() -> BinaryIO:
            repository = self._opened()
            blob = trees.found(repository, needed(repository, self.ref).tree_id, path)
            if blob is None:
                message = f"no file {path!r} in commit {self.ref}"
                raise NotDoneError(message)
            return objects.read(repository, blob)

        return answer(work)

    def _opened(self) -> pygit2.Repository:
        return opened(folder_of(self.root, self.repository))
