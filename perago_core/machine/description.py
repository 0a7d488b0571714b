"""A machine described as plain data and as a picture, for specs, for other languages and for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from enum import Enum
from typing import Any

from attrs import fields

from perago_core.machine.engine import Table
from perago_core.machine.rows import Command, Row


def describe(table: Table[Any, Any]) -> dict[str, Any]:
    """Return the whole machine as what JSON can hold: phases, facts, commands with their answers, rows."""
    definition = table.definition
    return {
        "machine": definition.name,
        "initial": [phase.name for phase in definition.initial],
        "terminal": sorted(phase.name for phase in definition.terminal),
        "phases": {
            phase.name: {
                "waiting_for": phase.value,
                "commands": [command.__name__ for command in definition.waits.get(phase, ())],
            }
            for phase in definition.phases
        },
        "facts": {fact.name: list(fact.values) for fact in definition.facts},
        "commands": {command.__name__: _command(command) for command in commands_of(table)},
        "interrupts": [event.__name__ for event in definition.interrupts],
        "rows": [_row(row) for row in definition.rows],
    }


def digest(table: Table[Any, Any]) -> str:
    """Return a fingerprint of the rows: two tables with the same one take the same rows on the same facts.

    Notes do not count, being prose; neither does how a fact is read, which is code and is covered by the vectors.
    """
    described = describe(table)
    for row in described["rows"]:
        del row["note"]
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def mermaid(table: Table[Any, Any]) -> str:
    """Draw the machine as a Mermaid state diagram; rows between the same two phases share an arrow."""
    definition = table.definition
    lines = ["stateDiagram-v2", *(f"    [*] --> {phase.name}" for phase in definition.initial)]
    arrows: dict[tuple[Enum, Enum], list[Row]] = {}
    for row in definition.rows:
        # Interruptions of a command come from outside at any time; drawn, they would hide everything else.
        if row.event not in definition.interrupts or not definition.waits.get(row.phase):
            arrows.setdefault((row.phase, row.next), []).append(row)
    for (source, target), rows in arrows.items():
        label = ", ".join(f"{row.id} {row.event.__name__}" for row in rows)
        lines.append(f"    {source.name} --> {target.name}: {label}")
    lines += [f"    {phase.name} --> [*]" for phase in sorted(definition.terminal, key=lambda phase: phase.name)]
    return "\n".join(lines) + "\n"


def commands_of(table: Table[Any, Any]) -> Iterable[type[Command]]:
    """Name every command the machine may ask for, in the order of its phases."""
    return dict.fromkeys(command for commands in table.definition.waits.values() for command in commands)


def _command(command: type[Command]) -> dict[str, Any]:
    answers = command.answers
    return {
        "fields": [each.name for each in fields(command)],
        "done": [event.__name__ for event in answers.done],
        "not_done": [event.__name__ for event in answers.not_done],
        "unknown": [event.__name__ for event in answers.unknown],
        "repeatable": answers.repeatable,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "phase": row.phase.name,
        "event": row.event.__name__,
        "when": {name: list(values) for name, values in row.when.items()},
        "next": row.next.name,
        "ask": None if row.ask is None else {"command": row.ask.command.__name__, "how": row.ask.name},
        "note": row.note,
    }
