"""The commits of a run: where each is drawn, the same in every step, and what each is in one step.

A commit stands in the column of its distance from the root. The top line is the branch; below it each execution has a
line for what it staged, so that a branch pointed at somebody's staged commit is seen leaving its line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from perago_report.scenes import CommitNode, Position, Standing
from perago_simulation.runs.replay import Step
from perago_simulation.world.history import chain, commit
from perago_simulation.world.state import COMPLETED, World


def graphs(steps: Sequence[Step]) -> tuple[tuple[CommitNode, ...], ...]:
    """Give the commit graph after each step; a commit keeps its place."""
    seen: dict[str, None] = {}
    growing: list[tuple[str, ...]] = []
    for step in steps:
        seen.update(dict.fromkeys(_mentioned(step.after)))
        growing.append(tuple(seen))
    places = _places(tuple(seen))
    before: tuple[str, ...] = ()
    made: list[tuple[CommitNode, ...]] = []
    for step, refs in zip(steps, growing, strict=True):
        made.append(_nodes(step.after, refs, places, before))
        before = refs
    return tuple(made)


def _mentioned(world: World) -> Iterable[str]:
    """Name every commit a world knows of, parents first."""
    held = (
        world.head,
        *(ref for _, ref in world.names),
        *world.strangers,
        *(task.ref or task.input for task in world.tasks),
        *(request.plan.commit for request in world.requests),
    )
    for ref in held:
        yield from reversed(chain(ref))


def _places(refs: Sequence[str]) -> Mapping[str, Position]:
    """Commits of the branch share the top lines, staged ones have the line of their execution."""
    staging = sorted({_number(ref) for ref in refs if _is_staged(ref)})
    taken: set[Position] = set()
    places: dict[str, Position] = {}
    crowded = max(Counter(_depth(ref) for ref in refs if not _is_staged(ref)).values(), default=1)
    for ref in refs:
        line = crowded + staging.index(_number(ref)) if _is_staged(ref) else 0
        place = Position(_depth(ref), line)
        while place in taken:
            place = Position(place.column, place.line + 1)
        taken.add(place)
        places[ref] = place
    return places


def _nodes(
    world: World, refs: Sequence[str], places: Mapping[str, Position], before: Sequence[str]
) -> tuple[CommitNode, ...]:
    branch = set(chain(world.head))
    held = {each for _, ref in world.names for each in chain(ref)}
    accepted = {task.ref for task in world.tasks if task.status is COMPLETED}
    precious = accepted | set(world.strangers)

    def standing(ref: str) -> Standing:
        if ref in branch:
            return Standing.BRANCH
        if ref in precious:
            return Standing.LOST
        return Standing.STAGED if ref in held else Standing.ABANDONED

    return tuple(
        CommitNode(
            ref=ref,
            parent=next(iter(commit(ref).parents), ""),
            place=places[ref],
            standing=standing(ref),
            execution=f"e{_number(ref)}" if _number(ref) >= 0 else "",
            stranger=ref in world.strangers,
            head=ref == world.head,
            accepted=ref in accepted,
            names=tuple(f"e{run}" for run, at in world.names if at == ref),
            fresh=ref not in before,
        )
        for ref in refs
    )


def _is_staged(ref: str) -> bool:
    return ref[0] in "CD"


def _number(ref: str) -> int:
    """Give the execution a commit is named after; -1 for the root and for a stranger's."""
    found = re.match(r"[CDME](\d+)", ref)
    return int(found[1]) if found else -1


def _depth(ref: str) -> int:
    return len(chain(ref)) - 1
