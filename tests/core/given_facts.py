"""A machine rebuilt so that every case can be tried: facts are told their values, commands are empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from itertools import product
from typing import Any, ClassVar, TypeAlias

from attrs import evolve

from perago_core.answers import Event
from perago_core.machine.engine import Table
from perago_core.machine.rows import Answers, Ask, Command, Definition, Fact, Row, mentioned

Valuation: TypeAlias = Mapping[str, str]


class Nothing(Command):
    """Stands in for every command; nobody carries it out."""

    __slots__ = ()
    answers: ClassVar = Answers((), ())


def with_given_facts(real: Definition[Any, Any]) -> Table[Any, Any]:
    """The same rows over facts that are told their value."""
    return Table(
        evolve(
            real,
            facts=tuple(evolve(fact, read=_told(fact)) for fact in real.facts),
            rows=tuple(row if row.ask is None else evolve(row, ask=_trivial(row.ask)) for row in real.rows),
            remember={},
            judges={},
        ),
    )


def _told(fact: Fact) -> Callable[[Valuation, object, object], str]:
    def read(subject: Valuation, _known: object, _event: object) -> str:
        return subject[fact.name]

    return read


def _trivial(ask: Ask) -> Ask:
    def build(_subject: object, _known: object, _event: object) -> Command:
        return Nothing()

    return evolve(ask, build=build)


def cases(table: Table[Any, Any]) -> Iterator[tuple[Enum, type[Event], Valuation]]:
    """Every phase with every event of the machine, in every combination of the facts its rows there mention."""
    rows = table.definition.rows
    groups: dict[tuple[Enum, type[Event]], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.phase, row.event), []).append(row)
    for phase, event in product(table.definition.phases, dict.fromkeys(row.event for row in rows)):
        names = mentioned(groups.get((phase, event), []))
        for values in product(*(table.definition.facts_by_name[name].values for name in names)):
            yield phase, event, dict(zip(names, values, strict=True))
