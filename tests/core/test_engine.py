"""The engine: total, loud, pure. One row for an event, or an error that names what is allowed and changes nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st
from transitions.core import Condition

from perago_core.answers import Event, NotDone, Unknown
from perago_core.errors import DefinitionError, PeragoError, ProtocolError
from perago_core.machine.description import describe, mermaid
from perago_core.machine.engine import RowMachine, RowTransition, Table, build_machine, read_back
from perago_core.machine.rows import Answers, Ask, Fired, Row, State, Step, asks, when
from tests.core.machines import NAMES, load
from tests.core.toy import (
    ROWS,
    TOY,
    Bake,
    Baked,
    Knead,
    Kneaded,
    Known,
    Phase,
    Rang,
    Recipe,
    bake,
    knead,
)

TABLE = Table(TOY)
ToyState = State[Recipe, Known]

START = TABLE.start(Recipe()).state
IN_OVEN = TABLE.step(START, Kneaded()).state
AT_END = TABLE.step(IN_OVEN, Baked("golden")).state

EVENTS: tuple[Event, ...] = (
    Kneaded(),
    Unknown("lost"),
    Baked("golden"),
    Baked("pale"),
    Baked("black"),
    NotDone("cold"),
    Unknown("lost"),
    Rang(),
)
RECIPES = st.builds(Recipe, st.sampled_from(["enough", "little"]), st.sampled_from(["yes", "no"]))


# ----------------------------------------------------------------------------------------------------------------------
# What happens


def test_start_gives_the_initial_phase_and_its_command() -> None:
    recipe = Recipe(guests="yes")
    assert TABLE.start(recipe) == Step(State(Phase.DOUGH, recipe, Known(), (Knead(),)), (Knead(),))


def test_a_machine_may_start_without_asking_for_anything() -> None:
    def opening(_recipe: Recipe) -> tuple[Phase, Known, None]:
        return Phase.DOUGH, Known(rings=1), None

    table = Table(evolve(TOY, opening=opening))
    assert table.start(Recipe()) == Step(State(Phase.DOUGH, Recipe(), Known(rings=1), ()), ())


def test_a_machine_may_start_in_another_phase_for_another_subject() -> None:
    def opening(recipe: Recipe) -> tuple[Phase, Known, Ask]:
        return (Phase.OVEN, Known(), bake) if recipe.flour == "little" else (Phase.DOUGH, Known(), knead)

    table = Table(evolve(TOY, initial=(Phase.DOUGH, Phase.OVEN), opening=opening))
    bought = Recipe(flour="little")
    assert table.start(Recipe()).state.phase is Phase.DOUGH
    assert table.start(bought) == Step(State(Phase.OVEN, bought, Known(), (Bake(200),)), (Bake(200),))
    assert [phase.name for phase in table.definition.initial] == describe(table)["initial"] == ["DOUGH", "OVEN"]
    assert "[*] --> OVEN" in mermaid(table)


def test_step_gives_the_next_state_and_the_commands_of_the_row() -> None:
    assert TABLE.step(START, Kneaded()) == Step(State(Phase.OVEN, Recipe(), Known(), (Bake(200),)), (Bake(200),))


def test_fire_also_names_the_row() -> None:
    fired = TABLE.fire(START, Kneaded())
    assert fired.row == ROWS[0]
    assert Step(fired.state, fired.commands) == TABLE.step(START, Kneaded())


@pytest.mark.parametrize(
    ("state", "event", "row"),
    [
        (START, Kneaded(), "D1"),
        (evolve(START, subject=Recipe(flour="little")), Kneaded(), "D2"),
        (START, Unknown("lost"), "D3"),
        (IN_OVEN, Baked("golden"), "O1"),
        (evolve(IN_OVEN, subject=Recipe(guests="yes")), Baked("golden"), "O1"),
        (IN_OVEN, Baked("pale"), "O2"),
        (evolve(IN_OVEN, subject=Recipe(guests="yes")), Baked("black"), "O3"),
        (IN_OVEN, NotDone("cold"), "O4"),
        (IN_OVEN, Unknown("lost"), "O5"),
        (IN_OVEN, Rang(), "R1"),
        (evolve(IN_OVEN, known=Known(rings=1)), Rang(), "R2"),
    ],
)
def test_the_facts_choose_the_row(state: ToyState, event: Event, row: str) -> None:
    assert TABLE.fire(state, event).row.id == row


def test_what_an_event_teaches_is_known_before_the_facts_are_read() -> None:
    """R2 fires on the second ring, not on the third, and its command already counts it."""
    once = TABLE.step(IN_OVEN, Rang()).state
    twice = TABLE.fire(once, Rang())
    assert once.known == Known(rings=1)
    assert (twice.row.id, twice.state.known, twice.commands) == ("R2", Known(rings=2), (Bake(202),))


def test_an_event_nobody_remembers_leaves_what_is_known() -> None:
    assert TABLE.step(IN_OVEN, NotDone("cold")).state.known is IN_OVEN.known


def test_a_self_loop_without_a_command_keeps_waiting_for_the_same() -> None:
    state, commands = TABLE.step(IN_OVEN, Rang())
    assert commands == ()
    assert state.pending is IN_OVEN.pending


def test_a_self_loop_with_a_command_waits_for_that() -> None:
    state, commands = TABLE.step(evolve(IN_OVEN, known=Known(rings=1)), Rang())
    assert commands == state.pending == (Bake(202),)


def test_nothing_is_pending_at_the_end() -> None:
    assert State(Phase.DONE, Recipe(), Known(), ()) == AT_END


def test_what_was_pinned_is_handed_on_untouched() -> None:
    assert AT_END.subject is START.subject


# ----------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize(
    ("state", "event", "allowed"),
    [
        (START, Baked("golden"), "Kneaded, Unknown"),
        (IN_OVEN, Kneaded(), "Baked, NotDone, Rang, Unknown"),
        (AT_END, Rang(), "nothing: the machine has ended"),
    ],
    ids=["start", "middle", "end"],
)
def test_an_event_that_is_not_allowed_is_refused_and_changes_nothing(
    state: ToyState, event: Event, allowed: str
) -> None:
    """The error names machine, phase, event and what is allowed instead."""
    before = evolve(state)
    for advance in (TABLE.step, TABLE.fire):
        with pytest.raises(ProtocolError) as caught:
            advance(state, event)
        assert str(caught.value) == (
            f"toy: {type(event).__name__} is not allowed in phase {state.phase.name}; allowed: {allowed}. "
            "The state is unchanged."
        )
    assert state == before
    assert hash(state) == hash(before)
    assert state.pending is before.pending


def test_the_state_serves_as_before_after_a_refusal() -> None:
    with pytest.raises(ProtocolError):
        TABLE.step(IN_OVEN, Kneaded())
    assert TABLE.step(IN_OVEN, Baked("golden")).state == AT_END


def test_a_subclass_of_an_allowed_event_is_not_that_event() -> None:
    class KneadedTwice(Kneaded):
        __slots__ = ()

    with pytest.raises(ProtocolError, match="KneadedTwice"):
        TABLE.step(START, KneadedTwice())


def test_a_phase_of_another_machine_allows_nothing() -> None:
    foreign = evolve(START, phase=next(iter(load("lease").definition.phases)))
    with pytest.raises(ProtocolError, match="toy: Kneaded is not allowed in phase LEASE"):
        TABLE.step(foreign, Kneaded())


def test_a_refusal_is_an_error_of_the_core() -> None:
    assert issubclass(ProtocolError, PeragoError)


def test_what_a_phase_allows_is_listed_in_order() -> None:
    assert TABLE.allowed(Phase.DOUGH) == ("Kneaded", "Unknown")
    assert TABLE.allowed(Phase.OVEN) == ("Baked", "NotDone", "Rang", "Unknown")
    assert TABLE.allowed(Phase.DONE) == ()


def test_only_a_terminal_phase_is_the_end() -> None:
    assert [TABLE.is_terminal(state) for state in (START, IN_OVEN, AT_END)] == [False, False, True]


@pytest.mark.parametrize("name", NAMES)
def test_exactly_the_terminal_phases_of_a_real_machine_allow_nothing(name: str) -> None:
    table = load(name)
    silent = {phase for phase in table.definition.phases if not table.allowed(phase)}
    assert silent == table.definition.terminal


# ----------------------------------------------------------------------------------------------------------------------
# Purity


@given(RECIPES, st.lists(st.sampled_from(EVENTS), max_size=30))
def test_the_same_events_always_lead_to_the_same_states(recipe: Recipe, events: list[Event]) -> None:
    """Also through a table compiled a second time: nothing is kept between steps."""
    assert walk(TABLE, recipe, events) == walk(TABLE, recipe, events) == walk(Table(TOY), recipe, events)


@given(RECIPES, st.lists(st.sampled_from(EVENTS), max_size=30))
def test_every_event_takes_exactly_one_row_or_is_refused(recipe: Recipe, events: list[Event]) -> None:
    """Refusals leave the very same state; rows leave from where the machine stood and arrive where they say."""
    states = walk(TABLE, recipe, events)
    for (before, _), (after, row) in pairwise(states):
        if row is None:
            assert after is before
        else:
            assert (row.phase, row.next) == (before.phase, after.phase)
            assert TABLE.is_terminal(after) == (after.pending == ())


@given(RECIPES, RECIPES, st.lists(st.sampled_from(EVENTS), max_size=6), st.lists(st.sampled_from(EVENTS), max_size=6))
def test_equal_states_have_equal_hashes(first: Recipe, second: Recipe, these: list[Event], those: list[Event]) -> None:
    one, other = walk(TABLE, first, these)[-1][0], walk(TABLE, second, those)[-1][0]
    rebuilt = State(one.phase, Recipe(one.subject.flour, one.subject.guests), Known(one.known.rings), one.pending)
    assert rebuilt == one
    assert hash(rebuilt) == hash(one)
    assert len({one, rebuilt, other}) == (1 if one == other else 2)


def test_a_state_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        START.phase = Phase.DONE  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


# ----------------------------------------------------------------------------------------------------------------------
# How it is compiled


def transition(machine: RowMachine, row: str) -> RowTransition:
    """The transition of one row, to be corrupted."""
    (found,) = [
        each
        for event in machine.events.values()
        for leaving in event.transitions.values()
        for each in leaving
        if isinstance(each, RowTransition) and each.id == row
    ]
    return found


def test_a_row_the_transitions_machine_does_not_hold_does_not_run() -> None:
    machine = build_machine(evolve(TOY, rows=ROWS[:5]))
    table = Table(TOY, machine=machine, check=False)
    assert (table.allowed(Phase.OVEN), len(table.definition.rows)) == (("Baked",), 5)


def test_a_transition_with_another_destination_leads_there() -> None:
    """What runs, and what is listed and drawn, is the destination ``transitions`` holds, not the one written."""
    machine = build_machine(TOY)
    transition(machine, "O1").dest = "DOUGH"
    transition(machine, "O1").ask = ROWS[1].ask
    table = Table(TOY, machine=machine)
    assert table.step(IN_OVEN, Baked("golden")).state.phase is Phase.DOUGH
    assert describe(table)["rows"][3]["next"] == "DOUGH"
    assert "OVEN --> DOUGH: O1 Baked" in mermaid(table)


def test_a_transition_from_another_source_leaves_from_there() -> None:
    machine = build_machine(TOY)
    transition(machine, "R1").source = "DOUGH"
    table = Table(TOY, machine=machine, check=False)
    assert table.allowed(Phase.DOUGH) == ("Kneaded", "Rang", "Unknown")
    with pytest.raises(DefinitionError, match="Rang in DOUGH"):
        Table(TOY, machine=machine)


def test_transitions_that_exchange_their_conditions_exchange_what_happens() -> None:
    machine = build_machine(TOY)
    enough, little = transition(machine, "D1"), transition(machine, "D2")
    enough.conditions, little.conditions = little.conditions, enough.conditions
    assert Table(TOY, machine=machine).fire(START, Kneaded()).row.id == "D2"


@pytest.mark.parametrize("conditions", [[], [Condition(lambda *_: True)]], ids=["none", "no guard"])
def test_a_transition_without_a_guard_is_refused(conditions: list[Condition]) -> None:
    machine = build_machine(TOY)
    transition(machine, "D1").conditions = conditions
    with pytest.raises(DefinitionError, match="row D1 has the conditions"):
        Table(TOY, machine=machine)


def test_a_transition_whose_guard_is_another_rows_is_refused() -> None:
    """``transitions`` would take the first of the two, and stay where it is when neither matches."""
    machine = build_machine(TOY)
    transition(machine, "D1").conditions = transition(machine, "D2").conditions
    with pytest.raises(DefinitionError, match="overlap"):
        Table(TOY, machine=machine)


def test_a_transition_to_a_phase_of_no_machine_is_refused() -> None:
    machine = build_machine(TOY)
    transition(machine, "O1").dest = "NOWHERE"
    with pytest.raises(DefinitionError, match="row O1 leads from 'OVEN' to 'NOWHERE'"):
        Table(TOY, machine=machine)


@pytest.mark.parametrize("name", NAMES)
def test_no_transition_of_a_real_machine_can_be_corrupted_unnoticed(name: str) -> None:
    """Each destination on its own: either the table is refused, or its listing shows the other destination."""
    definition = load(name).definition
    for row in definition.rows:
        machine = build_machine(definition)
        transition(machine, row.id).dest = elsewhere = definition.initial[0].name
        if row.next is not definition.initial[0]:
            (held,) = [each for each in read_back(definition, machine).rows if each.id == row.id]
            assert held.next.name == elsewhere


def test_the_transitions_machine_has_no_model_and_no_callbacks() -> None:
    machine = TABLE.machine
    held = [each for event in machine.events.values() for leaving in event.transitions.values() for each in leaving]
    assert machine.models == []
    assert set(machine.events) == {row.event.__name__ for row in ROWS}
    assert [each for each in held if each.prepare or each.before or each.after] == []
    assert {each.id for each in held if isinstance(each, RowTransition)} == {row.id for row in ROWS}
    assert len(held) == len(ROWS)


def test_a_guard_is_a_pattern_of_values() -> None:
    assert when(flour="enough", guests=("yes", "no")) == {"flour": ("enough",), "guests": ("yes", "no")}


def test_an_ask_keeps_its_command_and_its_name() -> None:
    @asks(Knead)
    def softly(_recipe: Recipe, _known: Known, _event: Event) -> Knead:
        return Knead()

    assert (softly.command, softly.name) == (Knead, "softly")
    assert softly.build(Recipe(), Known(), None) == Knead()


def test_answers_are_listed_done_first() -> None:
    answers = Answers(done=(Baked,), unknown=(Unknown,), not_done=(NotDone,))
    assert answers.all() == (Baked, NotDone, Unknown)


def test_a_value_prints_as_its_class_and_its_fields() -> None:
    assert repr(Recipe()) == "Recipe(flour='enough', guests='no')"
    assert repr(Kneaded()) == "Kneaded()"


Walk = list[tuple[ToyState, Row | None]]


def walk(table: Table[Recipe, Known], recipe: Recipe, events: list[Event]) -> Walk:
    """Feed the events in turn; the first state, then for each event the state after it and the row that led there."""
    states: Walk = [(table.start(recipe).state, None)]
    for event in events:
        state = states[-1][0]
        try:
            fired: Fired[Recipe, Known] = table.fire(state, event)
        except ProtocolError:
            states.append((state, None))
        else:
            states.append((fired.state, fired.row))
    return states
