"""Random runs: the same seed makes the same choices, a failure is found, shrunk, written as one line and replayed."""

from __future__ import annotations

import pytest

from perago_core.attempt.state import Phase
from perago_core.values import Backing
from perago_simulation.mutants.tables import attempts, skip
from perago_simulation.runs.replay_line import LineError, line_of, model_of, read_line
from perago_simulation.runs.schedule import Pct, Replay, Scheduler, Swarm, Weighted, carry_out, simulate
from perago_simulation.runs.shrink import cost, shrink
from perago_simulation.runs.world_cache import WorldCache
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting

SOFT = setting(Backing.SOFT, crashes=0, no_ops=True)
SCHEDULERS: tuple[Scheduler, ...] = (Weighted(7), Swarm(7), Pct(7))


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda each: type(each).__name__)
def test_each_scheduler_breaks_soft_and_its_failure_replays(scheduler: Scheduler) -> None:
    found = simulate(Model(SOFT), scheduler, 20_000)
    (failure,) = found.failures
    node, labels = carry_out(WorldCache(Model(SOFT)), failure.choices)
    assert node.wrong == (failure.property, failure.problem)
    assert labels == failure.labels
    assert simulate(Model(SOFT), Replay(failure.choices), 1).failures == (failure,)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda each: type(each).__name__)
def test_the_same_seed_gives_the_same_runs(scheduler: Scheduler) -> None:
    one, other = (simulate(Model(SOFT), scheduler, 3_000, stop_after=5) for _ in range(2))
    assert (one.runs, one.steps, one.failures) == (other.runs, other.steps, other.failures)


@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED], ids=lambda each: each.value)
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda each: type(each).__name__)
def test_the_strong_backings_hold_in_bigger_worlds_than_are_explored(scheduler: Scheduler, backing: Backing) -> None:
    big = setting(backing, attempts=4, steps=2, crashes=2, losses=2, duplicates=1, no_ops=True)
    found = simulate(Model(big), scheduler, 150)
    assert found.failures == ()
    assert found.runs == 150


def test_a_failure_shrinks_to_few_faults_few_switches_few_steps() -> None:
    """The shortest way is known from exploration: nothing random may claim to be shorter."""
    worlds = WorldCache(Model(SOFT))
    for failure in simulate(worlds, Weighted(3), 20_000, stop_after=5).failures:
        small = shrink(worlds, failure)
        assert small.property == failure.property
        assert cost(small.labels) <= cost(failure.labels)
        assert cost(small.labels)[0] <= 2
        assert len(small.labels) >= {"S-01": 18, "S-02": 24, "S-02b": 17, "S-03": 22, "S-04": 22}[small.property]
        assert carry_out(worlds, small.choices)[1] == small.labels


def test_shrinking_gives_up_after_so_many_tries() -> None:
    worlds = WorldCache(Model(SOFT))
    (failure,) = simulate(worlds, Weighted(3), 20_000).failures
    assert shrink(worlds, failure, tries=0) is failure


@pytest.mark.parametrize(
    "of",
    [SOFT, setting(Backing.ATOMIC), setting(Backing.LOCKED, ledger=True, attempts=3, pauses=False, same_tree=True)],
    ids=lambda of: of.bounds(),
)
def test_a_line_says_everything(of: Setting) -> None:
    line = read_line(line_of(Model(of), (0, 1, 2)))
    assert (line.setting, line.choices) == (of, (0, 1, 2))
    assert model_of(line).setting == of


def test_a_line_is_refused_on_another_table_and_in_another_setting() -> None:
    of = setting(Backing.CONDITIONAL)
    line = read_line(line_of(Model(of), (0,)))
    with pytest.raises(LineError, match="made on table"):
        model_of(line, Model(of, attempts(skip(Phase.FENCE_2))))
    with pytest.raises(LineError, match="made in"):
        model_of(line, Model(SOFT))


@pytest.mark.parametrize(
    "text", ["", "run", "walk a backing=soft 0", "run a backing=x 0", "run a nothing=1 0", "run a x 0"]
)
def test_what_is_not_a_line_is_refused(text: str) -> None:
    with pytest.raises(LineError):
        read_line(text)


def test_worlds_are_forgotten_when_they_are_too_many() -> None:
    worlds = WorldCache(Model(setting(Backing.CONDITIONAL, crashes=0)), limit=50)
    assert simulate(worlds, Weighted(1), 200).failures == ()
    assert worlds.known() <= 50 + 200


def test_a_run_is_not_longer_than_allowed() -> None:
    assert simulate(Model(setting(Backing.ATOMIC)), Weighted(1), 10, steps=3).steps == 30
