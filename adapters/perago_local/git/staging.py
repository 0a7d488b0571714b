"""Staging names: a branch at the input, and beside it the tree that has been linked so far.

The tree's ref also tells a staging name from a target: whatever has none is not written, committed to or deleted here
(ST-8). It is made first and removed last, so a name without it never exists.
"""

from __future__ import annotations

import pygit2

from perago_core.answers import NotDoneError
from perago_core.values import CommitRef, StagedRef
from perago_local.git import trees
from perago_local.git.repository import HEADS, PACKED, STAGED, needed, new_commit, refs_under, staging_ref, target_of
from perago_local.git.tickets import Moves, exclusively

#: How often a link starts again when another link of the same name came first.
_ROUNDS = 20


def tree_ref(name: str) -> str:
    """Name the ref of the tree that is linked under a staging name."""
    return f"{STAGED}{staging_ref(name).removeprefix(HEADS)}"


def make(repository: pygit2.Repository, name: str, at: CommitRef, patience: float) -> None:
    """Create a staging name; refuse if a branch has that name, whoever made it (P-42)."""
    branch, tree = staging_ref(name), tree_ref(name)
    commit = needed(repository, at)

    def work(moves: Moves) -> None:
        if moves.read(branch) is not None:
            message = f"{name} exists already: an execution never adopts what another left behind"
            raise NotDoneError(message)
        moves.move(tree, commit.tree_id)
        moves.move(branch, commit.id)

    exclusively(repository, (branch, tree), work, patience)


def linked(repository: pygit2.Repository, name: str) -> pygit2.Oid:
    """Return the tree linked so far."""
    tree = target_of(repository, tree_ref(name))
    if tree is None or target_of(repository, staging_ref(name)) is None:
        message = f"{name} is no staging name here: it was never opened, or it has been revoked or dropped"
        raise NotDoneError(message)
    return tree


def link(repository: pygit2.Repository, name: str, changes: trees.Changes, patience: float) -> None:
    """Change the linked tree. The tree is made before our turn begins: it may take long, and others would wait."""
    for _ in range(_ROUNDS):
        before = linked(repository, name)
        after = trees.changed(repository, before, changes)
        if after == before or _swapped(repository, name, before, after, patience):
            return
    message = f"busy: {_ROUNDS} times another link of {name} came first. Nothing was linked; try again."
    raise NotDoneError(message)


def _swapped(repository: pygit2.Repository, name: str, before: pygit2.Oid, after: pygit2.Oid, patience: float) -> bool:
    def work(moves: Moves) -> bool:
        if linked(repository, name) != before:
            return False
        moves.move(tree_ref(name), after)
        return True

    return exclusively(repository, (staging_ref(name), tree_ref(name)), work, patience)


def commit(
    repository: pygit2.Repository, in_repository: str, name: str, message: str, patience: float
) -> StagedRef | None:
    """Commit what is linked; ``None``: nothing differs from the commit the name stands at (S-12)."""
    branch = staging_ref(name)

    def work(moves: Moves) -> StagedRef | None:
        tree = linked(repository, name)
        at = needed(repository, str(moves.read(branch)))
        if tree == at.tree_id:
            return None
        made = new_commit(repository, tree, [at.id], message, name)
        moves.move(branch, made)
        return StagedRef(in_repository, name, CommitRef(str(made)), str(tree))

    return exclusively(repository, (branch, tree_ref(name)), work, patience)


def revert(
    repository: pygit2.Repository, in_repository: str, name: str, message: str, patience: float
) -> StagedRef | None:
    """Commit the content before the commit the name stands at; ``None``: that one has changed nothing."""
    branch = staging_ref(name)

    def work(moves: Moves) -> StagedRef | None:
        linked(repository, name)
        at = needed(repository, str(moves.read(branch)))
        if not at.parents:
            wrong = f"expected a commit with something before it, found the first one, {at.id}"
            raise NotDoneError(wrong)
        before = at.parents[0].tree_id
        if before == at.tree_id:
            return None
        made = new_commit(repository, before, [at.id], message, name)
        moves.move(tree_ref(name), before)
        moves.move(branch, made)
        return StagedRef(in_repository, name, CommitRef(str(made)), str(before))

    return exclusively(repository, (branch, tree_ref(name)), work, patience)


def drop(repository: pygit2.Repository, name: str, patience: float) -> None:
    """Delete a staging name; one that is not there is no problem (ST-6)."""
    refs = [staging_ref(name), tree_ref(name)]
    if _is_ours(repository, name):
        exclusively(repository, (PACKED, *refs), lambda moves: moves.delete(refs), patience)


def _is_ours(repository: pygit2.Repository, name: str) -> bool:
    """Whether there is something to delete, refusing a branch that is no staging name."""
    if target_of(repository, tree_ref(name)) is not None:
        return True
    if target_of(repository, staging_ref(name)) is not None:
        message = f"{name} is a branch and no staging name: it is not deleted here"
        raise NotDoneError(message)
    return False


def names(repository: pygit2.Repository, prefix: str = "") -> tuple[str, ...]:
    """List the staging names that begin with this."""
    found = (ref.removeprefix(STAGED) for ref in refs_under(repository, STAGED))
    return tuple(name for name in found if name.startswith(prefix))
