"""The holes of the seed protocol, pinned: each is found, by the shortest way, and it is the hole that was meant.

Counterexamples 1 to 7 of the design, section 3.5, on ``soft``; e0 is the old attempt, e1 its retry or its duplicate.
The other backings must not have them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from attrs import frozen

from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.explore.exploration import Exploration
from perago_simulation.explore.search import explore
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.world.model import Label, Model
from perago_simulation.world.settings import setting
from perago_simulation.world.state import World


@frozen(repr=False)
class Pinned(Value):
    """A counterexample: where it is found, what it breaks, in how many steps, and what happens on the way."""

    number: int
    what: str
    where: dict[str, object]
    property: str
    length: int
    way: tuple[str, ...]


PINNED = (
    Pinned(
        1,
        "accepted publication erased by replacement",
        {"crashes": 0},
        "S-01",
        22,
        ("give up t0", "install e1: M1", "e0 Publish replace", "e1 Report Reported", "install e0: C0"),
    ),
    Pinned(
        2,
        "unaccepted publication inside accepted history",
        {"crashes": 0},
        "S-03",
        22,
        ("e0 Publish merge", "give up t0", "e1 Publish merge", "install e0: M0", "install e1: M1@M0", "e1 Report"),
    ),
    Pinned(
        3,
        "polluted tip",
        {"crashes": 0},
        "S-02b",
        25,
        ("e0 Publish merge", "give up t0", "install e1: M1", "install e0: M0@M1"),
    ),
    Pinned(
        4,
        "duplicate delivery",
        {"crashes": 0, "attempts": 1, "duplicates": 1},
        "S-01",
        21,
        ("deliver again t0 to e1", "e1 ReloadTask", "e0 Report Reported", "e1 Publish replace", "install e1: C1"),
    ),
    Pinned(
        5,
        "foreign child erased",
        {"crashes": 0, "attempts": 1, "strangers": 1},
        "S-15",
        11,
        ("stranger commit F0@A", "e0 ReadHead", "e0 Publish replace", "install e0: C0"),
    ),
    Pinned(
        6,
        "foreign commit adopted",
        {"crashes": 0, "attempts": 1, "strangers": 1},
        "S-04",
        12,
        ("e0 ReadHead", "stranger commit F0@A", "install e0: M0@F0@A", "e0 Report Reported"),
    ),
    Pinned(
        7,
        "stalled no-op erases",
        {"crashes": 0, "no_ops": True},
        "S-01",
        18,
        ("(unchanged)", "give up t0", "install e1: M1", "e0 Publish return", "e1 Report Reported", "install e0: A"),
    ),
)


def _found(pinned: Pinned, backing: Backing) -> Exploration:
    return explore(setting(backing, **pinned.where))


def _in_order(parts: Iterable[str], trace: tuple[Label, ...]) -> bool:
    lines = iter(" ".join(label) for label in trace)
    return all(any(part in line for line in lines) for part in parts)


def _carried_out(model: Model, trace: tuple[Label, ...]) -> World:
    moves = dict(model.beginnings())
    world = moves[trace[0]]
    for label in trace[1:]:
        world = dict(model.moves(world))[label]
    return world


@pytest.mark.parametrize("pinned", PINNED, ids=lambda pinned: f"{pinned.number}-{pinned.what.replace(' ', '-')}")
def test_soft_has_the_hole_and_its_labels_lead_there_again(pinned: Pinned) -> None:
    found = _found(pinned, Backing.SOFT)
    (violation,) = [each for each in found.violations if each.property == pinned.property]
    assert len(violation.trace) == pinned.length
    assert _in_order(pinned.way, violation.trace), "\n".join(" ".join(label) for label in violation.trace)
    world = _carried_out(Model(found.setting), violation.trace)
    (judged,) = [each for each in PROPERTIES if each.id == pinned.property]
    assert judged.judge(found.setting, world) == violation.problem


@pytest.mark.parametrize("pinned", PINNED, ids=lambda pinned: str(pinned.number))
@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED], ids=lambda each: each.value)
def test_the_other_backings_do_not_have_it(pinned: Pinned, backing: Backing) -> None:
    assert _found(pinned, backing).broken() == {}
