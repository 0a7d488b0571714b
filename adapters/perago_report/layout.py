"""Where the commits of a recorded run are drawn: by generation, the branch as it ended on the top line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from perago_report.scenes import Position


def places(
    refs: Sequence[str], branch: Collection[str], parents: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Position]:
    """Return each commit a place of its own. Parents come before their children."""
    depths: dict[str, int] = {}
    for ref in refs:
        depths[ref] = 1 + max((depths[each] for each in parents.get(ref, ()) if each in depths), default=-1)
    found: dict[str, Position] = {}
    taken: set[Position] = set()
    for ref in sorted(refs, key=lambda each: each not in branch):
        place = Position(depths[ref], 0 if ref in branch else 1)
        while place in taken:
            place = Position(place.column, place.line + 1)
        taken.add(place)
        found[ref] = place
    return found
