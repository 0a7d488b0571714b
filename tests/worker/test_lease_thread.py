"""A lease that is kept alive beside the attempt, on SQLite and on etcd, in a thread and in an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from attrs import evolve

from perago_clock import MachineClock
from perago_core.answers import Done, Unknown
from perago_core.budget import PublishBudget
from perago_core.driver import Ports, adrive, akeep_alive, drive, run
from perago_core.lease import LeaseRequest
from perago_core.lease.run import Keeper
from perago_core.ports import Coordination
from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.values import Backing
from perago_worker.runtime.lease import LeaseThread
from tests.core.world import INPUT, TARGET, World
from tests.worker.embedded import Faulty

TTL = 3.0
#: As a barrier of 9 s is to a lease of 10 s.
BARRIER = 0.9 * TTL
BUDGET = PublishBudget(
    lease_ttl=TTL, lease_margin=0.6, publish_timeout=0.8, publish_p99=0.3, margin=0.5, takeover_wait=1.5
)


class InThreads:
    """A port whose methods are coroutines that block no event loop."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._port, name)
        if name == "sink":  # makes no call
            return method

        async def call(*words: object) -> object:
            if name in {"now", "wall"}:
                return method()
            return await asyncio.to_thread(method, *words)

        return call


class LeaseTask:
    """Keeps a lease alive in a task of the event loop that runs the attempt."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.tasks: list[asyncio.Task[None]] = []

    def lock(self) -> AbstractContextManager[object]:
        return nullcontext()

    def keep(self, keeper: Keeper) -> None:
        self.tasks.append(asyncio.create_task(akeep_alive(keeper, self._ports, self._wait)))

    async def _wait(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return False


def published(world: World, coordination: object, *, sync: bool, kept: bool = True) -> Outcome:
    """Publish by an attempt whose barrier takes nearly as long as its lease lives."""

    def slowly(real: Callable[..., object], *words: object) -> object:
        time.sleep(BARRIER)
        return real(*words)

    parts: dict[str, Any] = {
        "orchestrator": world.orchestrator(),
        "store": Faulty(world.store(), barrier=slowly),
        "workspace": world.workspace(),
        "coordination": coordination,
        "clock": MachineClock(),
    }
    attempt = evolve(world.attempt(1, Backing.LOCKED), budget=BUDGET)
    if sync:
        ports = Ports(**parts)
        return drive(attempt, ports, background=LeaseThread(ports) if kept else None)
    threaded: dict[str, Any] = {name: InThreads(part) for name, part in parts.items()}
    ports = Ports(**threaded)

    async def in_a_loop() -> Outcome:
        task = LeaseTask(ports)
        outcome = await adrive(attempt, ports, background=task)
        await asyncio.gather(*task.tasks)
        return outcome

    return asyncio.run(in_a_loop())


@pytest.mark.parametrize("sync", [True, False], ids=["thread", "task"])
def test_a_barrier_nearly_as_long_as_the_lease_publishes_at_the_first_attempt(
    coordination: Coordination, *, sync: bool
) -> None:
    """It used to lose the lease, and so did every retry after it: each waited for its unclean predecessor first."""
    world = World()
    result = published(world, coordination, sync=sync)
    assert isinstance(result.result, Completed), result
    assert result.left_behind == ()
    assert world.history() == [result.result.ref, INPUT]


on_sqlite = pytest.mark.parametrize("shared_store", ["sqlite"], indirect=True)


@on_sqlite
def test_without_anybody_beside_it_that_barrier_loses_the_lease(coordination: Coordination) -> None:
    """What the thread is for: were it never started, the test above would say so."""
    result = published(World(), coordination, sync=True, kept=False)
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification in {Classification.LEASE_LOST, Classification.LEASE_TOO_SHORT}


@on_sqlite
@pytest.mark.parametrize("answer", [Done(value=False), Unknown("cut off")], ids=["gone", "unanswered"])
def test_a_lease_that_is_lost_during_a_long_call_refuses_and_stays_lost(
    coordination: Coordination, answer: object
) -> None:
    """Nothing is sent, and nobody renews it any more: the next holder meets an unclean end."""
    renewals: list[float] = []

    def lost(*_: object) -> object:
        renewals.append(time.monotonic())
        return answer

    world = World()
    result = published(world, Faulty(coordination, keep_alive=lost), sync=True)
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.LEASE_LOST
    assert world.history() == [INPUT]
    told = len(renewals)
    time.sleep(TTL / 4)
    assert len(renewals) == told


def test_a_renewal_on_its_way_is_waited_for_before_the_lock_is_given_back(coordination: Coordination) -> None:
    """Else the mark that spares the successor its wait would be written while the lease is being prolonged."""
    begun, slow = threading.Event(), threading.Event()

    def slowly(real: Callable[..., object], *words: object) -> object:
        begun.set()
        slow.wait(0.5)
        return real(*words)

    port: Any = Faulty(coordination, keep_alive=slowly)
    ports = Ports(orchestrator=None, store=None, workspace=None, clock=MachineClock(), coordination=port)
    thread = LeaseThread(ports)
    keeper = Keeper(LeaseRequest(TARGET, "holder", TTL, 0.6), need=TTL, lock=thread.lock())
    assert run(keeper.acquire(), ports)
    thread.keep(keeper)
    assert begun.wait(30)
    assert run(keeper.release(), ports)
    assert not keeper.kept
