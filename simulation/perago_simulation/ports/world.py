"""One simulated world that offers every port: for a driver, for the conformance suites, for an embedder's runtime.

Deterministic and without real time: what happens depends on the calls and their order alone. Safe to use from several
threads; then the order is theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Any

from perago_core.driver import Ports
from perago_core.failpoints import Reached
from perago_core.values import Backing, Target
from perago_simulation.ports.coordination import SimulatedCoordination
from perago_simulation.ports.orchestrator import SimulatedOrchestrator
from perago_simulation.ports.serving import Dispatcher, Fault
from perago_simulation.ports.store import SimulatedStore
from perago_simulation.ports.stranger import Stranger
from perago_simulation.ports.workspace import SimulatedWorkspace
from perago_simulation.world.capabilities import NEEDS, Capabilities
from perago_simulation.world.store import Store as Judge

#: What the wall clock shows at the beginning: a date that no test mistakes for an absent one.
EPOCH = 1_700_000_000_000


class SimulatedClock:
    """The ``Clock`` port. Whoever sleeps moves the time for everybody, at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._now = 0.0

    def now(self) -> float:
        """Return the seconds that have passed."""
        return self._now

    def wall(self) -> int:
        """Return milliseconds since the epoch."""
        return EPOCH + round(self._now * 1000)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        if not seconds >= 0:
            message = f"time only goes forward: expected zero seconds or more, not {seconds!r}"
            raise ValueError(message)
        with self._lock:
            self._now += seconds


# ---- A synchronous port with coroutines for methods, so that ``adrive`` runs on it.


#: What makes no call and is therefore not awaited (see ``perago_core.ports.Store``).
_NO_CALLS = ("sink", "read")


class Asynchronous:
    """Each call gives way once before it is made, so that executions in one event loop interleave at every call."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._port, name)
        if name in _NO_CALLS:
            return method

        async def call(*args: object) -> object:
            await asyncio.sleep(0)
            return method(*args)

        return call


class SimulatedWorld:
    """Store, orchestrator, workspace and coordination store over one clock, with faults on demand.

    ``able`` says what the store can do, by default what ``atomic`` needs. ``judge`` gives it semantics of your own; it
    is the same hook the explorer takes.
    """

    def __init__(self, able: Capabilities = NEEDS[Backing.ATOMIC], judge: Judge | None = None) -> None:
        dispatcher = Dispatcher()
        self._desk = dispatcher
        self._clock = SimulatedClock()
        self._store = SimulatedStore(dispatcher, able, judge or Judge())
        self._orchestrator = SimulatedOrchestrator(dispatcher, self._clock)
        self._coordination = SimulatedCoordination(dispatcher, self._clock, leases=able.lease)
        self._workspace = SimulatedWorkspace(dispatcher, self._store)

    def store(self) -> SimulatedStore:
        """Return the store."""
        return self._store

    def stranger(self, target: Target) -> Stranger:
        """Return somebody who uses a branch past the protocol."""
        return Stranger(self._store, target)

    def orchestrator(self) -> SimulatedOrchestrator:
        """Return the orchestrator."""
        return self._orchestrator

    def coordination(self) -> SimulatedCoordination:
        """Return the coordination store."""
        return self._coordination

    def workspace(self) -> SimulatedWorkspace:
        """Return the workspace."""
        return self._workspace

    def clock(self) -> SimulatedClock:
        """Return the clock."""
        return self._clock

    def fail(self, call: str, *faults: Fault | None) -> None:
        """Let the next calls go wrong like this: ``world.fail("store.publish", Fault.LANDED)``."""
        port, _, method = call.partition(".")
        self._desk.fail(port, method, *faults)

    def ports(self, reached: Reached | None = None) -> Ports:
        """Return what ``drive`` takes; ``reached`` is called at every failpoint, and may raise to end the execution."""
        return Ports(
            orchestrator=self._orchestrator,
            store=self._store,
            workspace=self._workspace,
            coordination=self._coordination,
            clock=self._clock,
            reached=reached,
        )

    def asynchronous_ports(self, reached: Reached | None = None) -> Ports:
        """Return what ``adrive`` takes."""
        # The protocols are written synchronously: a type checker cannot tell that these have the same methods.
        ports: dict[str, Any] = {
            "orchestrator": Asynchronous(self._orchestrator),
            "store": Asynchronous(self._store),
            "workspace": Asynchronous(self._workspace),
            "coordination": Asynchronous(self._coordination),
            "clock": Asynchronous(self._clock),
        }
        return Ports(**ports, reached=reached)
