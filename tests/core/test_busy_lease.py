"""A lease that another holds is waited for within the attempt: a dead holder's lease runs out, and costs no retry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from perago_core import adrive, drive
from perago_core.answers import Event
from perago_core.attempt import AttemptState
from perago_core.attempt.messages import AttemptLost, DeadlineExceeded
from perago_core.budget import PublishBudget
from perago_core.driver import run
from perago_core.failpoints import Edge, Failpoint
from perago_core.lease import LeaseRequest
from perago_core.lease.run import Keeper
from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.unanswered import LONGEST, PAUSE, PAUSE_MAX
from perago_core.values import Backing
from tests.core.world import INPUT, TARGET, CrashError, World

PATIENCE = 60.0
LEASE = PublishBudget().lease_ttl


def beating(world: World) -> Callable[[], float]:
    """Give the deadline of an attempt whose heart beats: it is always as far away."""
    return lambda: world.clock().now() + PATIENCE


def a_dead_holder() -> World:
    """Let a first attempt die with the lease in its hands."""
    world = World()

    def dies(point: Failpoint) -> None:
        if point == Failpoint("store", "head", Edge.BEFORE):
            raise CrashError

    with pytest.raises(CrashError):
        drive(world.attempt(1, Backing.LOCKED), world.ports(reached=dies))
    return world


def a_living_holder() -> tuple[World, Callable[[Failpoint], None]]:
    """Let somebody hold the lease and renew it whenever another tries for it."""
    world = World()
    rival, ports = Keeper(LeaseRequest(TARGET, "rival", LEASE, 2.0)), world.ports()
    assert run(rival.acquire(), ports)

    def renews(point: Failpoint) -> None:
        if point == Failpoint("coordination", "grant", Edge.BEFORE):
            assert run(rival.tend(), ports)

    return world, renews


def refused(outcome: Outcome) -> Classification:
    assert isinstance(outcome.result, Failed)
    return outcome.result.refusal.classification


@pytest.mark.parametrize("sync", [True, False], ids=["drive", "adrive"])
def test_a_dead_holders_lease_costs_its_successor_no_retry(*, sync: bool) -> None:
    """The first attempt that comes after the dead one publishes, once the lease and the takeover wait are over."""
    world = a_dead_holder()
    attempt = world.attempt(2, Backing.LOCKED)
    if sync:
        result = drive(attempt, world.ports(), attempt_until=beating(world))
    else:
        result = asyncio.run(adrive(attempt, world.asynchronous_ports(), attempt_until=beating(world)))
    assert isinstance(result.result, Completed)
    assert world.history() == [result.result.ref, INPUT]
    assert LEASE + attempt.budget.takeover_wait <= world.clock().now() < LEASE + attempt.budget.takeover_wait + 4
    assert not world.coordination().leases()


@pytest.mark.parametrize("sync", [True, False], ids=["drive", "adrive"])
def test_a_lease_that_is_given_back_is_taken_without_a_takeover_wait(*, sync: bool) -> None:
    world = World()
    rival, ports = Keeper(LeaseRequest(TARGET, "rival", LEASE, 2.0)), world.ports()
    assert run(rival.acquire(), ports)
    tries: list[Failpoint] = []

    def gives_back(point: Failpoint) -> None:
        if point == Failpoint("coordination", "grant", Edge.BEFORE):
            tries.append(point)
            if len(tries) == 3:
                assert run(rival.release(), ports)

    attempt = world.attempt(1, Backing.LOCKED)
    if sync:
        result = drive(attempt, world.ports(reached=gives_back), attempt_until=beating(world))
    else:
        carried = world.asynchronous_ports(reached=gives_back)
        result = asyncio.run(adrive(attempt, carried, attempt_until=beating(world)))
    assert isinstance(result.result, Completed)
    assert len(tries) == 3
    assert world.clock().now() < 1


def test_the_wait_ends_at_the_attempts_deadline_and_fails_as_busy() -> None:
    world, renews = a_living_holder()
    result = drive(world.attempt(1, Backing.LOCKED), world.ports(reached=renews), attempt_until=lambda: 30.0)
    assert refused(result) is Classification.LEASE_BUSY
    assert 30 - 2 * PAUSE <= world.clock().now() < 30


def test_a_deadline_nearer_than_the_longest_wait_is_one_that_heartbeats_move() -> None:
    """Patience of a second: waits of two would end before the next heartbeat is answered."""
    world = a_dead_holder()
    carried = world.ports()
    result = drive(world.attempt(2, Backing.LOCKED), carried, attempt_until=lambda: world.clock().now() + 1)
    assert isinstance(result.result, Completed)


def test_a_holder_that_never_ends_is_not_waited_for_for_ever() -> None:
    """Heartbeats move the deadline for as long as the attempt lives; its worker's place is wanted for others too."""
    world, renews = a_living_holder()
    result = drive(world.attempt(1, Backing.LOCKED), world.ports(reached=renews), attempt_until=beating(world))
    assert refused(result) is Classification.LEASE_BUSY
    assert LONGEST - 2 * PAUSE <= world.clock().now() < LONGEST
    assert len(world.coordination().leases()) == 1  # the holder's; each try has given its own back


@pytest.mark.parametrize(
    "why", [AttemptLost("given to another"), DeadlineExceeded("the worker stops")], ids=["lost", "stopped"]
)
def test_what_comes_from_outside_ends_the_wait_and_is_the_reason(why: AttemptLost | DeadlineExceeded) -> None:
    world, renews = a_living_holder()

    def outside(_state: AttemptState) -> Event | None:
        return why if world.clock().now() > 5 else None

    carried = world.ports(reached=renews)
    result = drive(world.attempt(1, Backing.LOCKED), carried, attempt_until=beating(world), interrupts=outside)
    assert world.clock().now() <= 5 + PAUSE_MAX
    if isinstance(why, AttemptLost):
        assert result.result is None
        assert result.silence is not None
    else:
        assert refused(result) is Classification.DEADLINE_EXCEEDED
