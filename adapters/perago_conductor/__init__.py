"""The orchestrator on Conductor: translates answers of its API, decides nothing."""

from __future__ import annotations

from perago_conductor.orchestrator import ConductorOrchestrator

__all__ = ["ConductorOrchestrator"]
