"""What may come from outside at any time, and what may not come at all."""

from __future__ import annotations

import pytest

from perago_core.answers import Event, Unknown
from perago_core.attempt import ATTEMPT, AttemptState, Phase
from perago_core.attempt import messages as m
from perago_core.attempt.state import AFTER_REPORT, FROM_PUBLICATION, UNDER_LEASE
from perago_core.attempt.table import outcome, step
from perago_core.errors import ProtocolError
from perago_core.results import Classification, Failed
from perago_core.values import Attempt, Backing
from tests.core.attempts import (
    BACKINGS,
    BEFORE_PUBLICATION,
    INTERRUPTS,
    Path,
    all_attempts,
    explore,
    make_attempt,
    menu,
    walk,
)

LOST, LEASE, DEADLINE = INTERRUPTS
CLAIMING = (Phase.CLAIM, Phase.CLAIM_CHECK)


def states_of(attempt: Attempt) -> set[AttemptState]:
    """Give every state the attempt can be in."""
    return {move.before for path in explore(attempt) for move in path.moves}


def end_of(state: AttemptState, event: Event) -> AttemptState:
    """Let the interruption happen and then everything go well."""
    state = step(state, event).state
    while not ATTEMPT.is_terminal(state):
        state = step(state, menu(state)[0]).state
    return state


@pytest.mark.clause("S-25", "W-20")
@pytest.mark.parametrize("backing", Backing)
def test_interruption_before_the_publication_refuses_it(backing: Backing) -> None:
    """Rule 4, S-25, W-20, W-21, N-13; rows AL- DE- LL-: in every state before it, nothing is published after."""
    for ledger in (False, True):
        for state in states_of(make_attempt(backing, ledger=ledger)):
            if state.phase not in BEFORE_PUBLICATION:
                continue
            for event in INTERRUPTS:
                if event is LEASE and state.phase not in UNDER_LEASE:
                    continue
                after, commands = step(state, event)
                assert not any(isinstance(command, m.Publish) for command in commands)
                silent = backing is not Backing.SOFT and (event is LOST or state.phase in CLAIMING)
                assert after.phase is (Phase.CLEAN_UP if silent else Phase.REPORT)
                if not silent:
                    (report,) = commands
                    assert isinstance(report, m.Report)
                    assert isinstance(report.result, Failed)


@pytest.mark.parametrize("backing", Backing)
def test_interruption_of_a_publication_makes_it_unknown(backing: Backing) -> None:
    """Rule 4, N-06; rows DE-PUBLICATION LL-PUBLICATION AL-PUBLICATION: the same ways as an unknown answer."""
    ways = {
        Backing.SOFT: Phase.REPORT,
        Backing.ATOMIC: Phase.OWN_HEAD,
        Backing.CONDITIONAL: Phase.OWN_REVOCATION,
        Backing.LOCKED: Phase.OWN_REVOCATION,
    }
    for state in states_of(make_attempt(backing, ledger=True)):
        if state.phase is not Phase.PUBLICATION:
            continue
        for event in (DEADLINE, LEASE, Unknown("timeout")):
            after = step(state, event).state
            assert after.phase is ways[backing]
            assert after.known.uncertain
        lost, commands = step(state, LOST)
        assert lost.known.uncertain
        if backing is not Backing.SOFT:
            assert commands == (m.CleanUp(state.subject.staging_name if state.known.staging else None),)


@pytest.mark.parametrize("backing", Backing)
def test_interruption_while_finding_out_ends_without_success(backing: Backing) -> None:
    """Rule 4, S-05; rows AL- DE- LL- of the phases after the publication: only the lease has done its work."""
    resolving = [phase for phase in FROM_PUBLICATION if phase is not Phase.PUBLICATION]
    for state in states_of(make_attempt(backing, ledger=True)):
        if state.phase not in resolving:
            continue
        assert step(state, LEASE) == (state, ())
        assert outcome(end_of(state, LOST)).result is None
        failed = outcome(end_of(state, DEADLINE)).result
        assert isinstance(failed, Failed)
        assert failed.refusal.classification is Classification.DEADLINE_EXCEEDED
        for event in (LOST, DEADLINE):
            assert step(state, event).state.known.uncertain


