"""Somebody who uses the store past the protocol: commits, merges, resets, deletes the branch, leaves objects on it.

Whatever he does changes the branch record, so that updates the store had begun begin again; except that uncommitted
objects leave the record as it is, since they lie beside it. The explored world has the same stranger.
"""

from __future__ import annotations

from collections.abc import Mapping

from perago_core.values import CommitRef, Target
from perago_simulation.ports.lake import Branch, Lake, changed


class Stranger:
    """A stranger at one branch."""

    def __init__(self, lake: Lake, target: Target) -> None:
        self._lake = lake
        self._target = target
        self._repository = lake.repositories[target.repository]

    def commit(self, files: Mapping[str, bytes | None]) -> CommitRef:
        """Commit on the head; ``None`` removes a file. Uncommitted objects, whoever left them, become part of it."""
        with self._lake.dispatcher.lock:
            tree = changed(self._repository.shown(self._target.branch), self._stored(files))
            made = self._repository.commit((self._branch.at,), tree, "by a stranger").ref
            self._branch.uncommitted.clear()
            return self._move(made)

    def merge(self, files: Mapping[str, bytes | None]) -> CommitRef:
        """Merge what was committed elsewhere: two parents."""
        with self._lake.dispatcher.lock:
            at = self._branch.at
            tree = changed(self._repository.tree(at), self._stored(files))
            side = self._repository.commit((at,), tree, "elsewhere").ref
            return self._move(self._repository.commit((at, side), tree, "merged by a stranger").ref)

    def reset(self, ref: CommitRef) -> None:
        """Take the branch to another commit."""
        with self._lake.dispatcher.lock:
            self._move(ref)

    def delete(self) -> CommitRef:
        """Delete the branch, and with it what is not committed; give where it was."""
        with self._lake.dispatcher.lock:
            self._lake.publications.restart(self._target)
            return self._repository.branches.pop(self._target.branch).at

    def recreate(self, ref: CommitRef) -> None:
        """Make the branch anew."""
        with self._lake.dispatcher.lock:
            self._repository.branches[self._target.branch] = Branch(ref)

    def write(self, path: str, data: bytes) -> None:
        """Leave an uncommitted object on the branch."""
        with self._lake.dispatcher.lock:
            self._branch.uncommitted[path] = self._repository.keep(data)

    def discard(self) -> None:
        """Take the uncommitted objects away."""
        with self._lake.dispatcher.lock:
            self._branch.uncommitted.clear()
            self._lake.publications.restart(self._target)

    @property
    def _branch(self) -> Branch:
        return self._repository.branches[self._target.branch]

    def _stored(self, files: Mapping[str, bytes | None]) -> dict[str, str | None]:
        return {path: None if data is None else self._repository.keep(data) for path, data in files.items()}

    def _move(self, ref: CommitRef) -> CommitRef:
        self._branch.at = ref
        self._lake.publications.restart(self._target)
        return ref
