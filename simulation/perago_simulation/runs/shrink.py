"""Make a failing run easier to read: fewer faults first, then fewer switches between actors, then fewer steps.

It works on labels, not on indices: taking one choice out would change what every later index means. A label that is not
possible any more is passed over. A smaller run counts only if it breaks the same property.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from perago_simulation.runs.schedule import Failure
from perago_simulation.runs.world_cache import WorldCache, actor_of, fault_of
from perago_simulation.world.model import Label


def cost(labels: Sequence[Label]) -> tuple[int, int, int]:
    """Give what is to become less: faults, switches, steps."""
    actors = [actor_of(label) for label in labels]
    switches = sum(one != other for one, other in pairwise(actors))
    return sum(fault_of(label) is not None for label in labels), switches, len(labels)


def shrink(worlds: WorldCache, failure: Failure, tries: int = 20_000) -> Failure:
    """Give the smallest run found that breaks the same property; the given one, if none is smaller."""
    best = failure
    left = tries
    while left > 0:
        for labels in _smaller(best.labels):
            left -= 1
            tried = follow(worlds, labels)
            if tried is not None and tried.property == best.property and cost(tried.labels) < cost(best.labels):
                best = tried
                break
            if left <= 0:
                return best
        else:
            return best
    return best


def follow(worlds: WorldCache, labels: Sequence[Label]) -> Failure | None:
    """Take the labels that are possible, in order, until something is wrong; ``None`` if nothing becomes wrong."""
    node = worlds.begin()
    choices: list[int] = []
    taken: list[Label] = []
    for label in (*labels, None):
        if node.labels is None:
            worlds.expand(node)
        assert node.labels is not None
        if label is not None and label in node.labels:
            index = node.labels.index(label)
            choices.append(index)
            taken.append(label)
            node = node.children[index]
        if node.wrong is not None:
            return Failure(*node.wrong, tuple(choices), tuple(taken))
    return None


def _smaller(labels: tuple[Label, ...]) -> Iterator[tuple[Label, ...]]:
    """Give shorter runs, long cuts first, then runs in which an actor goes on for longer before another's turn."""
    size = len(labels) // 2
    while size:
        for start in range(0, len(labels), size):
            yield labels[:start] + labels[start + size :]
        size //= 2
    actors = [actor_of(label) for label in labels]
    for actor in dict.fromkeys(actors):
        yield tuple(label for label in labels if actor_of(label) != actor)
    for at in range(1, len(labels)):
        for earlier in range(at - 1, 0, -1):
            if actors[earlier - 1] == actors[at] and actors[earlier] != actors[at]:
                yield (*labels[:earlier], labels[at], *labels[earlier:at], *labels[at + 1 :])
        for later in range(at + 1, len(labels)):
            if actors[later] == actors[at] and actors[at + 1] != actors[at]:
                yield (*labels[:at], *labels[at + 1 : later], labels[at], *labels[later:])