@pytest.mark.clause("T-W8")
def test_interruption_changes_nothing_once_the_result_is_on_its_way() -> None:
    """Rule 4, S-32; rows AL- DE- LL- of REPORT and after: the state stays and keeps waiting for the same answer."""
    seen: set[object] = set()
    for backing, ledger in BACKINGS:
        for state in states_of(make_attempt(backing, ledger=ledger)):
            if state.phase in AFTER_REPORT:
                seen.add(state.phase)
                for event in INTERRUPTS:
                    assert step(state, event) == (state, ())
    assert seen == {*AFTER_REPORT}


@pytest.mark.clause("P-28")
@pytest.mark.parametrize("event", [LOST, DEADLINE], ids=lambda event: type(event).__name__)
def test_interruption_while_a_name_is_being_made_removes_the_name(event: Event) -> None:
    """Rule 3, P-28, T-P2, S-33: the request may have been sent, so the name may exist."""
    opening = {Phase.STAGING, Phase.STAGING_0}
    for backing in Backing:
        attempt = make_attempt(backing)
        states = [state for state in states_of(attempt) if state.phase in opening]
        assert states
        for state in states:
            cleaning = step(state, event).state
            if cleaning.phase is Phase.REPORT:
                cleaning = step(cleaning, m.Reported()).state
            assert cleaning.pending == (m.CleanUp(attempt.staging_name),)


@pytest.mark.parametrize("event", [LOST, DEADLINE], ids=lambda event: type(event).__name__)
def test_interruption_of_a_claim_is_silent(event: Event) -> None:
    """S-40, rule 6; rows DE-CLAIM DE-CLAIM_CHECK: the claim may be another's, who would die of our FAILED."""
    for backing in (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED):
        states = [state for state in states_of(make_attempt(backing)) if state.phase in CLAIMING]
        assert states
        for state in states:
            assert step(state, event).state.phase is Phase.CLEAN_UP


# ---------------------------------------------------------------------------------------------------------------------
# What is dropped, what is refused


@pytest.mark.clause("P-40", "T-P6")
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "event",
    [
        m.BodyDone("run-9", changed=True),
        m.BodyDone("run-9", changed=False),
        m.BodyFailed("run-9", "x"),
        m.BodyFailed("run-9", "x", terminal=True),
        m.StagingWanted("run-9"),
    ],
    ids=repr,
)
def test_completion_of_another_execution_is_dropped(event: Event, read_only: bool) -> None:
    """P-40, T-P6, N-02; rows B3 B6 B10: it teaches nothing, the body of this execution is still awaited."""
    for attempt in (make_attempt(read_only=read_only), make_attempt(Backing.LOCKED, read_only=read_only)):
        for state in states_of(attempt):
            if state.phase is Phase.BODY:
                assert step(state, event) == (state, ())


def _one_of_each() -> tuple[Event, ...]:
    """Give one event of every kind the machine knows."""
    found: dict[type[Event], Event] = {}
    for path in walk(all_attempts()).values():
        for event in path.events:
            found.setdefault(type(event), event)
    return tuple(found.values())


def test_event_that_is_not_allowed_is_an_error_and_leaves_the_state_as_it_was() -> None:
    """N-02: total and loud; the message names phase, event and what is allowed instead."""
    events = _one_of_each()
    assert {type(event) for event in events} == {row.event for row in ATTEMPT.definition.rows}
    ends: dict[object, Path] = {}
    for path in walk(all_attempts()).values():
        ends.setdefault(path.state.phase, path)
    assert {*ends} == {*Phase} - {Phase.EARLIER_CLAIMS}
    for phase, path in ends.items():
        assert isinstance(phase, Phase)
        allowed = ATTEMPT.allowed(phase)
        before = repr(path.state)
        for event in events:
            if type(event).__name__ in allowed:
                continue
            with pytest.raises(ProtocolError) as refused:
                step(path.state, event)
            said = str(refused.value)
            assert f"{type(event).__name__} is not allowed in phase {phase.name}" in said
            assert all(name in said for name in allowed)
            assert repr(path.state) == before


@pytest.mark.clause("S-07")
def test_an_attempt_that_has_ended_takes_nothing_more() -> None:
    """S-07, L-01: not even an interruption."""
    end = explore(make_attempt())[0].state
    for event in INTERRUPTS:
        with pytest.raises(ProtocolError, match="nothing: the machine has ended"):
            step(end, event)


def test_lease_cannot_be_lost_before_it_is_held() -> None:
    """S-25: the machine says so instead of guessing."""
    for phase in BEFORE_PUBLICATION:
        assert ("LeaseLost" in ATTEMPT.allowed(phase)) == (phase in UNDER_LEASE)
