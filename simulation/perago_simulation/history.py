"""Commits of the simulated store, named after what they are, so that equal histories are equal without renaming.

``C2`` is what execution 2 staged; ``M2`` is its merge onto its own input and ``M2@F0`` its merge onto another head;
``F0@A`` is a stranger's commit on ``A``. A name says everything, so a world only has to hold names.
"""

from __future__ import annotations

from functools import cache

from perago_core.values import Commit, CommitRef

ROOT = CommitRef("A")
_ROOT = Commit(ROOT, (), "t:A")
_COMMITS: dict[str, Commit] = {ROOT: _ROOT}


def commit(ref: str) -> Commit:
    """Give the commit of this name."""
    return _COMMITS[ref]


def staged(run: int, base: str, tree: str) -> CommitRef:
    """Make what an execution stages on its input."""
    return _make(f"C{run}" if base == ROOT else f"C{run}({base})", base, tree)


def merged(run: int, source: str, onto: str) -> CommitRef:
    """Make the merge of a staged commit onto a head; on its own base it is the staged tree, elsewhere a blend."""
    base = commit(source).parents[0]
    name = f"M{run}" if onto == base == ROOT else f"M{run}@{onto}"
    tree = commit(source).tree if onto == base else f"{commit(source).tree}+{commit(onto).tree}"
    return _make(name, onto, tree)


def foreign(number: int, onto: str) -> CommitRef:
    """Make a stranger's commit."""
    return _make(f"F{number}@{onto}", onto, f"t:F{number}+{commit(onto).tree}")


def _make(name: str, parent: str, tree: str) -> CommitRef:
    ref = CommitRef(name)
    if ref not in _COMMITS:
        _COMMITS[ref] = Commit(ref, (CommitRef(parent),), tree)
    return ref


@cache
def chain(ref: str) -> tuple[str, ...]:
    """Give the first-parent chain, newest first."""
    parents = commit(ref).parents
    return (ref, *(chain(parents[0]) if parents else ()))
