"""What runs and what ``transitions`` holds agree: two executors of one definition, on everything there is.

The compiled table and the ``transitions`` machine are built from the same rows by different code. Each real definition
is rebuilt with facts that read their value from a valuation handed in, with nothing remembered and trivial commands, so
that every phase, event and combination of values can be tried, also those no real run can reach (B.4, point 6).

It says nothing about whether a fact reads the right thing. The walks at the end use the real facts and say a little.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Any, TypeAlias

import pytest
from attrs import define, evolve, fields
from hypothesis import given
from hypothesis import strategies as st
from transitions import MachineError

from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import ATTEMPT, AttemptState, Phase
from perago_core.attempt import messages as m
from perago_core.attempt.state import Known
from perago_core.errors import ProtocolError
from perago_core.machine.engine import Table
from perago_core.machine.rows import Row, State
from perago_core.values import (
    Attempt,
    Backing,
    Claim,
    Commit,
    CommitRef,
    Head,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
    claim_of,
)
from tests.core.given_facts import cases, with_given_facts
from tests.core.machines import NAMES, definition, load

Anything: TypeAlias = Table[Any, Any]


@define
class Model:
    """What ``transitions`` moves: an object with a state."""

    state: Enum


# ----------------------------------------------------------------------------------------------------------------------
# The full product


def by_table(table: Anything, phase: Enum, event: Event, subject: object, known: object) -> Enum | None:
    """Where the compiled table leads; ``None`` if it refuses."""
    try:
        return table.fire(State(phase, subject, known), event).state.phase
    except ProtocolError:
        return None


def by_transitions(table: Anything, phase: Enum, event: Event, subject: object, known: object) -> Enum | None:
    """Where ``transitions`` leads; ``None`` if it refuses, by an error or by ``False``."""
    model = Model(phase)
    try:
        moved = table.machine.events[type(event).__name__].trigger(model, subject, known, event)
    except MachineError:
        moved = False
    assert moved or model.state is phase
    return model.state if moved else None


#: Cases per machine, and how many of them lead somewhere.
CASES = {
    "attempt": (1485, 482),
    "policy": (141, 38),
    "lease": (181, 44),
    "recovery": (21840, 21555),
}


@pytest.mark.parametrize("name", NAMES)
def test_table_and_transitions_agree_on_every_case(name: str) -> None:
    table = with_given_facts(definition(name))
    tried, moved, disagreements = 0, 0, list[object]()
    for phase, kind, valuation in cases(table):
        event = object.__new__(kind)  # its fields are never read: the facts are told, nothing is remembered
        ours = by_table(table, phase, event, valuation, None)
        theirs = by_transitions(table, phase, event, valuation, None)
        tried, moved = tried + 1, moved + (ours is not None)
        if ours is not theirs:
            disagreements.append((phase, kind, valuation, ours, theirs))
    assert disagreements == []
    assert (tried, moved) == CASES[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_the_answer_to_some_case(name: str) -> None:
    table = with_given_facts(definition(name))
    fired = Counter(
        table.fire(State(phase, valuation, None), object.__new__(kind)).row.id
        for phase, kind, valuation in cases(table)
        if kind.__name__ in table.allowed(phase)
    )
    assert set(fired) == {row.id for row in table.definition.rows}


@pytest.mark.parametrize("name", NAMES)
def test_the_rebuilt_table_has_the_same_rows(name: str) -> None:
    real, rebuilt = load(name), with_given_facts(definition(name))
    assert [(row.id, row.phase, row.event, row.when, row.next) for row in rebuilt.definition.rows] == [
        (row.id, row.phase, row.event, row.when, row.next) for row in real.definition.rows
    ]


def test_a_table_that_differs_is_noticed() -> None:
    """The test above can fail: swap two destinations behind the engine's back."""
    table = with_given_facts(definition("policy"))
    other = with_given_facts(
        evolve(
            definition("policy"),
            rows=tuple(evolve(row, next=_swapped(row)) for row in definition("policy").rows),
        )
    )
    table.machine = other.machine
    differing = [
        (phase, kind)
        for phase, kind, valuation in cases(table)
        if by_table(table, phase, object.__new__(kind), valuation, None)
        is not by_transitions(table, phase, object.__new__(kind), valuation, None)
    ]
    assert differing


def _swapped(row: Row) -> Enum:
    names = {"INCAPABLE": "OVERRULED", "OVERRULED": "INCAPABLE"}
    return type(row.next)[names.get(row.next.name, row.next.name)]


# ----------------------------------------------------------------------------------------------------------------------
# Walks of the attempt machine, with real states and real facts

#: A table of its own, so that what chance finds here does not count as row coverage.
WALKED = Table(ATTEMPT.definition)
STEPS = 60

TARGET = Target("lake", "main")
INPUT = CommitRef("c0")


