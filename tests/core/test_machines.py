"""The four machines by one harness: every state their events can lead to, every row, every end, every refusal.

What each machine is begun with and what may happen to it is in ``tests.specs.menus`` and ``tests.core.attempts``; the
vectors are made of the same.
"""

from __future__ import annotations

import pytest
from attrs import evolve

from perago_core.answers import Event
from perago_core.errors import ProtocolError
from perago_core.machine.rows import mentioned
from tests.core.machines import NAMES
from tests.specs.vectors import SOURCES, Source, states
from tests.specs.walking import AnyState

#: How many states the events of the menus lead to.
STATES = {"attempt": 99_874, "policy": 33_285, "lease": 511, "recovery": 100_312}


def has_outcome(source: Source, state: AnyState) -> bool:
    """The attempt says by an error that it has not ended, the others by having no outcome."""
    try:
        return source.outcome(state) is not None
    except ProtocolError:
        return False


@pytest.mark.clause("W-14")
@pytest.mark.parametrize("name", NAMES)
def test_every_state_that_has_ended_is_explained_and_waits_for_nothing(name: str) -> None:
    """S-25, S-28, S-37, W-14: and what has not ended has no outcome."""
    source = SOURCES[name]
    assert len(states(name)) == STATES[name]
    for state in states(name):
        ended = source.table.is_terminal(state)
        assert has_outcome(source, state) is ended
        assert not (ended and state.pending)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_fires(name: str) -> None:
    """T-O25: no row is there for show, and none is reached only by a state made by hand."""
    table, menu = SOURCES[name].table, SOURCES[name].menu
    fired = {table.fire(state, event).row.id for state in states(name) for event in menu(state)}
    assert fired == {row.id for row in table.definition.rows}


@pytest.mark.clause("W-04")
@pytest.mark.parametrize("name", NAMES)
def test_every_other_event_is_refused_and_changes_nothing(name: str) -> None:
    """S-25, W-04, W-21: refusal is loud, names the phase and the event, and leaves the state as it was."""
    table, menu = SOURCES[name].table, SOURCES[name].menu
    events: dict[type[Event], Event] = {type(event): event for state in states(name) for event in menu(state)}
    assert set(events) == {row.event for row in table.definition.rows}
    refused = 0
    for state in {state.phase: state for state in states(name)}.values():
        for kind, event in events.items():
            if kind.__name__ not in table.allowed(state.phase):
                before = evolve(state)
                with pytest.raises(ProtocolError, match=f"{kind.__name__} is not allowed in phase {state.phase.name}"):
                    table.step(state, event)
                assert state == before
                refused += 1
    allowed = {(row.phase, row.event) for row in table.definition.rows}
    assert refused == len(table.definition.phases) * len(events) - len(allowed)


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_is_used(name: str) -> None:
    """W-04, W-22: no guard is dead data."""
    definition = SOURCES[name].table.definition
    assert {fact.name for fact in definition.facts} == set(mentioned(definition.rows))
