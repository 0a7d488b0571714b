"""Fewer faults that still break something: delta debugging over the plan of a round that did.

Complements and parts are played again, each alone, and the smallest list that broke is kept. A machine's timing is not
in a plan, so one that does not break when it is played again may be one that would have: what is left is small enough
to break, not proven to be the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TypeVar

T = TypeVar("T")


def shrunk(faults: Sequence[T], breaks: Callable[[Sequence[T]], bool], replays: int) -> tuple[T, ...]:
    """Return as few of the faults as still break something, having played at most so many lists of them."""
    left: tuple[T, ...] = tuple(faults)
    parts = 2
    tried: set[tuple[T, ...]] = {left, ()}
    while len(left) > 1 and replays > 0:
        fresh = [each for each in dict.fromkeys(_smaller(left, parts)) if each not in tried]
        for each in islice(fresh, replays):
            replays -= 1
            tried.add(each)
            if breaks(each):
                left, parts = each, 2
                break
        else:
            if parts >= len(left):
                break
            parts = min(len(left), 2 * parts)
    return left


def _smaller(faults: tuple[T, ...], parts: int) -> Iterator[tuple[T, ...]]:
    """Return each of so many parts, then what is left without each of them."""
    cuts = [len(faults) * each // parts for each in range(parts + 1)]
    pieces = [(faults[begin:end], faults[:begin] + faults[end:]) for begin, end in pairwise(cuts)]
    yield from (piece for piece, _ in pieces)
    yield from (rest for _, rest in pieces)
