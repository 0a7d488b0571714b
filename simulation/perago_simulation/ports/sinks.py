"""Where a simulated execution writes and reads: one staging name, one commit. Picklable within their process."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

from attrs import frozen

from perago_core.answers import Answer, Done, NotDone
from perago_core.ports import Stored
from perago_core.values import CommitRef, Target
from perago_simulation.ports.objects import Repository, Tree, objection

if TYPE_CHECKING:
    from perago_simulation.ports.lake import Lake


def _listed(repository: Repository, tree: Tree, prefix: str) -> tuple[Stored, ...]:
    return tuple(
        Stored(path, tree[path], tree[path], len(repository.blobs[tree[path]]))
        for path in sorted(tree)
        if path.startswith(prefix)
    )


@frozen
class SimulatedSink:
    """The writer of one staging name."""

    store: Lake
    target: Target
    name: str

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Store bytes; the staging branch does not show them before they are linked."""
        wrong = objection(path)
        if wrong is not None:
            return NotDone(wrong)
        content = data.read()
        with self.store.dispatcher.lock:
            repository = self.store.repository(self.target.repository)
            if repository is None:
                return NotDone(f"there is no repository {self.target.repository}")
            address = repository.keep(content)
        return Done(Stored(path, address, address, len(content)))

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        """Make stored bytes visible on the staging branch, all or nothing."""
        with self.store.dispatcher.lock:
            repository = self.store.repository(self.target.repository)
            wrong = self.store.no_staging(self.target, self.name) or _not_linkable(repository, stored)
            if wrong is not None or repository is None:
                return NotDone(wrong or "no repository")
            uncommitted = repository.branches[self.name].uncommitted
            uncommitted.update({each.path: each.address for each in stored})
            uncommitted.update(dict.fromkeys(deleted))
            return Done(None, operations=len(stored) + len(deleted))

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List what the staging branch shows."""
        with self.store.dispatcher.lock:
            repository = self.store.repository(self.target.repository)
            if repository is None or self.name not in repository.branches:
                return NotDone(f"there is no {self.name} in {self.target.repository}")
            return Done(_listed(repository, repository.shown(self.name), prefix))

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        """Write a manifest; its name begins with ``_``, which readers of data skip."""
        if not path.rpartition("/")[2].startswith("_"):
            return NotDone(f"{path!r} would be read as data: a manifest's name begins with '_'")
        stored = self.put(path, BytesIO(manifest))
        return self.link((stored.value,)) if isinstance(stored, Done) else stored


def _not_linkable(repository: Repository | None, stored: tuple[Stored, ...]) -> str | None:
    for each in stored:
        wrong = objection(each.path)
        if wrong is not None:
            return wrong
        if repository is None or each.address not in repository.blobs:
            return f"nothing is stored at {each.address}: put {each.path!r} first"
    return None


@frozen
class SimulatedSource:
    """The reader of one commit."""

    store: Lake
    repository: str
    ref: CommitRef

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List the objects of the commit."""
        with self.store.dispatcher.lock:
            repository = self.store.repository(self.repository)
            if repository is None or self.ref not in repository.commits:
                return NotDone(f"there is no commit {self.ref} in {self.repository}")
            return Done(_listed(repository, repository.tree(self.ref), prefix))

    def get(self, path: str) -> Answer[BinaryIO]:
        """Open one object of the commit."""
        listed = self.list(path)
        if not isinstance(listed, Done):
            return listed
        found = [each.address for each in listed.value if each.path == path]
        repository = self.store.repository(self.repository)
        if not found or repository is None:
            return NotDone(f"there is no {path!r} in commit {self.ref}")
        return Done(BytesIO(repository.blobs[found[0]]))
