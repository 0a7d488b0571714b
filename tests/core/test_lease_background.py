"""Two lines tend one lease: the one that works under it, and the one beside it that keeps it alive meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from attrs import define, field

from perago_core import drive
from perago_core.calls import Call, Dialogue
from perago_core.driver import Ports, akeep_alive, keep_alive, run
from perago_core.failpoints import Edge, Failpoint
from perago_core.lease import LeaseEnd, LeaseRequest
from perago_core.lease.run import Keeper
from perago_core.results import Classification, Completed, Failed
from perago_core.values import Backing
from perago_simulation.ports import Fault
from tests.core.world import TARGET, World

TTL, MARGIN = 10.0, 2.0


def a_keeper(world: World, need: float = 0.0) -> tuple[Keeper, Ports]:
    ports = world.ports()
    keeper = Keeper(LeaseRequest(TARGET, "holder", TTL, MARGIN), need)
    assert run(keeper.acquire(), ports)
    return keeper, ports


def as_far_as(talk: Dialogue[Any], method: str, ports: Ports) -> Call:
    """Carry a conversation on until it is about to call this method."""
    call = next(talk)
    while call.method != method:
        call = talk.send(ports.call(call))
    return call


def finished(talk: Dialogue[Any], answer: object, ports: Ports) -> object:
    """Answer the call a conversation waits at, and carry it on to its end."""
    try:
        call = talk.send(answer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        while True:
            call = talk.send(ports.call(call))
    except StopIteration as end:
        return end.value


def test_a_lease_is_renewed_when_less_is_left_than_is_needed() -> None:
    """Not only after a third of its time: a publication needs 6 of the 8 s that a fresh one has left."""
    world = World()
    keeper, ports = a_keeper(world, need=6.0)
    world.clock().sleep(1.9)
    assert run(keeper.tend(), ports)
    assert keeper.held is not None
    assert keeper.held.until == 8.0
    world.clock().sleep(0.2)
    assert run(keeper.tend(), ports)
    assert keeper.held.until == 10.1


def test_whoever_works_under_it_does_not_renew_what_is_being_renewed() -> None:
    world = World()
    keeper, ports = a_keeper(world)
    world.clock().sleep(4)
    beside = keeper.tend()
    renewal = as_far_as(beside, "keep_alive", ports)
    assert run(keeper.tend(), ports)
    assert ports.meter.calls["lock"] == 4  # grant, lock, token read, token taken: no renewal of its own
    assert finished(beside, ports.call(renewal), ports) is True
    assert keeper.held is not None
    assert keeper.held.until == 12.0


def test_an_answer_after_the_other_line_has_found_it_lost_changes_nothing() -> None:
    """S-25: lost is absorbing, whoever found it, and the late answer belongs to nobody."""
    world = World()
    keeper, ports = a_keeper(world)
    world.clock().sleep(4)
    beside = keeper.tend()
    renewal = as_far_as(beside, "keep_alive", ports)
    answer = ports.call(renewal)
    world.clock().sleep(5)
    assert not run(keeper.tend(), ports)
    assert finished(beside, answer, ports) is False
    assert keeper.end is LeaseEnd.LOST
    assert not run(keeper.tend(), ports)
    assert run(keeper.release(), ports)  # nothing to give back
    assert keeper.end is LeaseEnd.LOST


def test_a_renewal_on_its_way_is_waited_for_before_the_lock_is_given_back() -> None:
    world = World()
    keeper, ports = a_keeper(world)
    world.clock().sleep(4)
    beside = keeper.tend()
    renewal = as_far_as(beside, "keep_alive", ports)
    releasing = keeper.release()
    waiting = next(releasing)
    assert waiting.method == "sleep"
    now = releasing.send(ports.call(waiting))
    assert now.method == "now"
    assert finished(beside, ports.call(renewal), ports) is True
    assert finished(releasing, ports.call(now), ports) is True
    assert keeper.end is LeaseEnd.RELEASED


def test_it_is_kept_until_somebody_says_stop_or_nobody_works_under_it_any_more() -> None:
    """In a thread and in a loop alike; for hours, if need be."""
    world = World()
    keeper, ports = a_keeper(world)
    ticks: list[float] = []

    def wait(seconds: float) -> bool:
        world.clock().sleep(seconds)
        ticks.append(seconds)
        return len(ticks) == 1000

    keep_alive(keeper, ports, wait)
    assert set(ticks) == {TTL / 10}
    assert keeper.kept

    async def wait_in_a_loop(seconds: float) -> bool:
        if len(ticks) == 2000:
            keeper.let_go()
        return wait(seconds)

    asyncio.run(akeep_alive(keeper, world.asynchronous_ports(), wait_in_a_loop))
    assert len(ticks) == 2001
    assert keeper.held is not None
    assert not keeper.kept


@define
class Beside:
    """A background that tends the lease when the test says so."""

    keepers: list[Keeper] = field(factory=list[Keeper])

    def lock(self) -> AbstractContextManager[object]:
        return nullcontext()

    def keep(self, keeper: Keeper) -> None:
        self.keepers.append(keeper)


def test_a_lease_tended_beside_a_long_barrier_is_still_held_after_it() -> None:
    """9 s under a lease of 10 s; between its calls alone an attempt would have lost it."""
    for kept in (True, False):
        world = World()
        beside = Beside()

        def reached(point: Failpoint, world: World = world, beside: Beside = beside, *, kept: bool = kept) -> None:
            if point == Failpoint("store", "barrier", Edge.BEFORE):
                for _ in range(9):
                    world.clock().sleep(1)
                    if kept:
                        run(beside.keepers[0].tend(), world.ports())

        result = drive(world.attempt(1, Backing.LOCKED), world.ports(reached=reached), background=beside)
        assert isinstance(result.result, Completed) is kept
        assert not beside.keepers[0].kept


def test_the_lease_is_let_go_when_the_execution_ends_also_where_it_is_not_given_back() -> None:
    """After an unknown publication the successor must wait; a thread that renewed it for ever would keep it waiting."""
    world = World()
    world.fail("store.publish", Fault.DROPPED)
    world.fail("store.drop", Fault.DROPPED)
    beside = Beside()
    drive(world.attempt(1, Backing.LOCKED), world.ports(), background=beside)
    (keeper,) = beside.keepers
    assert keeper.held is not None
    assert not keeper.kept


def test_what_goes_unanswered_is_not_asked_again_under_a_lost_lease() -> None:
    world = World()
    beside = Beside()
    asked: list[str] = []

    def reached(point: Failpoint) -> None:
        if point == Failpoint("store", "staging_names", Edge.BEFORE):
            asked.append(str(point))
            world.clock().sleep(30)
            run(beside.keepers[0].tend(), world.ports())

    world.fail("store.staging_names", *[Fault.DROPPED] * 20)
    result = drive(
        world.attempt(1, Backing.LOCKED),
        world.ports(reached=reached),
        attempt_until=lambda: world.clock().now() + 60,
        background=beside,
    )
    assert len(asked) == 1
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.REVOCATION_FAILED
