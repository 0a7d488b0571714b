"""What somebody does to the target who does not take part: commits, merges, resets, deletes it, leaves objects on it.

A stranger may take off the branch what was accepted. That breaks no promise of ours, so the world keeps what strangers
removed. What he finds there may be anything, and whatever he does changes the branch record, except that uncommitted
objects leave the record as it is: they lie beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from perago_simulation.world.history import chain, foreign, foreign_merge
from perago_simulation.world.state import CLEAN, DIRTY, MISSING, World, branch_of, restarted, with_head, with_rare

Label: TypeAlias = tuple[str, str, str]
Move: TypeAlias = tuple[Label, World]
Moves: TypeAlias = Iterator[Move]


def commit(world: World) -> Moves:
    """Commit on the head; uncommitted objects, whoever left them, become part of it."""
    if branch_of(world) is not MISSING:
        ref = foreign(len(world.strangers), world.head)
        yield ("stranger", "commit", ref), _added(world, ref)


def merge(world: World) -> Moves:
    """Merge something else into the head: two parents. A store refuses that where uncommitted objects lie."""
    if branch_of(world) is CLEAN:
        ref = foreign_merge(len(world.strangers), world.head)
        yield ("stranger", "merge", ref), _added(world, ref)


def reset(world: World) -> Moves:
    """Take the branch back to any older commit of its own history."""
    branch = chain(world.head)
    if branch_of(world) is not MISSING:
        for at, ref in enumerate(branch[1:], start=1):
            assert world.rare is not None
            removed = tuple(sorted({*world.rare.removed, *branch[:at]}))
            yield ("stranger", "reset", ref), with_head(with_rare(world, removed=removed), ref)


def delete(world: World) -> Moves:
    """Delete the branch, and with it the uncommitted objects. He will make it anew where it was."""
    if branch_of(world) is not MISSING:
        yield ("stranger", "delete", world.head), restarted(with_rare(world, branch=MISSING))


def write(world: World) -> Moves:
    """Leave an uncommitted object on the branch. Its record stays what it is, so nothing starts again."""
    if branch_of(world) is CLEAN:
        yield ("stranger", "write", "an uncommitted object"), with_rare(world, branch=DIRTY)


def tidy(world: World) -> Moves:
    """Undo what he did: make the branch anew at the same commit, or discard the objects, which rotates the record."""
    if branch_of(world) is MISSING:
        yield ("stranger", "recreate", world.head), with_rare(world, branch=CLEAN)
    elif branch_of(world) is DIRTY:
        yield ("stranger", "discard", "the uncommitted objects"), restarted(with_rare(world, branch=CLEAN))


def _added(world: World, ref: str) -> World:
    after = with_head(world._replace(strangers=(*world.strangers, ref)), ref)
    return after if branch_of(world) is CLEAN else with_rare(after, branch=CLEAN)
