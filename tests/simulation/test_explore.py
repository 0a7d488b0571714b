"""The explorer finds what is there, no more and no less. Counts are pinned: a changed count is a changed protocol."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from functools import cache

import pytest

from perago_core.values import Backing
from perago_simulation.explore.exploration import Exploration, Limits, resident
from perago_simulation.explore.memo import Memo, Numbers, Watch
from perago_simulation.explore.reductions import Reduction
from perago_simulation.explore.search import Explorer, explore
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import Property, When
from perago_simulation.world.model import Model, Moves
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import Lease, Request, World
from perago_simulation.world.store import Store

#: The quick configuration: two attempts, a crash, pauses that resume, no-ops. Generated, distinct, depth, broken.
QUICK: dict[Backing, tuple[int, int, int, dict[str, int]]] = {
    Backing.SOFT: (5413, 1840, 25, {"S-01": 18, "S-02": 24, "S-02b": 17, "S-03": 22, "S-04": 22}),
    Backing.ATOMIC: (13111, 4134, 34, {}),
    Backing.CONDITIONAL: (28343, 8662, 39, {}),
    Backing.LOCKED: (83878, 22635, 44, {}),
}


@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
def test_quick_configuration_has_the_known_size_and_the_known_holes(backing: Backing) -> None:
    """S-01, S-02, S-02b, S-03, S-04: soft breaks where it is known to, the others hold within the bounds."""
    found = explore(setting(backing, crashes=1, no_ops=True))
    assert found.complete
    assert (found.generated, found.distinct, found.depth, found.broken()) == QUICK[backing]


@pytest.mark.parametrize(
    ("backing", "broken"),
    [(Backing.ATOMIC, {}), (Backing.CONDITIONAL, {"S-15": 29}), (Backing.LOCKED, {"S-15": 35})],
    ids=lambda value: value.value if isinstance(value, Backing) else "",
)
def test_a_stranger_is_safe_on_an_atomic_store_and_the_one_residual_elsewhere(
    backing: Backing, broken: dict[str, int]
) -> None:
    """S-15, K-08: the residual is a stranger's commit between observation and relocation, and nothing else."""
    assert explore(setting(backing, crashes=0, strangers=1, no_ops=True)).broken() == broken


def test_an_exploration_that_stops_early_says_so() -> None:
    """Exhaustive within the bounds, or it says that it is not."""
    found = explore(setting(Backing.ATOMIC), limits=Limits(states=50))
    assert not found.complete
    assert not explore(setting(Backing.ATOMIC), limits=Limits(depth=3)).complete


@pytest.mark.parametrize(
    ("backing", "distinct", "broken"),
    [(Backing.SOFT, 46500, {"S-01", "S-02", "S-02b", "S-03", "S-04"}), (Backing.ATOMIC, 141642, set[str]())],
    ids=["soft", "atomic"],
)
def test_a_zombie_of_one_step_acts_during_the_next(backing: Backing, distinct: int, broken: set[str]) -> None:
    """N-15: two steps, the second one's input is the first one's output."""
    found = explore(setting(backing, crashes=0, steps=2))
    assert (found.complete, found.distinct, set(found.broken())) == (True, distinct, broken)


# ---- Looked up or computed, a move is the same move: the worlds are those of a search that looks nothing up.


