"""Pipelines at an orchestrator: one protocol, an implementation for each kind of orchestrator."""
