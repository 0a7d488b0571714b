"""A run is its list of choices: it gives the same worlds again, it can be kept, it is refused where it is not true."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise

import pytest
from attrs import evolve

from perago_core.machine.description import digest
from perago_core.values import Backing
from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.search import explore
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.runs.replay import ReplayError, Stored, dump, load, replay, replay_stored, store
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
