"""What came onto a branch since a commit: the walk from a head down to it, and which commit changed what.

Stores answer ``Store.since`` with it. They bring two things: how a commit is read, and which paths differ between two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from perago_core.ports import FARTHEST, NAMED
from perago_core.values import Commit, CommitRef, Landed

#: Gives paths that differ between two commits, all of them or some: one at least if there is one.
Differing: TypeAlias = Callable[[CommitRef, CommitRef], Iterable[str]]


def above(base: CommitRef, head: CommitRef, look: Callable[[CommitRef], Commit]) -> tuple[Commit, ...] | None:
    """Walk from a head down to a commit by first parents; ``None``: it is not there, or farther than we walk."""
    found: list[Commit] = []
    at = head
    while at != base:
        if len(found) == FARTHEST:
            return None
        found.append(look(at))
        if not found[-1].parents:
            return None
        at = found[-1].parents[0]
    return tuple(found)


def landed(commits: Sequence[Commit], base: CommitRef, differing: Differing) -> tuple[Landed, ...]:
    """Tell for each commit what it was the last to change of what differs between the base and the newest.

    Where nothing differs, which is what disjoint writers see, that is one comparison, however many commits there are.
    What no single comparison explains is put down to the newest: a difference never goes unseen.
    """
    if not commits:
        return ()
    left = set(differing(base, commits[0].ref))
    found: list[Landed] = []
    for commit in commits:
        own = left & set(differing(commit.parents[0], commit.ref)) if left else set[str]()
        left -= own
        found.append(Landed(commit, tuple(sorted(own)[:NAMED])))
    if left:
        found[0] = Landed(commits[0], (*found[0].touched, *sorted(left)[:NAMED]))
    return tuple(found)
