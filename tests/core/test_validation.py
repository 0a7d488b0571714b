"""A table with a hole in it cannot be loaded, and the message names the hole.

The first half breaks a toy machine in every way a table can be broken. The second half breaks the real ones, one row at
a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import messages as m
from perago_core.attempt.state import AFTER_REPORT, BEYOND_SOFT, FROM_PUBLICATION, UNDER_LEASE
from perago_core.attempt.state import Phase as AttemptPhase
from perago_core.errors import DefinitionError
from perago_core.machine.engine import Table, validate
from perago_core.machine.rows import ALWAYS, Command, Definition, Fact, Guard, Row, State, mentioned, when
from perago_core.recovery import Mode, Recovery
from perago_core.values import Target
from tests.core.attempts import BEFORE_PUBLICATION, all_attempts
from tests.core.given_facts import cases, with_given_facts
from tests.core.machines import NAMES, definition, load
from tests.core.toy import (
    FACTS,
    ROWS,
    TOY,
    Bake,
    Baked,
    Elsewhere,
    Knead,
    Kneaded,
    Known,
    Phase,
    Rang,
    Recipe,
    bake,
    knead,
)

Toy = Definition[Recipe, Known]


def without(phase: Phase, *events: type[Event]) -> Toy:
    """The toy without a row of this phase for these events."""
    return evolve(TOY, rows=tuple(row for row in ROWS if row.phase is not phase or row.event not in events))


def changed(row_id: str, **changes: Any) -> Toy:  # noqa: ANN401  whatever a row can hold
    """The toy with one row written differently."""
    return evolve(TOY, rows=tuple(evolve(row, **changes) if row.id == row_id else row for row in ROWS))


def holed(table: Toy, *culprits: str) -> None:
    """The table is refused, and the message names the table and each culprit."""
    with pytest.raises(DefinitionError) as caught:
        validate(table)
    message = str(caught.value)
    assert message.startswith("table 'toy': ")
    assert [culprit for culprit in culprits if culprit not in message] == []


def test_a_sound_table_is_accepted() -> None:
    validate(TOY)


def test_a_table_with_a_hole_cannot_be_compiled() -> None:
    with pytest.raises(DefinitionError):
        Table(without(Phase.OVEN, Unknown))


# ----------------------------------------------------------------------------------------------------------------------
# Names


def test_two_rows_of_one_id_are_refused() -> None:
    holed(changed("O4", id="O5"), "row ids", "O5")


def test_two_facts_of_one_name_are_refused() -> None:
    """The second would silently answer for the first."""
    double = Fact("flour", ("enough", "little"), lambda _recipe, _known, _event: "little")
    holed(evolve(TOY, facts=(*FACTS, double)), "facts", "flour")


def test_two_events_of_one_name_are_refused() -> None:
    """``transitions`` knows events by name and would take one for the other."""
    namesake = type("Kneaded", (Event,), {"__slots__": ()})
    row = Row("N1", Phase.OVEN, namesake, ALWAYS, Phase.DONE)
    holed(evolve(TOY, rows=(*ROWS, row)), "events", "Kneaded")


# ----------------------------------------------------------------------------------------------------------------------
# Phases


def test_a_row_from_an_unknown_phase_is_refused() -> None:
    """``transitions`` accepts it, and the row can never fire (B.3)."""
    holed(changed("D3", phase=Elsewhere.NOWHERE), "D3", "NOWHERE")


def test_a_row_to_an_unknown_phase_is_refused() -> None:
    """``transitions`` accepts it until the row fires (B.3)."""
    holed(changed("D3", next=Elsewhere.NOWHERE), "D3", "NOWHERE")


def test_an_unknown_initial_phase_is_refused() -> None:
    holed(evolve(TOY, initial=(Elsewhere.NOWHERE,)), "initial", "NOWHERE")


def test_an_unknown_terminal_phase_is_refused() -> None:
    holed(evolve(TOY, terminal=frozenset({Phase.DONE, Elsewhere.NOWHERE})), "terminal", "NOWHERE")


def test_a_phase_that_cannot_be_reached_is_refused() -> None:
    holed(changed("D1", next=Phase.DONE, ask=None), "OVEN", "cannot be reached")


def test_a_phase_without_a_way_to_an_end_is_refused() -> None:
    rows = tuple(evolve(row, next=Phase.OVEN, ask=bake) if row.phase is Phase.OVEN else row for row in ROWS)
    holed(evolve(TOY, rows=rows), "['OVEN']", "no way to an end")


def test_a_row_out_of_a_terminal_phase_is_refused() -> None:
    again = Row("X1", Phase.DONE, Rang, ALWAYS, Phase.DOUGH, knead)
    holed(evolve(TOY, rows=(*ROWS, again)), "X1", "terminal")


# ----------------------------------------------------------------------------------------------------------------------
# Guards


def test_guards_that_overlap_are_refused() -> None:
    """``transitions`` silently takes the first (B.3)."""
    holed(changed("D2", when=ALWAYS), "D1", "D2", "overlap", "Kneaded in DOUGH", "enough")


def test_guards_that_overlap_over_two_facts_are_refused() -> None:
    holed(changed("O1", when=when(guests="yes")), "O1", "O3", "overlap", "Baked in OVEN", "pale")


def test_guards_that_leave_a_gap_are_refused() -> None:
    """``transitions`` answers ``False`` and stays where it is: a silent dead end (B.3)."""
    rows = tuple(row for row in ROWS if row.id != "D2")
    holed(evolve(TOY, rows=rows), "no row for some values", "Kneaded in DOUGH", "flour=little")


def test_guards_that_leave_a_gap_over_two_facts_are_refused() -> None:
    gap = changed("O3", when=when(crust="pale", guests="yes"))
    holed(gap, "no row for some values", "Baked in OVEN", "crust=black, guests=yes")


def test_an_unknown_fact_is_refused() -> None:
    """``transitions`` finds out when the row fires (B.3)."""
    holed(changed("D1", when=when(sugar="some")), "D1", "unknown fact", "sugar")


@pytest.mark.parametrize(
    ("guard", "culprit"),
    [(when(flour="plenty"), "plenty"), (when(flour=("enough", "none")), "none"), (when(flour=()), "()")],
    ids=["strange", "one strange", "none at all"],
)
def test_an_unknown_value_of_a_fact_is_refused(guard: Guard, culprit: str) -> None:
    holed(changed("D1", when=guard), "D1", "flour", culprit, "little")


# ----------------------------------------------------------------------------------------------------------------------
# Effects and their three answers


@pytest.mark.parametrize("answer", [Baked, NotDone, Unknown], ids=["done", "not done", "unknown"])
def test_an_effect_without_a_row_for_one_of_its_three_answers_is_refused(answer: type[Event]) -> None:
    holed(without(Phase.OVEN, answer), "OVEN", "Bake", answer.__name__)


@pytest.mark.parametrize("answer", [Kneaded, Unknown], ids=["done", "unknown"])
def test_a_wait_without_a_row_for_one_of_its_two_answers_is_refused(answer: type[Event]) -> None:
    """The oven is also reached from the dough by another row, so that only the answer is missing."""
    other = Row("X1", Phase.DOUGH, Rang, ALWAYS, Phase.OVEN, bake)
    table = evolve(TOY, rows=(*without(Phase.DOUGH, answer).rows, other))
    holed(table, "DOUGH", "Knead", answer.__name__)


def test_every_missing_answer_is_named() -> None:
    holed(without(Phase.OVEN, NotDone, Unknown), "NotDone", "Unknown")


def test_a_row_that_enters_a_waiting_phase_without_asking_is_refused() -> None:
    holed(changed("D1", ask=None), "D1", "OVEN", "Bake")


def test_a_row_that_asks_for_what_the_next_phase_does_not_wait_for_is_refused() -> None:
    holed(changed("D1", ask=knead), "D1", "OVEN", "Knead")


def test_a_row_that_asks_for_something_at_the_end_is_refused() -> None:
    holed(changed("O5", ask=knead), "O5", "DONE", "Knead")


def test_a_self_loop_that_asks_for_something_else_is_refused() -> None:
    holed(changed("D2", ask=bake), "D2", "DOUGH", "Bake")


def test_a_self_loop_may_ask_for_nothing() -> None:
    """It keeps waiting for what was asked before."""
    validate(changed("R2", ask=None))


def test_a_phase_may_wait_for_one_of_several_commands() -> None:
    """All their answers need rows, then."""
    waits: Mapping[Enum, tuple[type[Command], ...]] = {Phase.DOUGH: (Knead, Bake), Phase.OVEN: (Bake,)}
    holed(evolve(TOY, waits=waits), "DOUGH", "Bake", "Baked", "NotDone")


# ----------------------------------------------------------------------------------------------------------------------
# The real machines


@pytest.mark.parametrize("name", NAMES)
def test_the_real_machines_are_sound(name: str) -> None:
    validate(definition(name))


#: The rows whose removal leaves a sound table, each for the same reason: it is its phase's only row for an event that
#: comes from outside, so the phase then simply does not allow that event. No check of the table can tell whether it
#: should; the two tests on interruptions below do.
REMOVABLE = {
    "attempt": {
        *(f"AL-{phase.name}" for phase in (*BEYOND_SOFT, *AFTER_REPORT)),
        *(f"DE-{phase.name}" for phase in AttemptPhase if phase not in {AttemptPhase.PUBLICATION, AttemptPhase.DONE}),
        *(
            f"LL-{phase.name}"
            for phase in (*UNDER_LEASE, *FROM_PUBLICATION, AttemptPhase.RIVALS, *AFTER_REPORT)
            if phase is not AttemptPhase.PUBLICATION
        ),
    },
    "policy": set[str](),
    "lease": set[str](),
    "recovery": set[str](),
}


@pytest.mark.parametrize("name", NAMES)
def test_no_row_can_be_dropped_unnoticed(name: str) -> None:
    """All of them, one at a time: the space is small enough not to leave it to chance."""
    table = definition(name)
    unnoticed = {row.id for row in table.rows if is_sound(without_row(table, row))}
    assert unnoticed == REMOVABLE[name]


def test_the_rows_that_can_be_dropped_are_counted() -> None:
    assert {name: len(rows) for name, rows in REMOVABLE.items()} == {
        "attempt": 75,
        "policy": 0,
        "lease": 0,
        "recovery": 0,
    }


def test_only_interruptions_can_be_dropped() -> None:
    table = definition("attempt")
    events = {row.event for row in table.rows if row.id in REMOVABLE["attempt"]}
    assert events <= set(table.interrupts)


@pytest.mark.parametrize("event", [m.AttemptLost, m.DeadlineExceeded], ids=lambda event: event.__name__)
def test_an_attempt_can_be_interrupted_in_every_phase_but_the_last(event: type[Event]) -> None:
    """Rule 4: an interruption is never an event nobody foresaw."""
    refusing = {phase for phase in AttemptPhase if event.__name__ not in load("attempt").allowed(phase)}
    assert refusing == {AttemptPhase.DONE}


def test_a_lost_lease_is_foreseen_from_the_moment_it_is_held() -> None:
    foreseen = {phase for phase in AttemptPhase if "LeaseLost" in load("attempt").allowed(phase)}
    assert foreseen == {*UNDER_LEASE, *FROM_PUBLICATION, AttemptPhase.RIVALS, *AFTER_REPORT}
    assert not foreseen & (set(BEFORE_PUBLICATION) - set(UNDER_LEASE))


@pytest.mark.parametrize("name", NAMES)
def test_no_row_can_be_written_twice(name: str) -> None:
    table = definition(name)
    unnoticed = [
        row.id for row in table.rows if is_sound(evolve(table, rows=(*table.rows, evolve(row, id=f"{row.id}-again"))))
    ]
    assert unnoticed == []


@pytest.mark.parametrize("name", NAMES)
def test_every_row_can_fire(name: str) -> None:
    """Its event answers a command its phase waits for, or comes from outside."""
    table = definition(name)
    dead = [row.id for row in table.rows if row.event not in {*answers(table, row), *table.interrupts}]
    assert dead == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_a_phase_waits_for_is_asked_for(name: str) -> None:
    table = definition(name)
    # What is asked for first depends on the attempt alone; the recovery's opening reads its subject too.
    subjects: Mapping[str, tuple[object, ...]] = {
        "attempt": all_attempts(),
        "recovery": (Recovery("op-1", Target("lake", "main"), Mode.SETTLE_ONLY, "test"),),
    }
    openings = [table.opening(subject) for subject in subjects.get(name, (None,))]
    assert {phase for phase, _, _ in openings} == set(table.initial)
    asked = {(row.next, row.ask.command) for row in table.rows if row.ask is not None}
    asked |= {(phase, first.command) for phase, _, first in openings if first is not None}
    assert asked == {(phase, command) for phase, commands in table.waits.items() for command in commands}


@pytest.mark.parametrize("name", NAMES)
def test_no_fact_is_dead_text(name: str) -> None:
    table = definition(name)
    assert {fact.name for fact in table.facts} == set(mentioned(table.rows))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_what_is_accepted_has_a_row_for_every_combination(name: str, data: st.DataObject) -> None:
    """Drop rows at random: the rest is refused, or each of its choices is total, so ``fire`` can never miss."""
    table = definition(name)
    groups = sorted({(row.phase.name, row.event.__name__) for row in table.rows})
    dropped_groups = data.draw(st.sets(st.sampled_from(groups), max_size=3))
    dropped_rows = data.draw(st.sets(st.sampled_from([row.id for row in table.rows]), max_size=2))
    rest = tuple(
        row
        for row in table.rows
        if row.id not in dropped_rows and (row.phase.name, row.event.__name__) not in dropped_groups
    )
    try:
        compiled = with_given_facts(evolve(table, rows=rest))
    except DefinitionError:
        return
    fired = {
        compiled.fire(State(phase, valuation, None), object.__new__(kind)).row.id
        for phase, kind, valuation in cases(compiled)
        if kind.__name__ in compiled.allowed(phase)
    }
    assert fired == {row.id for row in rest}


def without_row(table: Definition[Any, Any], dropped: Row) -> Definition[Any, Any]:
    return evolve(table, rows=tuple(row for row in table.rows if row is not dropped))


def is_sound(table: Definition[Any, Any]) -> bool:
    try:
        validate(table)
    except DefinitionError:
        return False
    return True


def answers(table: Definition[Any, Any], row: Row) -> set[type]:
    return {event for command in table.waits.get(row.phase, ()) for event in command.answers.all()}
