"""Several processes find what one finds, exactly; and every limit stops an exploration, which then says which one."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from functools import cache

import pytest

from perago_core.values import Backing
from perago_simulation.explore.exploration import Exploration, Limits, resident
from perago_simulation.explore.search import Explorer, explore
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import Property, When
from perago_simulation.world.model import Model, Moves
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import Request, World
from perago_simulation.world.store import Store

#: With violations (soft, a stranger, two steps) and without, with a ledger, with what seldom happens.
SETTINGS: dict[str, Setting] = {
    "soft": setting(Backing.SOFT, crashes=1, no_ops=True),
    "soft, two steps": setting(Backing.SOFT, crashes=0, steps=2, attempts=1, duplicates=1),
    "atomic": setting(Backing.ATOMIC, crashes=1, losses=1),
    "conditional, a stranger": setting(Backing.CONDITIONAL, crashes=0, strangers=1, no_ops=True),
    "locked, a ledger": setting(Backing.LOCKED, crashes=1, ledger=True),
    "atomic, resent and reset": setting(Backing.ATOMIC, crashes=0, resends=1, foreign_resets=1),
}


def figures(found: Exploration) -> tuple[int, int, int, dict[str, int], str]:
    return found.generated, found.distinct, found.depth, found.broken(), found.stopped


@cache
def alone(name: str) -> Exploration:
    return explore(SETTINGS[name], JUDGED)


def together(model: Model, processes: int, limits: Limits | None = None) -> Exploration:
    """Explore with others from the first level on; small explorations would not call them."""
    return Explorer(model, JUDGED, processes, together_from=0).run(limits or Limits())


@pytest.mark.parametrize(("name", "processes"), [*((name, 2) for name in SETTINGS), ("soft", 3)])
def test_several_processes_find_exactly_what_one_finds(name: str, processes: int) -> None:
    """Generated, distinct, depth, verdicts and the lengths of traces, judged by every property there is."""
    assert figures(together(Model(SETTINGS[name]), processes)) == figures(alone(name))


def test_others_join_in_the_middle() -> None:
    """What was reached alone is accounted for once, and traces lead through it."""
    where = SETTINGS["soft"]
    for from_size in (10, 50, 100):
        found = Explorer(Model(where), JUDGED, 2, together_from=from_size).run(Limits())
        assert figures(found) == figures(alone("soft"))
    assert alone("soft").broken()


def test_traces_found_together_can_be_walked() -> None:
    """A trace is a run of the model: each label names a move that is there, and the last world breaks the property."""
    model = Model(SETTINGS["soft"])
    found = together(model, 2)
    judges = {each.id: each for each in JUDGED}
    assert found.violations
    for violation in found.violations:
        worlds = [None, *_walked(model, violation.trace)]
        assert len(worlds) == len(violation.trace) + 1
        assert worlds[-1] is not None
        assert judges[violation.property].judge(model.setting, worlds[-1]) == violation.problem


def _walked(model: Model, trace: tuple[tuple[str, str, str], ...]) -> Iterator[World]:
    moves: Moves = model.beginnings()
    for label in trace:
        world = next(after for each, after in moves if each == label)
        yield world
        moves = model.moves(world)


def test_a_model_that_cannot_be_sent_is_explored_together() -> None:
    """A store made on the spot; a mutant's table holds such functions too."""

    class Refusing(Store):
        def refusal(self, setting: Setting, world: World, request: Request) -> str | None:
            return "not today" if request.run == 0 else super().refusal(setting, world, request)

    model = Model(SETTINGS["soft"], store=Refusing())
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(model.store)
    found = together(model, 2)
    assert figures(found) == figures(explore(model, JUDGED))
    assert figures(found) != figures(alone("soft"))


def _dies_on_completion(_setting: Setting, world: World) -> str | None:
    if os.getpid() != _US and any(task.winner >= 0 for task in world.tasks):
        os.kill(os.getpid(), signal.SIGKILL)
    return None


_US = os.getpid()


def test_a_process_that_dies_is_an_error_and_nobody_waits_for_it() -> None:
    deadly = Property("deadly", "whoever judges this may die", When.ALWAYS, _dies_on_completion)
    with pytest.raises(ChildProcessError, match="has ended"):
        Explorer(Model(SETTINGS["soft"]), [deadly], 2, together_from=0).run(Limits())


def test_no_process_is_no_exploration() -> None:
    with pytest.raises(ValueError, match="at least one process"):
        explore(SETTINGS["soft"], processes=0)
    with pytest.raises(ValueError, match="no body"):
        explore(setting(Backing.SOFT, changes=False))


# ---------------------------------------------------------------------------------------------------------------------
# Limits

LIMITS = {
    "states": Limits(states=200),
    "depth": Limits(depth=5),
    "seconds": Limits(seconds=0.0),
    "memory": Limits(memory=1.0),
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("processes", [1, 2])
def test_every_limit_stops_an_exploration_which_says_so(name: str, processes: int) -> None:
    """Exhaustive within the bounds, or it says that it is not, and why."""
    found = together(Model(SETTINGS["soft"]), processes, LIMITS[name])
    assert (found.stopped, found.complete) == (name, False)
    assert found.depth <= 5 or name != "depth"


def test_limits_that_are_not_reached_change_nothing() -> None:
    where = SETTINGS["soft"]
    roomy = explore(where, limits=Limits(memory=100_000.0))
    assert roomy.complete
    assert figures(roomy) == figures(explore(where))


def test_a_process_knows_how_much_memory_it_holds() -> None:
    """What is allocated and written to is counted; a page that was never touched need not be."""
    before = resident()
    held = bytearray(os.urandom(64 << 20))
    assert resident() - before > 32
    assert len(held) == 64 << 20
