"""Unanswered calls: made again while the attempt has time, where twice is as good as once, and never otherwise."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from perago_core import adrive, drive
from perago_core.answers import Event
from perago_core.attempt import AttemptState, Phase
from perago_core.attempt.messages import AttemptLost
from perago_core.failpoints import Edge, Failpoint
from perago_core.ports import PORT_CALLS
from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.unanswered import IDEMPOTENT, LONGEST
from perago_core.values import Backing
from perago_simulation.ports import Fault
from tests.core.world import INPUT, World, changes_nothing, writes

#: An attempt whose heart beats: its deadline is always this far away.
PATIENCE = 60.0
ALL = sorted((port, method) for port, methods in IDEMPOTENT.items() for method in methods)
#: Those that publishing over an abandoned attempt needs before its report. The others are needed for nothing yet.
NEEDED = [each for each in ALL if each != ("store", "read_claim")]
STRONG = [backing for backing in Backing if backing is not Backing.SOFT]


def test_what_may_be_made_again_are_calls_of_ports() -> None:
    assert [each for each in ALL if each[1] not in PORT_CALLS[each[0]]] == []


def beating(world: World) -> Callable[[], float]:
    return lambda: world.clock().now() + PATIENCE


def counting() -> tuple[Counter[str], Callable[[Failpoint], None]]:
    """Return a count of the calls that were sent, and what counts them."""
    sent: Counter[str] = Counter()

    def reached(point: Failpoint) -> None:
        if point.edge is Edge.BEFORE:
            sent[f"{point.port}.{point.method}"] += 1

    return sent, reached


def published(world: World, backing: Backing, *, sync: bool = True) -> Outcome:
    """Publish over what a dead attempt left, so that owners are read and names are revoked."""
    attempt = world.attempt(2, backing, ledger=True, body=writes(b"2"))
    if sync:
        return drive(attempt, world.ports(), attempt_until=beating(world))
    return asyncio.run(adrive(attempt, world.asynchronous_ports(), attempt_until=beating(world)))


@pytest.mark.parametrize("sync", [True, False], ids=["drive", "adrive"])
@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.LANDED], ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("backing", STRONG, ids=lambda backing: backing.value)
@pytest.mark.parametrize(("port", "method"), NEEDED)
def test_a_hiccup_of_a_second_throws_no_body_away(
    port: str, method: str, backing: Backing, fault: Fault, *, sync: bool
) -> None:
    """N-04 without its cost: four answers in a row are missing, about a second and a half, and nothing is lost."""
    world = World()
    world.abandon(backing, ledger=True)
    world.fail(f"{port}.{method}", *[fault] * 4)
    result = published(world, backing, sync=sync)
    assert isinstance(result.result, Completed)
    assert world.history() == [result.result.ref, INPUT]


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.LANDED], ids=lambda fault: fault.name.lower())
def test_a_claim_is_read_back_as_often_as_it_takes(fault: Fault) -> None:
    """The claim itself stays unanswered until nobody waits any more; then it is read, and that is asked again."""
    world = World()
    sent, reached = counting()
    world.fail("store.claim", *[fault] * 200)
    world.fail("store.read_claim", *[Fault.DROPPED] * 4)
    result = drive(world.attempt(1, Backing.ATOMIC), world.ports(reached=reached), attempt_until=beating(world))
    assert sent["store.claim"] > 100
    assert sent["store.read_claim"] == 5
    assert isinstance(result.result, Completed) is (fault is Fault.LANDED)


def _sent(backing: Backing, dropped: str | None = None) -> Counter[str]:
    world = World()
    sent, reached = counting()
    attempt = world.attempt(1, backing)
    if dropped is not None:
        world.fail(dropped, Fault.DROPPED)
    drive(attempt, world.ports(reached=reached), attempt_until=beating(world))
    return sent


def test_no_other_call_is_ever_made_again() -> None:
    """K-15: each of the others goes unanswered once, with all the time in the world, and is not sent again."""
    others = [
        (port, method)
        for port, methods in PORT_CALLS.items()
        for method in methods
        if method not in IDEMPOTENT.get(port, ())
    ]
    for port, method in others:
        for backing in Backing:
            usual, with_fault = _sent(backing), _sent(backing, f"{port}.{method}")
            assert with_fault[f"{port}.{method}"] <= usual[f"{port}.{method}"]


def test_near_the_deadline_unknown_is_the_answer() -> None:
    """It is over while there is still time for what comes after, and not a call later."""
    world = World()
    world.fail("store.claims", *[Fault.DROPPED] * 200)
    result = drive(world.attempt(1, Backing.CONDITIONAL), world.ports(), attempt_until=lambda: 30.0)
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.CLAIMS_UNREADABLE
    assert 22 < world.clock().now() <= 25


def test_what_stays_unanswered_for_minutes_is_no_hiccup() -> None:
    """Else a request that never succeeds would hold a living attempt, and its worker's place, for ever."""
    world = World()
    world.fail("store.claims", *[Fault.DROPPED] * 2000)
    result = drive(world.attempt(1, Backing.CONDITIONAL), world.ports(), attempt_until=beating(world))
    assert isinstance(result.result, Failed)
    assert LONGEST - 5 < world.clock().now() <= LONGEST


def test_without_a_deadline_every_call_is_made_once() -> None:
    world = World()
    world.fail("store.claims", Fault.DROPPED)
    result = drive(world.attempt(1, Backing.CONDITIONAL), world.ports())
    assert isinstance(result.result, Failed)
    assert world.clock().now() == 0


def test_an_attempt_that_is_lost_meanwhile_stops_asking() -> None:
    world = World()
    sent, reached = counting()
    world.fail("store.claims", *[Fault.DROPPED] * 200)

    def lost(state: AttemptState) -> Event | None:
        return AttemptLost("given to another") if sent["store.claims"] > 3 and state.phase is Phase.CLAIMS else None

    attempt = world.attempt(1, Backing.CONDITIONAL)
    result = drive(attempt, world.ports(reached=reached), attempt_until=beating(world), interrupts=lost)
    assert sent["store.claims"] == 4
    assert result.result is not None or result.silence is not None


def test_cleaning_up_waits_for_nobody() -> None:
    world = World()
    sent, reached = counting()
    world.fail("store.drop", *[Fault.DROPPED] * 200)
    attempt = world.attempt(1, Backing.ATOMIC)
    result = drive(attempt, world.ports(reached=reached), attempt_until=beating(world))
    assert isinstance(result.result, Completed)
    assert sent["store.drop"] == 1
    assert result.left_behind


def test_a_refusal_is_an_answer() -> None:
    world = World()
    sent, reached = counting()
    world.fail("store.claims", Fault.REFUSED)
    attempt = world.attempt(1, Backing.CONDITIONAL, body=changes_nothing)
    result = drive(attempt, world.ports(reached=reached), attempt_until=beating(world))
    assert isinstance(result.result, Failed)
    assert sent["store.claims"] == 1
