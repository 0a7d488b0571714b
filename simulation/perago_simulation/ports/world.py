"""One simulated world that offers every port: for a driver, for the conformance suites, for an embedder's runtime.

Deterministic and without real time: what happens depends on the calls and their order alone. Safe to use from several
threads; then the order is theirs.
"""

from __future__ import annotations

from typing import Any

from perago_core.driver import Ports
from perago_core.failpoints import Reached
from perago_core.values import Backing, Target
from perago_simulation.ports.asynchronous import Asynchronous
from perago_simulation.ports.clock import SimulatedClock
from perago_simulation.ports.coordination import SimulatedCoordination
from perago_simulation.ports.orchestrator import SimulatedOrchestrator
from perago_simulation.ports.serving import Dispatcher, Fault
from perago_simulation.ports.store import SimulatedStore
from perago_simulation.ports.stranger import Stranger
from perago_simulation.ports.workspace import SimulatedWorkspace
from perago_simulation.world.capabilities import NEEDS, Capabilities
from perago_simulation.world.store import Store as Judge


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
        """Give the store."""
        return self._store

    def stranger(self, target: Target) -> Stranger:
        """Give somebody who uses a branch past the protocol."""
        return Stranger(self._store, target)

    def orchestrator(self) -> SimulatedOrchestrator:
        """Give the orchestrator."""
        return self._orchestrator

    def coordination(self) -> SimulatedCoordination:
        """Give the coordination store."""
        return self._coordination

    def workspace(self) -> SimulatedWorkspace:
        """Give the workspace."""
        return self._workspace

    def clock(self) -> SimulatedClock:
        """Give the clock."""
        return self._clock

    def fail(self, call: str, *faults: Fault | None) -> None:
        """Let the next calls go wrong like this: ``world.fail("store.publish", Fault.LANDED)``."""
        port, _, method = call.partition(".")
        self._desk.fail(port, method, *faults)

    def ports(self, reached: Reached | None = None) -> Ports:
        """Give what ``drive`` takes; ``reached`` is called at every failpoint, and may raise to end the execution."""
        return Ports(
            orchestrator=self._orchestrator,
            store=self._store,
            workspace=self._workspace,
            coordination=self._coordination,
            clock=self._clock,
            reached=reached,
        )

    def asynchronous_ports(self, reached: Reached | None = None) -> Ports:
        """Give what ``adrive`` takes."""
        # The protocols are written synchronously: a type checker cannot tell that these have the same methods.
        ports: dict[str, Any] = {
            "orchestrator": Asynchronous(self._orchestrator),
            "store": Asynchronous(self._store),
            "workspace": Asynchronous(self._workspace),
            "coordination": Asynchronous(self._coordination),
            "clock": Asynchronous(self._clock),
        }
        return Ports(**ports, reached=reached)
