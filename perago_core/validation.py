"""What a table must satisfy before it may run. Every check raises ``DefinitionError`` while the package is imported.

``transitions`` accepts a misspelt source, two rows of which the first silently wins, and a guard that is never true.
Each of these is a hole in a protocol that must fail closed, so each is refused here, with the row that has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any, NoReturn

from perago_core.errors import DefinitionError
from perago_core.rows import Command, Definition, Row, mentioned, valuations


def validate(definition: Definition[Any, Any]) -> None:
    """Refuse a table with a hole in it, naming the hole."""
    _names_are_unique(definition)
    _phases_exist(definition)
    _facts_exist(definition)
    _terminal_phases_are_final(definition)
    _every_phase_is_reachable(definition)
    _every_phase_leads_to_an_end(definition)
    _guards_partition(definition)
    _effects_are_answered(definition)


def _fail(definition: Definition[Any, Any], problem: str) -> NoReturn:
    message = f"table {definition.name!r}: {problem}"
    raise DefinitionError(message)


def _names_are_unique(definition: Definition[Any, Any]) -> None:
    """``transitions`` knows events by name, guards know facts by name: a namesake would answer for the other."""
    for kind, names in (
        ("row ids", [row.id for row in definition.rows]),
        ("facts", [fact.name for fact in definition.facts]),
        ("events", [event.__name__ for event in {row.event for row in definition.rows}]),
    ):
        doubles = [name for name, count in Counter(names).items() if count > 1]
        if doubles:
            _fail(definition, f"duplicate {kind} {doubles}")


def _phases_exist(definition: Definition[Any, Any]) -> None:
    phases = set(definition.phases)
    for row in definition.rows:
        for phase in (row.phase, row.next):
            if phase not in phases:
                _fail(definition, f"row {row.id} names the unknown phase {phase!r}")
    for phase in (definition.initial, *definition.terminal):
        if phase not in phases:
            _fail(definition, f"the initial or a terminal phase is unknown: {phase!r}")


def _facts_exist(definition: Definition[Any, Any]) -> None:
    for row in definition.rows:
        for name, wanted in row.when.items():
            fact = definition.facts_by_name.get(name)
            if fact is None:
                _fail(definition, f"row {row.id} asks for the unknown fact {name!r}")
            strange = [value for value in wanted if value not in fact.values]
            if strange or not wanted:
                _fail(definition, f"row {row.id} wants {name} in {wanted}; its values are {fact.values}")


def _terminal_phases_are_final(definition: Definition[Any, Any]) -> None:
    leaving = [row.id for row in definition.rows if row.phase in definition.terminal]
    if leaving:
        _fail(definition, f"rows {leaving} leave a terminal phase")


def _every_phase_is_reachable(definition: Definition[Any, Any]) -> None:
    reached = _closure({definition.initial}, ((row.phase, row.next) for row in definition.rows))
    missing = sorted(phase.name for phase in set(definition.phases) - reached)
    if missing:
        _fail(definition, f"phases {missing} cannot be reached from {definition.initial.name}")


def _every_phase_leads_to_an_end(definition: Definition[Any, Any]) -> None:
    ending = _closure(set(definition.terminal), ((row.next, row.phase) for row in definition.rows))
    stuck = sorted(phase.name for phase in set(definition.phases) - ending)
    if stuck:
        _fail(definition, f"phases {stuck} have no way to an end")


def _closure(start: set[Enum], edges: Iterable[tuple[Enum, Enum]]) -> set[Enum]:
    arrows = list(edges)
    reached = set(start)
    while grown := {target for source, target in arrows if source in reached} - reached:
        reached |= grown
    return reached


def _guards_partition(definition: Definition[Any, Any]) -> None:
    """For each (phase, event) every combination of the facts' values must match exactly one row."""
    groups: dict[tuple[Enum, type], list[Row]] = {}
    for row in definition.rows:
        groups.setdefault((row.phase, row.event), []).append(row)
    for (phase, event), rows in groups.items():
        matches: dict[tuple[str, ...], list[str]] = {}
        for combination, row in valuations(definition, rows):
            matches.setdefault(combination, []).append(row.id)
        where = f"{event.__name__} in {phase.name} over {mentioned(rows)}"
        for combination, ids in matches.items():
            if len(ids) > 1:
                _fail(definition, f"rows {ids} overlap: {where} = {combination}")
        expected = 1
        for name in mentioned(rows):
            expected *= len(definition.facts_by_name[name].values)
        if len(matches) != expected:
            _fail(definition, f"no row for some values: {where} has {expected} combinations, {len(matches)} covered")


def _effects_are_answered(definition: Definition[Any, Any]) -> None:
    """A phase waits for the commands it is declared to wait for, and has a row for each of their answers."""
    for row in definition.rows:
        entering = row.next is not row.phase or row.ask is not None
        wanted = definition.waits.get(row.next, ())
        if entering and row.ask is None and wanted:
            _fail(definition, f"row {row.id} enters {row.next.name} without asking for {_names(wanted)}")
        if row.ask is not None and row.ask.command not in wanted:
            _fail(
                definition,
                f"row {row.id} asks for {row.ask.command.__name__}, but {row.next.name} does not wait for it",
            )
    for phase, commands in definition.waits.items():
        handled = {row.event for row in definition.rows if row.phase is phase}
        for command in commands:
            missing = [event for event in command.answers.all() if event not in handled]
            if missing:
                _fail(
                    definition, f"phase {phase.name} waits for {command.__name__} but has no row for {_names(missing)}"
                )


def _names(types: Iterable[type[Command] | type]) -> list[str]:
    return [each.__name__ for each in types]
