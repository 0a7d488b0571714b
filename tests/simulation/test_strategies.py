"""The public strategies: what is drawn is a setting that can be explored, and trouble that can come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields
from hypothesis import find, given
from hypothesis import strategies as st

from perago_core.values import SHARING, Backing
from perago_simulation.runs.replay import line_of, read_line
from perago_simulation.runs.schedule import ALLOWS, FAULTS, CachedWorld, Chooser, Weighted, WorldCache, simulate
from perago_simulation.testing import strategies
from perago_simulation.testing.trouble import HOLD, SEND, Plan, Trouble, troubles
from perago_simulation.world.model import Model
from perago_simulation.world.settings import RARE, SCOPES, Setting, setting

RESIDUALS = Path(__file__).parents[2] / "specs" / "residuals.json"


def everything_once(backing: Backing) -> Setting:
    bounds = (each for each in fields(Setting) if each.name in ALLOWS)
    once: dict[str, Any] = {each.name: True if isinstance(each.default, bool) else 1 for each in bounds}
    return evolve(setting(backing), **once)


@given(strategies.settings(tuple(Backing)), st.lists(st.integers(0, 9)))
def test_a_drawn_setting_can_be_begun_and_written_on_a_line(of: Setting, numbers: list[int]) -> None:
    assert list(Model(of).beginnings())
    line = read_line(line_of(Model(of), numbers))
    assert (line.setting, list(line.choices)) == (of, numbers)


@given(st.data())
def test_trouble_is_of_a_kind_the_setting_allows(data: st.DataObject) -> None:
    of = data.draw(strategies.settings())
    drawn = {each.kind for each in data.draw(troubles(of))}
    assert drawn <= {HOLD, *(kind for bound, kinds in ALLOWS.items() if getattr(of, bound) for kind in kinds)}


def test_strangers_reruns_two_steps_and_a_second_workflow_are_drawn_by_default() -> None:
    """What is never drawn is never tried: each bound of the swarm is met."""
    bounds = {name for each in strategies.RARELY for name in each}
    wanted = ("strangers", "requeues", "reruns", "resends", "terminations", "interrupts", "workflows", "twins")
    assert bounds >= set(wanted)
    for name in wanted:
        find(strategies.settings(), lambda of, name=name: getattr(of, name) != getattr(setting(of.backing), name))  # type: ignore[misc]
    find(strategies.settings(), lambda of: of.steps > 1)
    find(strategies.settings(), lambda of: of.adopts and not of.twins)


@pytest.mark.parametrize("scopes", [each for each in SCOPES if each])
def test_shared_branches_are_drawn_by_default_where_the_backing_has_them(scopes: str) -> None:
    assert find(strategies.settings(), lambda of: of.scopes == scopes).backing in SHARING
    find(strategies.settings(), lambda of: of.scopes == scopes and of.workflows > 2)
    assert all(each.backing in SHARING for each in strategies.SMALL if each.scopes)


def test_some_of_these_publish_above_what_nobody_has_accepted() -> None:
    assert find(strategies.settings(), lambda of: of.stacking > 0).scopes == "disjoint"
    assert len(strategies.SHARED) == 78, "each seed draws what it drew: see `detection.md`"


def test_what_is_excused_is_a_registered_hole() -> None:
    registered = {(each["backing"], each["property"]) for each in json.loads(RESIDUALS.read_text("utf-8"))}
    for promised_by, known in strategies.EXCUSED.items():
        assert {(promised_by, name) for names in known.values() for name in names} <= registered


def test_a_held_execution_moves_again_only_when_nobody_else_can() -> None:
    """The first is held before it sends; it is given up, the second completes, and only then it goes on."""
    worlds = WorldCache(Model(setting(Backing.CONDITIONAL, crashes=0)))
    plan, node, moved = Plan([Trouble(0, SEND, HOLD)]), worlds.begin(), list[str]()
    while True:
        worlds.expand(node)
        assert node.labels is not None
        assert plan.next(node) is None
        work = plan.work(node)
        if not work:
            break
        moved.append(node.labels[work[0]][0])
        node = node.children[work[0]]
    assert moved.index("e1") > moved.index("e0")
    last_of_second = len(moved) - 1 - moved[::-1].index("e1")
    assert set(moved[moved.index("e1") : last_of_second]) <= {"e1", "store", "orchestrator"}
    assert "e0" in moved[last_of_second:]


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

    sharing = setting(Backing.ATOMIC, crashes=1, reverts=1, scopes="disjoint")
    for of in (everything_once(Backing.LOCKED), sharing):
        simulate(WorldCache(Model(of), properties=()), Watching(), runs=100)
    assert met >= set(FAULTS)
