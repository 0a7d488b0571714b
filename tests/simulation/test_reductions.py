"""Reductions leave worlds out and no verdict: the same properties are broken with and without them."""

from __future__ import annotations

from functools import cache

import pytest

from perago_core.values import Backing
from perago_simulation.explore.exploration import Exploration
from perago_simulation.explore.reductions import Reduction
from perago_simulation.explore.search import explore
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import When
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import Request, World
from perago_simulation.world.store import Store

#: Crashes, lost answers, strangers, two steps, duplicates; with and without violations.
SETTINGS: dict[str, Setting] = {
    **{f"{backing.value}, a crash": setting(backing, crashes=1, no_ops=True) for backing in Backing},
    **{f"{backing.value}, a stranger": setting(backing, crashes=0, strangers=1) for backing in Backing},
    "soft, a crash and a lost answer": setting(Backing.SOFT, crashes=1, losses=1),
    "atomic, a crash and a lost answer": setting(Backing.ATOMIC, crashes=1, losses=1),
    "locked, a ledger, no pauses": setting(Backing.LOCKED, crashes=1, pauses=False, ledger=True),
    "conditional, delivered twice": setting(Backing.CONDITIONAL, attempts=1, crashes=1, duplicates=1),
    "soft, two steps": setting(Backing.SOFT, attempts=1, steps=2, crashes=0, duplicates=1),
    "atomic, requeued, collected": setting(Backing.ATOMIC, attempts=1, crashes=1, requeues=1, collector=True),
}


#: What goes wrong with one execution, and several workflows; for the reduction that ends executions.
TROUBLED: dict[str, Setting] = {
    **{f"{backing.value}, interrupted": setting(backing, crashes=0, interrupts=1) for backing in Backing},
    "conditional, bodies": setting(Backing.CONDITIONAL, crashes=0, pauses=False, bodies=True, refusals=1, losses=1),
    "conditional, late requests": setting(Backing.CONDITIONAL, crashes=0, losses=1, late_landings=1),
    "locked, two workflows": setting(Backing.LOCKED, attempts=1, crashes=0, workflows=2, no_ops=True),
    "soft, a ledger, terminated": setting(Backing.SOFT, crashes=0, ledger=True, terminations=1, no_ops=True),
}
EVERYWHERE = {**SETTINGS, **TROUBLED}


@cache
def plain(name: str) -> Exploration:
    return explore(EVERYWHERE[name], JUDGED)


@pytest.mark.parametrize("name", SETTINGS)
def test_forgetting_changes_no_verdict_and_no_trace_length(name: str) -> None:
    """What is forgotten is read by nobody, so every property there is is broken on the same level or not at all."""
    reduced = explore(SETTINGS[name], JUDGED, reductions=[Reduction.FORGET])
    assert reduced.complete
    assert reduced.broken() == plain(name).broken()
    assert reduced.distinct <= plain(name).distinct


@pytest.mark.parametrize("name", SETTINGS)
def test_fusing_changes_no_verdict(name: str) -> None:
    """Traces may be longer, never shorter: what is left out are worlds, not moves that were not there before."""
    reduced = explore(SETTINGS[name], JUDGED, reductions=[Reduction.FORGET, Reduction.FUSE])
    assert reduced.complete
    shortest = plain(name).broken()
    assert reduced.broken().keys() == shortest.keys()
    assert all(length >= shortest[each] for each, length in reduced.broken().items())
    assert reduced.distinct <= plain(name).distinct


@pytest.mark.parametrize("name", [*SETTINGS, *TROUBLED])
def test_ending_at_once_changes_no_verdict(name: str) -> None:
    """What a stale execution still does is seen by nobody. Traces to rest get shorter by it, others are as long."""
    reduced = explore(EVERYWHERE[name], JUDGED, reductions=[Reduction.END])
    whole = plain(name)
    assert reduced.complete
    assert reduced.broken().keys() == whole.broken().keys()
    always = {each.id for each in JUDGED if each.when is When.ALWAYS}
    assert all(length == whole.broken()[each] for each, length in reduced.broken().items() if each in always)
    assert all(length <= whole.broken()[each] for each, length in reduced.broken().items())
    assert reduced.distinct <= whole.distinct


def test_three_attempts_with_pauses_need_a_fraction_of_the_worlds() -> None:
    """On ``atomic`` a newer claim leaves an older attempt nothing to do: of five worlds one is left."""
    of = setting(Backing.ATOMIC, attempts=3, crashes=0)
    whole, reduced = explore(of), explore(of, reductions=[Reduction.END])
    assert (whole.broken(), reduced.broken()) == ({}, {})
    assert reduced.distinct < 0.22 * whole.distinct


def test_a_task_that_comes_back_keeps_its_executions() -> None:
    """An execution of a requeued task may have nothing to do today and something tomorrow."""
    of = setting(Backing.ATOMIC, attempts=1, crashes=0, requeues=1)
    assert explore(of, reductions=[Reduction.END]).distinct == explore(of).distinct


@pytest.mark.parametrize(
    ("reduction", "name"),
    [
        (Reduction.END, "conditional, a stranger"),
        (Reduction.END, "soft, two steps"),
        (Reduction.FORGET, "soft, a crash"),
        (Reduction.FORGET, "atomic, a crash and a lost answer"),
        (Reduction.FUSE, "atomic, a crash"),
        (Reduction.FUSE, "locked, a stranger"),
    ],
)
def test_each_reduction_saves_something(reduction: Reduction, name: str) -> None:
    """A switch that changes nothing would pass every other test here."""
    assert explore(SETTINGS[name], JUDGED, reductions=[reduction]).distinct < 0.95 * plain(name).distinct


@pytest.mark.parametrize("name", ["soft, a crash", "conditional, a stranger"])
def test_a_trace_found_with_reductions_is_a_run_of_the_whole_model(name: str) -> None:
    """Each label names a move the unreduced model has there."""
    model = Model(SETTINGS[name])
    found = explore(model, JUDGED, reductions=list(Reduction))
    judges = {each.id: each for each in JUDGED}
    assert found.violations
    for violation in found.violations:
        moves, world = model.beginnings(), None
        for label in violation.trace:
            world = next(after for each, after in moves if each == label)
            moves = model.moves(world)
        assert world is not None
        assert judges[violation.property].judge(model.setting, world) is not None


def test_reductions_and_processes_go_together() -> None:
    where = SETTINGS["soft, a crash"]
    one, two = (explore(where, JUDGED, reductions=list(Reduction), processes=processes) for processes in (1, 2))
    assert (one.generated, one.distinct, one.broken()) == (two.generated, two.distinct, two.broken())


class _GivesWay(Store):
    """A store that refuses a publication while somebody else has a name, be it the name of a dead one."""

    def refusal(self, setting: Setting, world: World, request: Request) -> str | None:
        """Refuse while anybody else has a name."""
        others = any(run != request.run for run, _ in world.names)
        return "somebody else has a name" if others else super().refusal(setting, world, request)


def test_what_forgetting_rests_on_is_needed() -> None:
    """A store that reads the names of the dead has other worlds without them. So the comparison above can fail."""
    model = Model(setting(Backing.SOFT, crashes=1, pauses=False), store=_GivesWay())
    whole, reduced = explore(model), explore(model, reductions=[Reduction.FORGET])
    assert whole.depth < reduced.depth
