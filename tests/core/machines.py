"""The four machines of the core by name, loaded when asked for: one that is broken fails its own tests only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from perago_core.machine.engine import Table
from perago_core.machine.rows import Definition

NAMES = ("attempt", "policy", "lease", "recovery")


def load(name: str) -> Table[Any, Any]:
    """Return one machine, compiled."""
    table: Table[Any, Any] = getattr(import_module(f"perago_core.{name}"), name.upper())
    return table


def definition(name: str) -> Definition[Any, Any]:
    """Return one machine as data."""
    return load(name).definition
