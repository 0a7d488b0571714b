"""The simulated ports: one world in memory, deterministic, without real time, that a driver or a runtime can run on."""

from __future__ import annotations

from perago_simulation.ports.coordination import SimulatedCoordination
from perago_simulation.ports.lake import Publication
from perago_simulation.ports.orchestrator import SimulatedOrchestrator
from perago_simulation.ports.serving import Fault
from perago_simulation.ports.store import SimulatedStore
from perago_simulation.ports.stranger import Stranger
from perago_simulation.ports.workspace import Body, SimulatedWorkspace, TerminalBodyError
from perago_simulation.ports.world import Asynchronous, SimulatedClock, SimulatedWorld

__all__ = [
    "Asynchronous",
    "Body",
    "Fault",
    "Publication",
    "SimulatedClock",
    "SimulatedCoordination",
    "SimulatedOrchestrator",
    "SimulatedStore",
    "SimulatedWorkspace",
    "SimulatedWorld",
    "Stranger",
    "TerminalBodyError",
]
