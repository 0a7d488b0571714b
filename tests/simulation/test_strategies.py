"""The public strategies: what is drawn is a setting that can be explored, and trouble that can come."""

from __future__ import annotations

from typing import Any

from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from perago_core.values import Backing
from perago_simulation.runs.replay_line import line_of, read_line
from perago_simulation.runs.schedule import Chooser, Weighted, simulate
from perago_simulation.runs.world_cache import ALLOWS, FAULTS, CachedWorld, WorldCache
from perago_simulation.testing import strategies
from perago_simulation.world.model import Model
from perago_simulation.world.settings import RARE, Setting, setting


def everything_once(backing: Backing) -> Setting:
    bounds = (each for each in fields(Setting) if each.name in ALLOWS)
    once: dict[str, Any] = {each.name: True if isinstance(each.default, bool) else 1 for each in bounds}
    return evolve(setting(backing), **once)


@given(strategies.settings(tuple(Backing), strangers=True), st.lists(st.integers(0, 9)))
def test_a_drawn_setting_can_be_begun_and_written_on_a_line(of: Setting, numbers: list[int]) -> None:
    assert list(Model(of).beginnings())
    line = read_line(line_of(Model(of), numbers))
    assert (line.setting, list(line.choices)) == (of, numbers)


@given(st.data())
def test_trouble_is_of_a_kind_the_setting_allows(data: st.DataObject) -> None:
    of = data.draw(strategies.settings())
    drawn = {kind for kind, _ in data.draw(strategies.troubles(of))}
    assert drawn <= {kind for bound, kinds in ALLOWS.items() if getattr(of, bound) for kind in kinds}


def test_every_budget_has_its_kinds_of_fault() -> None:
    """Whoever adds a budget tells the schedulers what it allows; else it would be taken for work."""
    assert set(RARE) <= set(ALLOWS)
    assert set(ALLOWS) <= {each.name for each in fields(Setting)}


def test_every_kind_of_fault_is_met_where_everything_may_go_wrong() -> None:
    """A kind that no label has is spelled wrong, and a swarm that leaves it out leaves out nothing."""
    met: set[str | None] = set()

    class Watching:
        def run(self, number: int) -> Chooser:
            choose = Weighted(1, faults=0.2).run(number)

            def watch(node: CachedWorld) -> int:
                met.update(node.faults)
                return choose(node)

            return watch

    simulate(WorldCache(Model(everything_once(Backing.LOCKED)), properties=()), Watching(), runs=100)
    assert met >= set(FAULTS)
