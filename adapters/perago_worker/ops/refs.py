"""What people call a commit: a branch, an id or the beginning of one, or nothing for the head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from perago_core.answers import Done, NotDone, Unknown
from perago_core.ports import ManagedStore
from perago_core.values import Commit, CommitRef, Target
from perago_worker.api.errors import UserError

#: How many commits one request brings.
PAGE: Final = 100


class RefError(UserError):
    """There is no such commit, or nobody can tell; the message says which."""


def commit_at(store: ManagedStore, target: Target, at: str, limit: int) -> Commit:
    """Find a commit: the head, or the one of the branch whose id begins so, or just that one."""
    if not at:
        return next(commits(store, target, None, 1))
    found = [each for each in commits(store, target, None, limit) if each.ref.startswith(at)]
    if len(found) > 1:
        raise RefError(f"{at!r} could be {', '.join(each.ref[:20] for each in found[:4])}; give more of it")
    return found[0] if found else next(commits(store, target, CommitRef(at), 1))


def branch_or_commit(store: ManagedStore, target: Target, ref: str, limit: int = 1000) -> CommitRef:
    """Find what a reader names: another branch of the repository, or a commit of this one."""
    if ref:
        other = store.head(Target(target.repository, ref))
        if isinstance(other, Done) and other.value is not None:
            return other.value.commit.ref
    return commit_at(store, target, ref, limit).ref


def commits(store: ManagedStore, target: Target, at: CommitRef | None, limit: int) -> Iterator[Commit]:
    """Walk down from a commit, or from the head, by first parents."""
    left = limit
    while left > 0:
        page = store.history(target, min(PAGE, left), at)
        if isinstance(page, NotDone):
            raise RefError(f"the history of {target} cannot be read: {page.reason}")
        if isinstance(page, Unknown):
            raise RefError(f"unknown: the history of {target} cannot be read: {page.reason}. Try again once it answers")
        if not page.value:
            raise RefError(f"{target} cannot be read: there is no such branch")
        yield from page.value
        left -= len(page.value)
        if not page.value[-1].parents:
            return
        at = page.value[-1].parents[0]
