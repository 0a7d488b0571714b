"""The vocabulary every machine is written in: events, commands, facts, guards, rows, states.

Nothing here runs anything; ``engine`` says which definitions are sound, compiles them and steps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from attrs import Factory, field, frozen

from perago_core.answers import Event, NotDone, Unknown
from perago_core.value import Value

S = TypeVar("S")
K = TypeVar("K")

Guard: TypeAlias = Mapping[str, tuple[str, ...]]


@frozen(repr=False)
class Answers(Value):
    """The events that may answer a command, by what they say about the effect.

    A command without ``not_done`` is a read or a wait: when it fails nothing happened, and its failure is ``unknown``.
    ``repeatable`` says that asking again after a restart does no harm; what is not repeatable is answered *unknown*.
    """

    done: tuple[type, ...]
    unknown: tuple[type, ...]
    not_done: tuple[type, ...] = ()
    repeatable: bool = False

    def all(self) -> tuple[type, ...]:
        """Return every event that may come back."""
        return self.done + self.not_done + self.unknown


def effect(*done: type[Event], repeatable: bool = False) -> Answers:
    """Answers of a command that changes something: done, not done, unknown."""
    return Answers(done, (Unknown,), (NotDone,), repeatable)


def read(*done: type[Event], repeatable: bool = True) -> Answers:
    """Answers of a command that only looks or waits for somebody: what it found, or unknown. Nothing can be undone."""
    return Answers(done, (Unknown,), (), repeatable)


def certain(*done: type[Event]) -> Answers:
    """Answers of a command that cannot fail: letting time pass."""
    return Answers(done, (), (), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Command(Value):
    """Base of everything a machine may ask for. ``answers`` says what may come back.

    ``does`` says what who asks for it is doing, as the rest of a sentence; blank where nobody draws the machine.
    """

    answers: ClassVar[Answers]
    does: ClassVar[str] = ""


class Waiting(Enum):
    """Base of the phases of a machine. A phase is one object, so its identity is its hash; ``Enum`` hashes its name."""

    __hash__ = object.__hash__


@frozen(repr=False)
class Fact(Value):
    """A named question with a finite list of answers, read from what is pinned, known and just happened."""

    name: str
    values: tuple[str, ...]
    read: Callable[[Any, Any, Any], str]


@frozen(repr=False)
class Ask(Value):
    """A command a row asks for: its class, and how its arguments follow from what is known."""

    command: type[Command]
    build: Callable[[Any, Any, Any], Command]
    name: str


def asks(command: type[Command]) -> Callable[[Callable[[Any, Any, Any], Command]], Ask]:
    """Turn ``build(subject, known, event)`` into something a row can ask for."""

    def wrap(build: Callable[[Any, Any, Any], Command]) -> Ask:
        return Ask(command, build, build.__name__)

    return wrap


def same(command: type[Command]) -> Ask:
    """Ask for a command without arguments: always the same value, named like the command."""
    value = command()
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in command.__name__).lstrip("_")
    return Ask(command, lambda _subject, _known, _event: value, name)


def when(**pattern: str | tuple[str, ...]) -> Guard:
    """Write a guard: each fact must have the value, or one of the values, given."""
    return MappingProxyType({name: (want,) if isinstance(want, str) else want for name, want in pattern.items()})


ALWAYS: Guard = when()


@frozen(repr=False)
class Row(Value):
    """One line of a table: ``id | waiting for | when | if | then wait for | and ask for``."""

    id: str
    phase: Enum
    event: type[Event]
    when: Guard
    next: Enum
    ask: Ask | None = None
    note: str = ""


@frozen(repr=False)
class On(Value):
    """A row without its phase: what happens, if what, then wait for what, and ask for what."""

    id: str
    event: type[Event]
    when: Guard
    next: Enum
    ask: Ask | None = None
    note: str = ""

    def at(self, phase: Enum) -> Row:
        """Return the row of this phase."""
        return Row(self.id, phase, self.event, self.when, self.next, self.ask, self.note)


@frozen(repr=False)
class Wait(Value):
    """One phase of a machine: the commands it waits for, and its rows.

    ``judge`` names the events from which a decision follows, with who decides. What is decided is known before the
    facts are read, in place of what the event would teach elsewhere.
    """

    phase: Enum
    commands: tuple[type[Command], ...]
    rows: tuple[Row, ...]
    judge: Mapping[type[Event], Callable[[Any, Any], Any]] = Factory(dict[type[Event], Callable[[Any, Any], Any]])


def wait(phase: Enum, command: type[Command] | None, *rows: On) -> Wait:
    """Write a phase that waits for one command, or with ``None`` for nothing but what comes from outside."""
    return Wait(phase, () if command is None else (command,), tuple(row.at(phase) for row in rows))


# Without slots a frozen value is made a quarter faster; without its own state it would pickle as its base: empty.
@frozen(cache_hash=True, repr=False, slots=False, getstate_setstate=True)
class State(Value, Generic[S, K]):
    """Where a machine stands: the phase, what was pinned at the start, what it has learnt, what it waits for."""

    phase: Enum
    subject: S
    known: K
    pending: tuple[Command, ...] = ()


class Step(NamedTuple, Generic[S, K]):
    """What one event led to: the next state and the commands to carry out, in order."""

    state: State[S, K]
    commands: tuple[Command, ...]


class Fired(NamedTuple, Generic[S, K]):
    """A step together with the row that took it; traces and coverage want to know."""

    row: Row
    state: State[S, K]
    commands: tuple[Command, ...]


@frozen(repr=False)
class Definition(Value, Generic[S, K]):
    """A machine as data: its phases with their rows, its facts, and what each event teaches (``remember``).

    ``initial``: the phases it may begin in; ``opening`` says in which, knowing what, and what is asked for first.

    ``rows`` and ``waits`` are what the phases say, one line each; a simulator changes rows one by one.
    """

    name: str
    phases: type[Enum]
    initial: tuple[Enum, ...]
    terminal: frozenset[Enum]
    facts: tuple[Fact, ...]
    table: tuple[Wait, ...]
    remember: Mapping[type[Event], Callable[[State[S, K], Any], K]]
    opening: Callable[[S], tuple[Enum, K, Ask | None]]
    interrupts: tuple[type[Event], ...] = ()
    rows: tuple[Row, ...] = Factory(
        lambda self: tuple(row for each in self.table for row in each.rows), takes_self=True
    )
    waits: Mapping[Enum, tuple[type[Command], ...]] = Factory(
        lambda self: {each.phase: each.commands for each in self.table if each.commands}, takes_self=True
    )
    judges: Mapping[tuple[Enum, type[Event]], Callable[[State[S, K], Any], K]] = Factory(
        lambda self: {(each.phase, event): judge for each in self.table for event, judge in each.judge.items()},
        takes_self=True,
    )
    facts_by_name: Mapping[str, Fact] = field(
        init=False,
        default=Factory(lambda self: {fact.name: fact for fact in self.facts}, takes_self=True),
    )

    def lesson(self, phase: Enum, event: type[Event]) -> Callable[[State[S, K], Any], K] | None:
        """Return what an event teaches in a phase: a decision where one is due; ``None`` if it teaches nothing."""
        return self.judges.get((phase, event), self.remember.get(event))


def mentioned(rows: Iterable[Row]) -> tuple[str, ...]:
    """Name the facts these rows look at, in the order in which they are first written."""
    return tuple(dict.fromkeys(name for row in rows for name in row.when))


#: A leaf has the rows that match there: exactly one, in a sound table.
Split: TypeAlias = "list[Row] | tuple[Fact, dict[str, Split]]"


def split(definition: Definition[Any, Any], rows: list[Row], asked: frozenset[str] = frozenset()) -> Split:
    """Divide the rows by the first fact that one of them wants to know, each part by the next, while there is one."""
    name = next((name for name in mentioned(rows) if name not in asked), None)
    if name is None:
        return rows
    fact = definition.facts_by_name[name]
    parts = {value: [row for row in rows if value in row.when.get(name, fact.values)] for value in fact.values}
    return fact, {value: split(definition, part, asked | {name}) for value, part in parts.items()}
