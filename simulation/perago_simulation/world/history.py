"""Commits of the simulated store, named after what they are, so that equal histories are equal without renaming.

``C2`` is what execution 2 staged on the root, ``C2(M0)`` what it staged on ``M0``. ``M2`` and ``M2(M0)`` are their
merges onto their own base, ``M2@F0`` is a merge onto another head. ``D2`` and ``E2`` are the same for executions that
all stage equal content. ``F0@A`` is a stranger's commit on ``A``, ``FM0@A`` a stranger's merge of ``F0@A`` into ``A``,
with two parents. ``U3(M2^)`` is what recovery 3 stages to undo ``M2^``, and ``N3(M2^)^`` is that, published.
``M2^[M0^]@M0^`` was published above ``M0^`` before anybody had accepted that, and says so. A name says everything, so a
world only has to hold names; two different commits must never share one, also not across the explorations of one
process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import islice

from perago_core.names import over_message
from perago_core.values import Commit, CommitRef

ROOT = CommitRef("A")
_ROOT = Commit(ROOT, (), "t:A")
_COMMITS: dict[str, Commit] = {ROOT: _ROOT}


def commit(ref: str) -> Commit:
    """Return the commit of this name."""
    return _COMMITS[ref]


def staged(run: int, base: str, *, same_tree: bool) -> CommitRef:
    """Make what an execution stages on its input; with ``same_tree`` every execution stages the same."""
    letter, own = ("D", "") if same_tree else ("C", f"e{run}")
    return _make(f"{letter}{run}" if base == ROOT else f"{letter}{run}({base})", base, f"t:{base}+{own}")


def merged(source: str, onto: str, *, joins: bool = False, over: tuple[CommitRef, ...] = ()) -> CommitRef:
    """Make the merge of a staged commit onto a head; on its own base it is the staged tree, elsewhere a blend.

    One that joins has the staged commit as its second parent, and says ``over`` which unaccepted ones it stands.
    """
    name = {"C": "M", "D": "E", "U": "N"}[source[0]] + source[1:]
    base = commit(source).parents[0]
    others = (CommitRef(source),) if joins else ()
    name = f"{name}^" if joins else name
    name = f"{name}[{','.join(over)}]" if over else name
    says = over_message("", over)
    if onto == base:
        return _make(name, onto, commit(source).tree, *others, says=says)
    return _make(f"{name}@{onto}", onto, f"{commit(source).tree}+{commit(onto).tree}", *others, says=says)


def undone(run: int, ref: str) -> CommitRef:
    """Make what a recovery stages to undo a commit: the content before it."""
    before = commit(commit(ref).parents[0])
    return _make(f"U{run}({ref})", ref, before.tree)


@cache
def absent(ref: str) -> frozenset[str]:
    """Name the commits at or below this one that count as absent: what was reverted, and what reverts it."""
    pairs = ((each, commit(commit(each).parents[1]).parents[0]) for each in chain(ref) if each[0] == "N")
    return frozenset(each for pair in pairs for each in pair)


def foreign(number: int, onto: str) -> CommitRef:
    """Make a stranger's commit."""
    return _make(f"F{number}@{onto}", onto, f"t:F{number}+{commit(onto).tree}")


def foreign_merge(number: int, onto: str) -> CommitRef:
    """Make a stranger's true merge: what it merges was committed elsewhere, and it has two parents."""
    side = foreign(number, onto)
    return _make(f"FM{number}@{onto}", onto, commit(side).tree, side)


def _make(name: str, parent: str, tree: str, *others: CommitRef, says: str = "") -> CommitRef:
    ref = CommitRef(name)
    made = Commit(ref, (CommitRef(parent), *others), tree, says)
    assert _COMMITS.setdefault(ref, made) == made, f"two commits are called {ref}"
    return ref


def made(since: int = 0) -> tuple[Commit, ...]:
    """Return the commits made in this process, oldest first, without the first so many."""
    return tuple(islice(_COMMITS.values(), since, None))


def take_over(commits: Iterable[Commit]) -> None:
    """Know these commits too; another process has made them."""
    for each in commits:
        assert _COMMITS.setdefault(each.ref, each) == each, f"two commits are called {each.ref}"


_MADE = re.compile(r"[CDEMNU](\d+)")


@cache
def maker(ref: str) -> int:
    """Return the execution that made a commit, or -1 for the root and for a stranger's."""
    made = _MADE.match(ref)
    return int(made[1]) if made else -1


@cache
def chain(ref: str) -> tuple[str, ...]:
    """Return the first-parent chain, newest first."""
    parents = commit(ref).parents
    return (ref, *(chain(parents[0]) if parents else ()))