def attempts() -> st.SearchStrategy[Attempt]:
    return st.builds(
        Attempt,
        workflow_id=st.just("wf"),
        task_id=st.just("t2"),
        retry_count=st.just(1),
        logical_task=st.just("clean"),
        number=st.just(2),
        execution=st.just("mine"),
        target=st.just(TARGET),
        input=st.just(INPUT),
        backing=st.sampled_from(Backing),
        read_only=st.booleans(),
        ledger=st.booleans(),
    )


def possible(attempt: Attempt) -> tuple[Event, ...]:
    """A few events of every kind: good news, bad news, somebody else's news."""
    staged = StagedRef("lake", "staging", CommitRef("c2"), "tree")
    own = claim_of(attempt, staged)
    older = Claim(TARGET, "clean", "wf", "t1", 1, "theirs", INPUT, "old")
    mine = Commit(CommitRef("c2"), (INPUT,), "tree")
    theirs = Commit(CommitRef("c1"), (INPUT,), "old")
    current = TaskSnapshot("wf", "t2", 1, TaskStatus.IN_PROGRESS)
    taken = evolve(current, status=TaskStatus.COMPLETED, result_execution="mine")
    failed = TaskSnapshot("wf", "t1", 0, TaskStatus.FAILED)
    return (
        *(kind("why") for kind in _kinds() if issubclass(kind, m.Because)),
        *(kind() for kind in _kinds() if not fields(kind)),
        Unknown("why", now=2.0, until=1.0),
        *(m.BodyDone(who, changed) for who in ("mine", "theirs") for changed in (True, False)),
        *(m.BodyFailed(who, "why", terminal) for who in ("mine", "theirs") for terminal in (True, False)),
        *(m.StagingWanted(who) for who in ("mine", "theirs")),
        *(m.TaskReloaded(snapshot) for snapshot in (current, taken, failed, None)),
        m.Staged(staged),
        *(m.ClaimStands(claim) for claim in (own, older)),
        *(m.ClaimRead(claim) for claim in (own, older, None)),
        *(m.ClaimsListed(claims) for claims in ((own,), (own, older))),
        *(m.OwnersRead((("t1", snapshot),)) for snapshot in (failed, None)),
        m.IntentsSettled(0),
        m.IntentsSettled(0, ("i1",)),
        *(m.LeaseHeld(7, clean) for clean in (True, False)),
        m.Revoked(),
        *(m.HeadSeen(head) for head in (Head(Commit(INPUT, (), "empty")), Head(theirs), Head(mine), None)),
        m.HeadSeen(Head(theirs), now=2.0, attempt_until=1.0),
        m.Published(CommitRef("c2")),
        *(m.CommitSeen(commit) for commit in (mine, theirs, None)),
        NotDone("", left=("staging name",)),
        Unknown("", left=("workspace",)),
    )


def _kinds() -> list[Any]:
    return list(dict.fromkeys(row.event for row in ATTEMPT.definition.rows))


@given(attempts(), st.data())
def test_both_executors_take_the_same_way_through_an_attempt(attempt: Attempt, data: st.DataObject) -> None:
    """With the real facts: ``transitions`` is shown what the table knew when it chose.

    Two events in three are good news, or no walk would get far.
    """
    events = possible(attempt)
    state: AttemptState = WALKED.start(attempt).state
    for _ in range(STEPS):
        if WALKED.is_terminal(state):
            break
        done = {kind.__name__ for command in state.pending for kind in command.answers.done}
        good, any_news = named(events, done), named(events, set(WALKED.allowed(state.phase)))
        event = data.draw(st.one_of(st.sampled_from(good), st.sampled_from(good), st.sampled_from(any_news)))
        fired = WALKED.fire(state, event)
        assert fired.state.phase is by_transitions(WALKED, state.phase, event, attempt, fired.state.known)
        state = fired.state


def named(events: tuple[Event, ...], names: set[str]) -> list[Event]:
    return [event for event in events if type(event).__name__ in names]


@given(attempts(), st.data())
def test_both_executors_refuse_the_same_events_on_the_way(attempt: Attempt, data: st.DataObject) -> None:
    phase = data.draw(st.sampled_from(Phase))
    allowed = WALKED.allowed(phase)
    event = data.draw(st.sampled_from([event for event in possible(attempt) if type(event).__name__ not in allowed]))
    assert by_table(WALKED, phase, event, attempt, Known()) is None
    assert by_transitions(WALKED, phase, event, attempt, Known()) is None


def test_the_events_of_the_walks_are_all_there_are() -> None:
    attempt = Attempt("wf", "t2", 1, "clean", 2, "mine", TARGET, INPUT, Backing.SOFT)
    assert {type(event) for event in possible(attempt)} == set(_kinds())
