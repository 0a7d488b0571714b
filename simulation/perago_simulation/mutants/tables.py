"""Wrong tables made from the right one by rule: an answer taken for another, a step left out, two steps swapped.

A mutated table is compiled without being validated: what validation would say is part of what is known about a mutant,
and many a hole is only instructive if somebody falls into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import evolve

from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, Known
from perago_core.attempt.state import Phase
from perago_core.errors import DefinitionError
from perago_core.machine.engine import Table, validate
from perago_core.machine.rows import Ask, Guard, Row, State
from perago_core.values import Attempt

Attempts: TypeAlias = Table[Attempt, Known]
Remember: TypeAlias = Mapping[type[Event], Callable[[State[Attempt, Known], Any], Known]]

#: Facts that do not change during an attempt, or not where it matters here: rows that differ in one never compete.
CONSTANT = ("backing", "ledger", "mode", "diff", "staging", "reads_back", "abandoned")
#: Facts that are read from the event itself, with the value that lets an attempt go on.
_GOES_ON = {"attempt": "current", "claim": "ours", "intents": "clear", "predecessor": "clean", "acceptance": "ours"}


def attempts(rows: Iterable[Row] | None = None, remember: Remember | None = None) -> Attempts:
    """Return the attempt's table with other rows, or with other lessons from some events."""
    definition = ATTEMPT.definition
    rows_given = definition.rows if rows is None else tuple(rows)
    wrong = remember or {}
    judges = {(phase, event): wrong.get(event, judge) for (phase, event), judge in definition.judges.items()}
    lessons = {**definition.remember, **wrong}
    return Table(evolve(definition, rows=rows_given, remember=lessons, judges=judges), check=False)


def objection(table: Attempts) -> str | None:
    """Return what validation says against a table, or ``None`` if it would let it pass."""
    try:
        validate(table.definition)
    except DefinitionError as error:
        return str(error).removeprefix("table 'attempt': ")
    return None


def row(identity: str) -> Row:
    """Return a row of the production table."""
    (found,) = [each for each in ATTEMPT.definition.rows if each.id == identity]
    return found


def with_rows(*changed: Row) -> tuple[Row, ...]:
    """Return the production rows with these in place of those of the same id."""
    by_id = {each.id: each for each in changed}
    return tuple(by_id.get(each.id, each) for each in ATTEMPT.definition.rows)


def leads(identity: str, to: Phase, ask: Ask | None) -> Row:
    """Return a production row that leads elsewhere."""
    return evolve(row(identity), next=to, ask=ask)


def skip(phase: Phase) -> tuple[Row, ...]:
    """Return the rows that go on without this step, as if it had been done and had answered that all is well."""
    onward = [each for each in ATTEMPT.definition.rows if each.phase is phase and _goes_on(each)]
    rows: list[Row] = []
    for each in ATTEMPT.definition.rows:
        if each.next is not phase or each.phase is phase:
            rows.append(each)
            continue
        rows += [evolve(each, id=name, when=when, next=to, ask=ask) for name, when, to, ask in _joined(each, onward)]
    return tuple(rows)


def _goes_on(each: Row) -> bool:
    """Return whether a row is what follows when its step was done and answered that all is well."""
    (command,) = ATTEMPT.definition.waits[each.phase]
    return each.event in command.answers.done[:1] and all(
        wanted in each.when.get(fact, (wanted,)) for fact, wanted in _GOES_ON.items()
    )


def _joined(incoming: Row, onward: list[Row]) -> Iterator[tuple[str, Guard, Phase, Ask | None]]:
    """Return the ways an incoming row takes if it goes where the step would have gone on to."""
    for number, each in enumerate(onward):
        pattern = dict(incoming.when)
        for fact, wanted in each.when.items():
            if fact not in _GOES_ON or fact in incoming.when:
                pattern[fact] = tuple(value for value in pattern.get(fact, wanted) if value in wanted)
        if all(pattern.values()):
            assert isinstance(each.next, Phase)
            yield f"{incoming.id}-{number}" if number else incoming.id, MappingProxyType(pattern), each.next, each.ask


def taken_for(reachable: Iterable[str]) -> Iterator[tuple[Row, Row]]:
    """Return each of these rows with each other row of its phase that leads elsewhere, once for each elsewhere."""
    wanted = set(reachable)
    for each in ATTEMPT.definition.rows:
        if each.id not in wanted:
            continue
        seen = {(each.next, each.ask)}
        for other in ATTEMPT.definition.rows:
            elsewhere = (other.next, other.ask)
            comes_from_outside = other.event in ATTEMPT.definition.interrupts
            if other.phase is not each.phase or comes_from_outside or elsewhere in seen:
                continue
            if compatible(each.when, other.when):
                seen.add(elsewhere)
                yield each, other


def compatible(one: Guard, other: Guard) -> bool:
    """Return whether two guards can meet in one attempt, by the facts that do not change during it."""
    return all(set(one[fact]) & set(other[fact]) for fact in CONSTANT if fact in one and fact in other)


def in_words(each: Row) -> str:
    """Describe what a row answers to, in words."""
    facts = [f"{fact} {' or '.join(wanted)}" for fact, wanted in each.when.items() if fact not in CONSTANT]
    return each.event.__name__ + (f" ({', '.join(facts)})" if facts else "")
