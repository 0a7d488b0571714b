"""What the simulated store holds: bytes, trees of paths, commits, branches. Plain data, one repository each.

Ids are digests of what they name, and a commit's also of its place in the order of commits: two merges of the same
content are two commits, as they are in a real store, and a run repeated gives the same ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeAlias

from attrs import Factory, define

from perago_core.values import Commit, CommitRef

#: Each path with the address of its bytes.
Tree: TypeAlias = Mapping[str, str]
#: Each changed path with the address of its new bytes; ``None`` removes it.
Changes: TypeAlias = Mapping[str, str | None]

#: Longer paths are refused, as they are by the stores this one stands for.
LONGEST = 1024


def objection(path: str) -> str | None:
    """Say why a path must not be used as a key, or nothing: it must stay inside wherever it is written to."""
    parts = path.removesuffix("/").split("/")
    if any(part in {"", ".", ".."} for part in parts):
        return f"{path!r} is not a plain relative path: no empty part, no '.', no '..', no leading '/'"
    if "\0" in path or "\\" in path:
        return f"{path!r} has a NUL or a backslash in it: use '/' between the parts"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return f"{path!r} is not text: it cannot be written as UTF-8"
    return f"a path of {size} bytes is too long: at most {LONGEST}" if size > LONGEST else None


def changed(tree: Tree, changes: Changes) -> Tree:
    """Give the tree with the changes made."""
    after = {**tree, **{path: address for path, address in changes.items() if address is not None}}
    return {path: address for path, address in after.items() if changes.get(path, address) is not None}


def differences(before: Tree, after: Tree) -> Changes:
    """Give the changes that make one tree of the other."""
    paths = {**before, **after}
    return {path: after.get(path) for path in paths if before.get(path) != after.get(path)}


@define
class Branch:
    """A name for a commit, with what was written to it and not committed."""

    at: CommitRef
    uncommitted: dict[str, str | None] = Factory(dict[str, str | None])


@define
class Repository:
    """Everything of one repository."""

    blobs: dict[str, bytes] = Factory(dict[str, bytes])
    trees: dict[str, Tree] = Factory(dict[str, Tree])
    commits: dict[CommitRef, Commit] = Factory(dict[CommitRef, Commit])
    branches: dict[str, Branch] = Factory(dict[str, Branch])

    def keep(self, data: bytes) -> str:
        """Store bytes and give their address."""
        address = hashlib.sha256(data).hexdigest()
        self.blobs[address] = data
        return address

    def commit(self, parents: tuple[CommitRef, ...], tree: Tree, message: str) -> Commit:
        """Make a commit."""
        tree_id = _digest(*(f"{path}\0{tree[path]}" for path in sorted(tree)))
        ref = CommitRef(_digest(str(len(self.commits)), *parents, tree_id, message))
        self.trees[tree_id] = tree
        self.commits[ref] = Commit(ref, parents, tree_id, message)
        return self.commits[ref]

    def tree(self, ref: CommitRef) -> Tree:
        """Give the tree of a commit."""
        return self.trees[self.commits[ref].tree]

    def shown(self, name: str) -> Tree:
        """Give what a branch shows: its commit, and on top of it what is not committed."""
        branch = self.branches[name]
        return changed(self.tree(branch.at), branch.uncommitted)

    def merged(self, source: CommitRef, onto: CommitRef) -> CommitRef:
        """Make the merge of one commit onto another: what the source changed since its parent, as one new commit.

        Where both have changed a path the source wins, silently: a store that blends is the worst case, and the one
        that is explored.
        """
        base = self.tree(self.commits[source].parents[0])
        tree = changed(self.tree(onto), differences(base, self.tree(source)))
        return self.commit((onto,), tree, f"merge of {source}: {self.commits[source].message}").ref


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
