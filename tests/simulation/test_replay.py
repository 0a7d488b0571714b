"""A run is its list of choices: it gives the same worlds again, it can be kept, it is refused where it is not true."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise

import pytest
from attrs import evolve

from perago_core.attempt.state import Phase
from perago_core.machine.description import digest
from perago_core.values import Backing
from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.search import explore
from perago_simulation.mutants.tables import attempts, skip
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.runs.replay import (
    LineError,
    ReplayError,
    Stored,
    dump,
    line_of,
    load,
    model_of,
    read_line,
    replay,
    replay_stored,
    store,
)
from perago_simulation.runs.schedule import (
    Pct,
    Replay,
    Scheduler,
    Swarm,
    Weighted,
    WorldCache,
    carry_out,
    cost,
    shrink,
    simulate,
)
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import World

SOFT = setting(Backing.SOFT, crashes=0)
WILD = setting(Backing.SOFT, crashes=1, losses=1, strangers=1)
LOCKED = setting(Backing.LOCKED, crashes=0, strangers=1, no_ops=True, ledger=True)


@cache
def found(where: Setting) -> tuple[Violation, ...]:
    return explore(where).violations


def kept(where: Setting = SOFT) -> Stored:
    return store(Model(where), found(where)[0])


@pytest.mark.parametrize("where", [SOFT, WILD, LOCKED], ids=["soft", "wild", "locked"])
def test_every_violation_is_carried_out_again_and_ends_in_what_it_shows(where: Setting) -> None:
    judges = {each.id: each.judge for each in PROPERTIES}
    violations = found(where)
    assert violations
    for violation in violations:
        steps = replay(Model(where), violation.trace)
        assert tuple(step.label for step in steps) == violation.trace
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        assert steps[0].before is None
        assert all(before.after == step.before for before, step in pairwise(steps))
        assert judges[violation.property](where, steps[-1].after) == violation.problem


def test_labels_and_indices_name_the_same_run() -> None:
    (violation, *_) = found(SOFT)
    steps = replay(Model(SOFT), violation.trace)
    assert replay(Model(SOFT), [step.choice for step in steps]) == steps


@pytest.mark.parametrize("where", [WILD, LOCKED], ids=["wild", "locked"])
def test_a_label_names_one_move(where: Setting) -> None:
    """What the explorer hands out can be replayed, because no world has two moves of one label."""
    model = Model(where)
    seen: set[World] = set()
    frontier = [world for _, world in model.beginnings()]
    while frontier and len(seen) < 3_000:
        world = frontier.pop()
        moves = list(model.moves(world))
        assert len({label for label, _ in moves}) == len(moves)
        frontier += [after for _, after in moves if after not in seen]
        seen.update(after for _, after in moves)


@pytest.mark.parametrize("where", [SOFT, WILD, LOCKED], ids=["soft", "wild", "locked"])
def test_each_step_names_the_row_that_took_the_execution_where_it_is(where: Setting) -> None:
    model = Model(where)
    named = 0
    for violation in found(where):
        for step in replay(model, violation.trace):
            changed = {
                f"e{index}"
                for index, run in enumerate(step.after.runs)
                if step.before is None or index >= len(step.before.runs) or run.state != step.before.runs[index].state
            }
            crashed = {step.label[2]} if step.label[1] == "crash" else set[str]()
            assert {told.execution for told in step.told} == changed - crashed
            assert step.row == (step.told[-1].row.id if step.told else "")
            if step.before is None or step.label[1] in {"hand out", "deliver again"}:
                continue
            for told in step.told:
                before, after = (world.runs[int(told.execution[1:])].state for world in (step.before, step.after))
                assert before is not None
                fired = model.table.fire(before, told.event)
                assert fired.row is told.row
                assert after is None or fired.state == after
                named += 1
    assert named


def test_watching_a_run_leaves_the_model_as_it_was() -> None:
    model = Model(SOFT)
    step = model.step
    replay(model, found(SOFT)[0].trace)
    assert model.step is step


@pytest.mark.parametrize("where", [SOFT, WILD, LOCKED], ids=["soft", "wild", "locked"])
def test_what_is_written_is_read_back(where: Setting) -> None:
    stored = kept(where)
    text = dump(stored)
    assert load(text) == stored
    assert dump(load(text)) == text
    header, *labels = map(json.loads, text.splitlines())
    assert header["schema"] == "perago.simulation.run/1"
    assert header["table"] == digest(Model(where).table)
    assert header["setting"]["backing"] == where.backing.value
    assert [tuple(label) for label in labels] == list(stored.trace)
    assert replay_stored(load(text)) == replay(Model(where), stored.trace)


def test_a_run_from_another_table_is_refused_unless_forced() -> None:
    stored = evolve(kept(), table="0123456789abcdef")
    with pytest.raises(
        ReplayError, match=rf"recorded on table 0123456789abcdef; here the table is {digest(Model(SOFT).table)}"
    ):
        replay_stored(stored)
    assert replay_stored(stored, force=True)


def test_a_run_from_another_setting_is_refused() -> None:
    with pytest.raises(ReplayError, match="recorded in soft"):
        replay_stored(kept(), Model(LOCKED))


def test_a_move_that_cannot_happen_is_named_with_those_that_can() -> None:
    first = kept().trace[0]
    with pytest.raises(
        ReplayError, match=r"step 2: 'store begin e0' cannot happen; .* 0: e0 ReloadTask TaskReloaded; 1: "
    ):
        replay(Model(SOFT), [first, ("store", "begin", "e0")])
    with pytest.raises(ReplayError, match="step 1: choice 7 cannot happen"):
        replay(Model(SOFT), [7])


def changed(**more: object) -> str:
    header, *labels = dump(kept()).splitlines()
    return "\n".join([json.dumps({**json.loads(header), **more}), *labels])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a stored run"),
        ("{", "not a stored run"),
        ("[1]", "unknown schema None"),
        (changed(schema="perago.simulation.run/2"), "unknown schema 'perago.simulation.run/2'"),
        (changed(setting="soft"), "expected the fields of Setting"),
        (changed(setting={"backing": "hard"}), "'hard' is not a valid Backing"),
        (changed(setting={"backing": "soft"}), "not a Setting"),
        (changed(setting={"backing": "soft", "store": {"magic": True}}), "Capabilities has no magic"),
        (changed(setting={"backing": "soft", "store": {}, "crashes": -1}), "crashes must be an integer"),
        (changed(surprise=1), "Stored has no surprise"),
        (changed(table=3), "table must be a string, not 3"),
        (dump(kept()) + '["e0","Publish"]\n', "label 23 is not three strings"),
    ],
)
def test_what_is_not_a_stored_run_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ReplayError, match=complaint):
        load(text)


def test_a_setting_from_before_a_field_was_added_has_its_default() -> None:
    assert load(changed(setting={"backing": "soft", "store": {}, "crashes": 0})).setting == SOFT


# ---- Random runs: the same seed makes the same choices, a failure is found, shrunk, written as one line and replayed.


SCHEDULED = setting(Backing.SOFT, crashes=0, no_ops=True)
SCHEDULERS: tuple[Scheduler, ...] = (Weighted(7), Swarm(7), Pct(7))


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda each: type(each).__name__)
def test_each_scheduler_breaks_soft_and_its_failure_replays(scheduler: Scheduler) -> None:
    found = simulate(Model(SCHEDULED), scheduler, 20_000)
    (failure,) = found.failures
    node, labels = carry_out(WorldCache(Model(SCHEDULED)), failure.choices)
    assert node.wrong == (failure.property, failure.problem)
    assert labels == failure.labels
    assert simulate(Model(SCHEDULED), Replay(failure.choices), 1).failures == (failure,)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda each: type(each).__name__)
def test_the_same_seed_gives_the_same_runs(scheduler: Scheduler) -> None:
    one, other = (simulate(Model(SCHEDULED), scheduler, 3_000, stop_after=5) for _ in range(2))
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
    worlds = WorldCache(Model(SCHEDULED))
    for failure in simulate(worlds, Weighted(3), 20_000, stop_after=5).failures:
        small = shrink(worlds, failure)
        assert small.property == failure.property
        assert cost(small.labels) <= cost(failure.labels)
        assert cost(small.labels)[0] <= 2
        assert len(small.labels) >= {"S-01": 18, "S-02": 24, "S-02b": 17, "S-03": 22, "S-04": 22}[small.property]
        assert carry_out(worlds, small.choices)[1] == small.labels


def test_shrinking_gives_up_after_so_many_tries() -> None:
    worlds = WorldCache(Model(SCHEDULED))
    (failure,) = simulate(worlds, Weighted(3), 20_000).failures
    assert shrink(worlds, failure, tries=0) is failure


@pytest.mark.parametrize(
    "of",
    [
        SCHEDULED,
        setting(Backing.ATOMIC),
        setting(Backing.LOCKED, ledger=True, attempts=3, pauses=False, same_tree=True),
    ],
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
        model_of(line, Model(SCHEDULED))


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
