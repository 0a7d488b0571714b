"""Hypothesis strategies over the simulator, for our own tests and for those who embed the core.

A run is drawn as a flat list of numbers that drives a weighted choice of the next move. Hypothesis shrinks such a list
well: smaller numbers are earlier moves, and a fault needs a large last digit. When the numbers end, the run goes on
with whatever work is first, until nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from perago_core.values import Backing
from perago_simulation.runs.replay_line import command_of
from perago_simulation.runs.schedule import Chooser, Failure, carry_out
from perago_simulation.runs.world_cache import ALLOWS, CachedWorld, WorldCache
from perago_simulation.world.settings import Setting, setting

#: The backings that keep their promises whatever happens; ``soft`` does not, and is there to be broken.
STRONG = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED)

#: A drawn number is ``choice * OF_TEN + luck``; with the greatest luck the move is a fault, if one can happen.
OF_TEN = 10


def choices(max_size: int = 80) -> st.SearchStrategy[list[int]]:
    """Draw the choices of a run. Long ones, because Hypothesis left alone draws lists of five."""
    return st.lists(st.integers(0, 12 * OF_TEN - 1), min_size=max_size // 2, max_size=max_size)


@st.composite
def settings(draw: st.DrawFn, backings: Sequence[Backing] = STRONG, *, strangers: bool = False) -> Setting:
    """Draw a setting on a store that offers exactly what its backing needs."""
    return setting(
        draw(st.sampled_from(backings)),
        ledger=draw(st.booleans()),
        attempts=draw(st.integers(1, 4)),
        steps=draw(st.integers(1, 2)),
        crashes=draw(st.integers(0, 2)),
        losses=draw(st.integers(0, 2)),
        duplicates=draw(st.integers(0, 1)),
        strangers=draw(st.integers(0, 1)) if strangers else 0,
        pauses=draw(st.booleans()),
        no_ops=draw(st.booleans()),
        same_tree=draw(st.booleans()),
    )


def troubles(of: Setting) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Draw what is to go wrong: kinds of fault, each with how many chances it lets pass.

    Left to a machine's rules alone, most runs would be over before anything goes wrong.
    """
    kinds = [kind for bound, allowed in ALLOWS.items() if getattr(of, bound) for kind in allowed]
    trouble = st.tuples(st.sampled_from(kinds), st.just(0) | st.integers(0, 20))
    return st.lists(trouble, max_size=4) if kinds else st.just([])


def chooser(numbers: Sequence[int]) -> Chooser:
    """Give a chooser driven by drawn numbers; after the last of them it takes whatever work is first."""
    left = iter(numbers)

    def choose(node: CachedWorld) -> int:
        if not node.faults:
            return -1
        index, luck = divmod(next(left, 0), OF_TEN)
        work = [each for each, kind in enumerate(node.faults) if kind is None]
        faults = [each for each, kind in enumerate(node.faults) if kind is not None]
        possible = faults if faults and (luck == OF_TEN - 1 or not work) else work
        return possible[index % len(possible)]

    return choose


def drive(worlds: WorldCache, numbers: Sequence[int], steps: int = 500) -> Failure | None:
    """Make the run these numbers stand for, and give how it fails, if it does."""
    choose, made = chooser(numbers), list[int]()
    node = worlds.begin()
    while len(made) < steps:
        if node.labels is None:
            worlds.expand(node)
        index = choose(node) if node.wrong is None else -1
        if index < 0:
            break
        made.append(index)
        node = node.children[index]
    return None if node.wrong is None else Failure(*node.wrong, tuple(made), carry_out(worlds, made)[1])


def hold(worlds: WorldCache, numbers: Sequence[int], steps: int = 500) -> None:
    """Make the run these numbers stand for; if it breaks a property, say how, and how to see it again."""
    failure = drive(worlds, numbers, steps)
    if failure is not None:
        raise AssertionError(explain(worlds, failure))


def explain(worlds: WorldCache, failure: Failure) -> str:
    """Say what failed, how to see it again, and what happened."""
    happened = "\n".join(f"  {number:2} {' '.join(label)}" for number, label in enumerate(failure.labels, start=1))
    command = command_of(worlds.model, failure.choices)
    return f"{failure.property}: {failure.problem}\nto see it again: {command}\n{happened}"
