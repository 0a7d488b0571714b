"""What a user gets on his own store: by its flags, and by exploring (architecture 5)."""

from __future__ import annotations

import pytest
from attrs import evolve, fields

from perago_core.values import Backing
from perago_simulation.runs.path import RunPath
from perago_simulation.world.capabilities import NEEDS, RELIES_ON, Capabilities, best_backing
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import FAILED

FLAGS = tuple(each.name for each in fields(Capabilities))
NOTHING = Capabilities(**dict.fromkeys(FLAGS, False))
by_backing = pytest.mark.parametrize("backing", list(Backing), ids=lambda each: each.value)


@by_backing
def test_a_store_with_exactly_what_a_backing_relies_on_carries_it(backing: Backing) -> None:
    """And with one flag less it does not."""
    assert best_backing(RELIES_ON[backing]).backing is backing
    for flag in FLAGS:
        if getattr(RELIES_ON[backing], flag):
            assert best_backing(evolve(RELIES_ON[backing], **{flag: False})).backing is not backing


def test_the_strongest_is_advised_and_every_stronger_one_is_explained() -> None:
    """L-10: lakeFS without the hook, in words."""
    advice = best_backing(NEEDS[Backing.LOCKED])
    assert advice.backing is Backing.LOCKED
    assert advice.missing == (
        (Backing.ATOMIC, ("conditional_merge", "conditional_relocate", "conditional_claim")),
        (Backing.CONDITIONAL, ("conditional_merge",)),
    )
    assert advice.lines()[0] == "This store carries `locked`."
    assert any("`conditional`" in line and "conditional_merge" in line for line in advice.lines()[1:])


def test_a_store_that_can_do_everything_carries_the_strongest_and_nothing_is_missing() -> None:
    advice = best_backing(Capabilities(**dict.fromkeys(FLAGS, True)))
    assert (advice.backing, advice.missing) == (Backing.ATOMIC, ())


def test_a_store_that_can_do_nothing_carries_nothing() -> None:
    """L-10: it says so, and why, for each backing."""
    advice = best_backing(NOTHING)
    assert advice.backing is None
    assert [backing for backing, _ in advice.missing] == list(RELIES_ON)
    assert advice.lines()[0] == "This store carries no backing at all."


@by_backing
def test_exactly_what_a_backing_relies_on_is_enough_to_complete(backing: Backing) -> None:
    """The advice is true: nothing else is needed, also not to replace an abandoned publication."""
    model = Model(Setting(backing=backing, store=RELIES_ON[backing], pauses=False))
    way = RunPath(model).take("hand out").until(0, "install").take("crash e0")
    way = way.take("expire") if way.can("expire") else way
    way = way.take("give up t0").take("hand out t1").until(1)
    assert (way.world.head, way.world.tasks[1].ref) == ("C1", "C1")


@pytest.mark.parametrize(
    ("backing", "flag", "answer"),
    [
        (Backing.CONDITIONAL, "claim", "MakeClaim NotDone"),
        (Backing.LOCKED, "lease", "AcquireLease Unknown"),
    ],
)
def test_what_is_missing_fails_closed(backing: Backing, flag: str, answer: str) -> None:
    """P-22: the attempt ends as failed, and the target is where it was."""
    bounds = setting(backing, attempts=1, store=evolve(NEEDS[backing], **{flag: False}))
    way = RunPath(Model(bounds)).take("hand out").until(0)
    assert any(answer in " ".join(label) for label in way.labels)
    assert (way.world.head, way.world.tasks[0].status) == ("A", FAILED)


def test_a_store_that_is_not_blind_refuses_what_it_cannot_check() -> None:
    """Capabilities.blind: the relocation of `conditional` carries a condition the store cannot check."""
    able = evolve(NEEDS[Backing.CONDITIONAL], blind=False)
    way = RunPath(Model(setting(Backing.CONDITIONAL, store=able, pauses=False)))
    way = way.take("hand out").until(0, "install").take("crash e0").take("give up t0").take("hand out t1")
    way = way.until(1, "Publish replace").take("refuse e1: no move without a condition")
    assert way.world.head == "M0"


@by_backing
def test_where_nothing_rare_may_happen_the_world_has_nothing_rare(backing: Backing) -> None:
    """What is switched off is not paid for."""
    assert all(world.rare is None for _, world in Model(setting(backing)).beginnings())
    assert all(world.rare is not None for _, world in Model(setting(backing, resends=1)).beginnings())
