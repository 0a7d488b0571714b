"""Looked up or computed, a move is the same move: the explorer's worlds are those of a search that looks nothing up."""

from __future__ import annotations

import pytest

from perago_core.values import Backing
from perago_simulation.explore.cells import Numbers, Watch
from perago_simulation.explore.exploration import Limits
from perago_simulation.explore.memo import Memo
from perago_simulation.explore.search import Explorer
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import When
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import Lease, World

#: What no other explorer compares: rare things, the collector, lost answers, a ledger.
SETTINGS: dict[str, Setting] = {
    "resets, merges": setting(
        Backing.SOFT, crashes=0, attempts=1, foreign_resets=1, foreign_merges=1, foreign_writes=1
    ),
    "deleted": setting(Backing.LOCKED, crashes=0, attempts=1, recreations=1, terminations=1),
    "collector": setting(Backing.CONDITIONAL, crashes=0, attempts=1, duplicates=1, collector=True),
    "rerun": setting(Backing.ATOMIC, crashes=0, attempts=1, reruns=1, resends=1),
    "lost, a ledger": setting(Backing.SOFT, crashes=1, losses=1, ledger=True),
}


def computed(model: Model) -> dict[World, int]:
    """Visit every world by asking the model itself, and give each with its level."""
    levels: dict[World, int] = {}
    frontier = [world for _, world in model.beginnings()]
    level = 0
    while frontier:
        levels.update(dict.fromkeys(frontier, level))
        after = (world for source in frontier for _, world in model.moves(source))
        frontier, level = list(dict.fromkeys(world for world in after if world not in levels)), level + 1
    return levels


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_worlds_and_verdicts_without_looking_anything_up(name: str) -> None:
    """Every property there is, judged in every world, against what the explorer says is broken and how soon."""
    model = Model(SETTINGS[name])
    explorer = Explorer(model, JUDGED)
    found = explorer.run(Limits())
    levels = computed(model)
    assert set(explorer.worlds()) == levels.keys()
    assert set(map(repr, explorer.worlds())) == set(map(repr, levels))
    assert found.depth == max(levels.values())
    soonest: dict[str, int] = {}
    for world, level in levels.items():
        for each in JUDGED:
            judged = each.when is When.ALWAYS or model.at_rest(world)
            if judged and each.judge(model.setting, world) is not None:
                soonest[each.id] = min(level + 1, soonest.get(each.id, level + 1))
    assert found.broken() == soonest


def _world() -> World:
    return next(world for _, world in Model(SETTINGS["lost, a ledger"]).beginnings())


def test_a_world_comes_back_from_its_numbers() -> None:
    numbers = Numbers(_world())
    assert numbers.world(numbers.cells(_world())) == _world()


def test_true_is_not_one() -> None:
    """They are equal, and a task of number ``True`` has another name than one of number 1."""
    world = _world()
    both = world._replace(lease=Lease(1, clean=True), raised=(1, 1), runs=(*world.runs, world.runs[0]._replace(task=1)))
    numbers = Numbers(both)
    assert repr(numbers.world(numbers.cells(both))) == repr(both)


def test_what_was_not_read_makes_no_difference() -> None:
    """A function is run again only for what it has not met; what it does not read may change."""
    world = _world()
    numbers, asked = Numbers(world), list[str]()

    def reads_head_and_losses(watch: Watch) -> list[str]:
        asked.append(watch.world.head)
        return [f"{watch.world.head} {watch.world.budget.losses}"]

    memo = Memo(numbers, reads_head_and_losses)
    spent = world._replace(budget=world.budget._replace(crashes=0))
    assert memo(numbers.cells(world)) == memo(numbers.cells(spent)) == ["A 1"]
    assert asked == ["A"]
    lost = world._replace(budget=world.budget._replace(losses=0))
    assert memo(numbers.cells(lost)) == ["A 0"]
    assert memo(numbers.cells(world._replace(head="B"))) == ["B 1"]
    assert asked == ["A", "A", "B"]


def test_a_stand_in_that_is_taken_as_a_whole_is_read_as_a_whole() -> None:
    """Compared or taken apart it is right, at the price of depending on everything; kept it must not be."""
    world = _world()
    numbers = Numbers(world)
    watch = Watch(numbers, numbers.cells(world))
    assert watch.reads == {}
    assert watch.world == world
    assert len(watch.reads) == len(numbers.cells(world))
    assert tuple(watch.world) == tuple(world)
    with pytest.raises(TypeError, match="cannot be kept"):
        hash(watch.world.budget)
    with pytest.raises(AttributeError, match="haed"):
        _ = watch.world.haed  # type: ignore[attr-defined]  # a misspelt field


def test_executions_never_disappear() -> None:
    world = _world()
    numbers = Numbers(world)
    watch = Watch(numbers, numbers.cells(world))
    with pytest.raises(ValueError, match="mark them as ended"):
        list(numbers.written(watch.place, watch.world._replace(runs=())))
