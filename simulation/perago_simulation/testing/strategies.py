"""Hypothesis strategies over the simulator, for our own tests and for those who embed the core.

A run is drawn as a flat list of numbers that drives a weighted choice of the next move. Hypothesis shrinks such a list
well: smaller numbers are earlier moves, and a fault needs a large last digit. When the numbers end, the run goes on
with whatever work is first, until nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from hypothesis import strategies as st

from perago_core.values import SHARING, Backing
from perago_simulation.catalogue.ladder import named
from perago_simulation.properties.publication import NOTHING_ALIVE_CAN_BE_REPLACED
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import Property
from perago_simulation.runs.replay import command_of
from perago_simulation.runs.schedule import CachedWorld, Chooser, Failure, WorldCache, carry_out
from perago_simulation.world.settings import SCOPES, Setting, setting

#: The backings that keep their promises whatever happens; ``soft`` does not, and is there to be broken.
STRONG = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED)

#: A drawn number is ``choice * OF_TEN + luck``; with the greatest luck the move is a fault, if one can happen.
OF_TEN = 10


def choices(max_size: int = 80) -> st.SearchStrategy[list[int]]:
    """Draw the choices of a run. Long ones, because Hypothesis left alone draws lists of five."""
    return st.lists(st.integers(0, 12 * OF_TEN - 1), min_size=max_size // 2, max_size=max_size)


#: What may go wrong beside crashes, pauses, lost answers and second deliveries; a setting has at most one of them,
#: so that each is met alone and a failure names it. The first is what a failure is shrunk to.
RARELY: tuple[Mapping[str, Any], ...] = (
    {"strangers": 1},
    {"foreign_merges": 1},
    {"foreign_resets": 1},
    {"foreign_writes": 1},
    {"recreations": 1},
    {"requeues": 1},
    {"reruns": 1},
    {"resends": 1},
    {"terminations": 1},
    {"interrupts": 1},
    {"refusals": 1},
    {"collector": True},
    {"workflows": 2},
    {"workflows": 2, "reruns": 1},
    {"twins": 1, "adopts": True, "no_ops": True},
    {"twins": 1, "adopts": True, "no_ops": True, "attempts": 1, "crashes": 0},
    {"collector": True, "attempts": 1, "crashes": 0, "duplicates": 1, "pauses": True},
)


#: Where little can go wrong, so that it goes wrong in the same run, and where those clauses are judged that excuse
#: nothing: workers that crash, workers that pause, answers that get lost, tasks that are delivered twice.
QUIET: tuple[Mapping[str, Any], ...] = (
    {"attempts": 3, "crashes": 2, "pauses": False},
    {"attempts": 3, "crashes": 0, "pauses": True},
    {"attempts": 3, "crashes": 2, "pauses": False},
    {"attempts": 2, "crashes": 0, "losses": 1, "pauses": False},
    {"attempts": 1, "crashes": 0, "duplicates": 1, "pauses": False},
)
#: What bodies do there, and whether it is written down.
BODIES: tuple[Mapping[str, Any], ...] = (
    {"no_ops": True},
    {},
    {"no_ops": True, "ledger": True},
    {"same_tree": True},
)


#: Two workflows that share a branch by what they declare to read and to write.
_SHARING: Mapping[str, Any] = {
    "attempts": 1, "crashes": 0, "pauses": False, "workflows": 2, "abreast": True, "adopts": True,
}  # fmt: skip
#: What may happen to them: at first so little that every world is looked at, whatever is declared.
_LITTLE: tuple[Mapping[str, Any], ...] = (
    {},
    {"pauses": True},
    {"no_ops": True},
    {"workflows": 1, "abreast": False, "steps": 2, "foreign_resets": 1},
)
_MORE: tuple[Mapping[str, Any], ...] = (
    {"attempts": 2, "crashes": 1},
    {"attempts": 2, "pauses": True},
    {"losses": 1},
    {"strangers": 1},
    {"foreign_resets": 1},
    {"refusals": 1},
    {"interrupts": 1},
    {"duplicates": 1},
    {"requeues": 1},
    {"crashes": 1, "reruns": 1},
    {"twins": 1, "no_ops": True},
    {"steps": 2},
    {"workflows": 3},
    {"abreast": False, "pauses": True, "terminations": 1},
)
#: Where those with disjoint scopes publish above what nobody has accepted.
_STACKED: tuple[Mapping[str, Any], ...] = ({"attempts": 2, "pauses": True}, {"strangers": 1}, {"workflows": 3})
SHARED: tuple[Mapping[str, Any], ...] = tuple(
    {**_SHARING, **more, "scopes": scopes, "stacking": 3 if scopes == "disjoint" and more in _STACKED else 0}
    # Half of those drawn are small ones.
    for more in (*_LITTLE * 3, *_MORE)
    for scopes in filter(None, SCOPES)
)


def _looked_at() -> Iterator[Setting]:
    """Give the settings where little can go wrong: one kind of trouble, or crashes and one rare thing."""
    little = [bounds for bounds in QUIET if not bounds["pauses"]] + [{**QUIET[0], **rare} for rare in RARELY]
    for backing, bounds, bodies, adopts in product(STRONG, little, BODIES, (False, True)):
        yield setting(backing, **{"adopts": adopts, **bounds, **bodies})
    for backing, more, scopes in product(SHARING, _LITTLE, filter(None, SCOPES)):
        yield setting(backing, **{**_SHARING, **more, "scopes": scopes})


#: The settings of some thousand worlds each, of which every world is looked at, as far as they are not too many. Where
#: retries may pause there are more than fifty thousand.
SMALL = frozenset(_looked_at())


def settings(
    backings: Sequence[Backing] = STRONG,
    rarely: Sequence[Mapping[str, Any]] = RARELY,
    shared: Sequence[Mapping[str, Any]] = SHARED,
) -> st.SearchStrategy[Setting]:
    """Draw a setting on a store that offers exactly what its backing needs: a quiet one, or one of a swarm.

    In a swarm each setting has other things allowed, strangers, reruns, a second workflow among them. On the backings
    that let workflows share a branch, they do so in one setting of six.
    """
    quiet = _quiet()
    # Not one_of, which counts equal strategies once.
    bounds = st.sampled_from((quiet, quiet, _quiet(rarely), _quiet(rarely), _swarm(({}, *rarely)))).flatmap(
        lambda each: each
    )
    alone = bounds.flatmap(lambda more: st.sampled_from(backings).map(lambda backing: setting(backing, **more)))
    sharing = [backing for backing in backings if backing in SHARING]
    if not sharing or not shared:
        return alone
    beside = st.sampled_from(shared).flatmap(
        lambda more: st.sampled_from(sharing).map(lambda backing: setting(backing, **more))
    )
    return st.sampled_from((alone,) * 5 + (beside,)).flatmap(lambda each: each)


@st.composite
def _quiet(draw: st.DrawFn, rarely: Sequence[Mapping[str, Any]] = ({},)) -> dict[str, Any]:
    bodies: Mapping[str, Any] = draw(st.sampled_from(BODIES))
    rare: Mapping[str, Any] = draw(st.sampled_from(rarely))
    bounds: Mapping[str, Any] = QUIET[0] if rare else draw(st.sampled_from(QUIET))
    return {"adopts": draw(st.booleans()), **bounds, **rare, **bodies}


@st.composite
def _swarm(draw: st.DrawFn, rarely: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rare: Mapping[str, Any] = draw(st.sampled_from(rarely))
    return {
        "ledger": draw(st.booleans()),
        "attempts": draw(st.sampled_from((2, 3, 3, 1, 4))),
        "steps": draw(st.sampled_from((1, 1, 2))),
        "crashes": draw(st.sampled_from((0, 2, 1, 2))),
        "losses": draw(st.sampled_from((0, 1, 2))),
        "duplicates": draw(st.sampled_from((0, 1))),
        "pauses": draw(st.sampled_from((False, True, True))),
        "no_ops": draw(st.booleans()),
        "same_tree": draw(st.booleans()),
        "adopts": draw(st.booleans()),
        **rare,
    }


#: The promises not kept where this may happen, by what makes them as ``specs/residuals.json`` names it, and by what
#: happens. They are not judged there, so that whatever else breaks is seen.
EXCUSED: Mapping[str, Mapping[str, frozenset[str]]] = {
    "atomic": {"resends": frozenset({"S-19"})},
    "atomic, replacing": {"resends": frozenset({"S-19"})},
    "conditional": {"resends": frozenset({"S-19"}), "collector": frozenset({"S-17"})},
    "conditional, replacing": {
        "strangers": frozenset({"S-15"}),
        "foreign_merges": frozenset({"S-15"}),
        "foreign_resets": frozenset({"S-15"}),
        "resends": frozenset({"S-19"}),
        "collector": frozenset({"S-17"}),
    },
    "locked": {
        "strangers": frozenset({"S-04b"}),
        "foreign_merges": frozenset({"S-04b"}),
        "foreign_resets": frozenset({"S-04b"}),
        "resends": frozenset({"S-02", "S-02b", "S-04b", "S-19"}),
    },
    "locked, replacing": {
        "strangers": frozenset({"S-04b", "S-15"}),
        "foreign_merges": frozenset({"S-04b", "S-15"}),
        "foreign_resets": frozenset({"S-04b", "S-15"}),
        "resends": frozenset({"S-02", "S-02b", "S-04b", "S-19"}),
    },
}


def judged(of: Setting) -> tuple[Property, ...]:
    """Return the properties a setting is judged by: all, but for what is known not to be kept there.

    S-16 is kept everywhere, but where three attempts with equal trees may replace each other's it is judged of what may
    land: a stale one may send what the store refuses (ADR 34).
    """
    once = setting(of.backing)
    known = EXCUSED.get(named(of), {})
    excused = {name for bound in known if getattr(of, bound) != getattr(once, bound) for name in known[bound]}
    if of.backing is Backing.CONDITIONAL and of.collector and of.ledger:
        # A delivery whose claim was just collected leaves its intent to the next sweep (ADR 55).
        excused.add("S-33c")
    if of.scopes and of.reruns:
        # Whoever reruns an accepted task takes its acceptance back under what others have published since (ADR 73).
        excused.add("S-03")
    replaces = not of.takes_over or of.mixed
    if of.same_tree and replaces and of.attempts > once.attempts:
        excused.add("S-16")
        return (NOTHING_ALIVE_CAN_BE_REPLACED, *(each for each in JUDGED if each.id not in excused))
    return tuple(each for each in JUDGED if each.id not in excused)


def chooser(numbers: Sequence[int]) -> Chooser:
    """Return a chooser driven by drawn numbers; after the last of them it takes whatever work is first."""
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