#: What no other explorer compares: rare things, the collector, lost answers, a ledger.
REMEMBERED: dict[str, Setting] = {
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


@pytest.mark.parametrize("name", REMEMBERED)
def test_the_same_worlds_and_verdicts_without_looking_anything_up(name: str) -> None:
    """Every property there is, judged in every world, against what the explorer says is broken and how soon."""
    model = Model(REMEMBERED[name])
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
    return next(world for _, world in Model(REMEMBERED["lost, a ledger"]).beginnings())


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


# ---- Several processes find what one finds, exactly; and every limit stops an exploration, which then says which one.


#: With violations (soft, a stranger, two steps) and without, with a ledger, with what seldom happens.
TOGETHER: dict[str, Setting] = {
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
    return explore(TOGETHER[name], JUDGED)


def together(model: Model, processes: int, limits: Limits | None = None) -> Exploration:
    """Explore with others from the first level on; small explorations would not call them."""
    return Explorer(model, JUDGED, processes, together_from=0).run(limits or Limits())


@pytest.mark.parametrize(("name", "processes"), [*((name, 2) for name in TOGETHER), ("soft", 3)])
def test_several_processes_find_exactly_what_one_finds(name: str, processes: int) -> None:
    """Generated, distinct, depth, verdicts and the lengths of traces, judged by every property there is."""
    assert figures(together(Model(TOGETHER[name]), processes)) == figures(alone(name))


def test_others_join_in_the_middle() -> None:
    """What was reached alone is accounted for once, and traces lead through it."""
    where = TOGETHER["soft"]
    for from_size in (10, 50, 100):
        found = Explorer(Model(where), JUDGED, 2, together_from=from_size).run(Limits())
        assert figures(found) == figures(alone("soft"))
    assert alone("soft").broken()


def test_traces_found_together_can_be_walked() -> None:
    """A trace is a run of the model: each label names a move that is there, and the last world breaks the property."""
    model = Model(TOGETHER["soft"])
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

    model = Model(TOGETHER["soft"], store=Refusing())
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
        Explorer(Model(TOGETHER["soft"]), [deadly], 2, together_from=0).run(Limits())


def test_no_process_is_no_exploration() -> None:
    with pytest.raises(ValueError, match="at least one process"):
        explore(TOGETHER["soft"], processes=0)
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
    found = together(Model(TOGETHER["soft"]), processes, LIMITS[name])
    assert (found.stopped, found.complete) == (name, False)
    assert found.depth <= 5 or name != "depth"


def test_limits_that_are_not_reached_change_nothing() -> None:
    where = TOGETHER["soft"]
    roomy = explore(where, limits=Limits(memory=100_000.0))
    assert roomy.complete
    assert figures(roomy) == figures(explore(where))


def test_a_process_knows_how_much_memory_it_holds() -> None:
    """What is allocated and written to is counted; a page that was never touched need not be."""
    before = resident()
    held = bytearray(os.urandom(64 << 20))
    assert resident() - before > 32
    assert len(held) == 64 << 20


# ---- Reductions leave worlds out and no verdict: the same properties are broken with and without them.


#: Crashes, lost answers, strangers, two steps, duplicates; with and without violations.
REDUCED: dict[str, Setting] = {
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
EVERYWHERE = {**REDUCED, **TROUBLED}


@cache
def plain(name: str) -> Exploration:
    return explore(EVERYWHERE[name], JUDGED)


@pytest.mark.parametrize("name", REDUCED)
def test_forgetting_changes_no_verdict_and_no_trace_length(name: str) -> None:
    """What is forgotten is read by nobody, so every property there is is broken on the same level or not at all."""
    reduced = explore(REDUCED[name], JUDGED, reductions=[Reduction.FORGET])
    assert reduced.complete
    assert reduced.broken() == plain(name).broken()
    assert reduced.distinct <= plain(name).distinct


@pytest.mark.parametrize("name", REDUCED)
def test_fusing_changes_no_verdict(name: str) -> None:
    """Traces may be longer, never shorter: what is left out are worlds, not moves that were not there before."""
    reduced = explore(REDUCED[name], JUDGED, reductions=[Reduction.FORGET, Reduction.FUSE])
    assert reduced.complete
    shortest = plain(name).broken()
    assert reduced.broken().keys() == shortest.keys()
    assert all(length >= shortest[each] for each, length in reduced.broken().items())
    assert reduced.distinct <= plain(name).distinct


@pytest.mark.parametrize("name", [*REDUCED, *TROUBLED])
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
    assert explore(REDUCED[name], JUDGED, reductions=[reduction]).distinct < 0.95 * plain(name).distinct


@pytest.mark.parametrize("name", ["soft, a crash", "conditional, a stranger"])
def test_a_trace_found_with_reductions_is_a_run_of_the_whole_model(name: str) -> None:
    """Each label names a move the unreduced model has there."""
    model = Model(REDUCED[name])
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
    where = REDUCED["soft, a crash"]
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
