"""The table engine: one way to write a machine, one way to run it, for all four machines.

A machine is a tuple of rows. A row says: waiting in this phase, when this event happens, if these facts hold, wait for
that next and ask for this. Nothing else influences what happens; a reader who has read the rows knows the machine.

Theory of operation
-------------------
1. ``remember`` folds what the event tells into ``known``.
2. *Facts* are read from ``(subject, known, event)``. Each fact has a short, finite list of values, so guards, which are
   patterns over facts, can be checked by enumeration: for every (phase, event) exactly one row matches every valuation.
3. From the rows one ``transitions.Machine`` is built: no model, no callbacks, no automatic transitions.
4. The rows are read back from that machine: its sources, its destinations, the guards of its conditions. Only what
   ``transitions`` has no place for (id, command, note) is carried along. Everything after this uses these rows: the
   table that runs, diagrams, listings, mutants. A transition with a wrong destination leads there; one that lost its
   condition is refused.
5. The table that runs is a dictionary by phase and event, with a tree that asks one fact after the other for as long as
   they matter.

``transitions`` itself is not the executor, because it answers ``False`` and stays where it is when every guard fails: a
silent dead end, in a protocol whose first rule is to fail closed. Here the same situation cannot be compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, NoReturn, TypeAlias

from attrs import evolve, frozen
from transitions import Machine, Transition

from perago_core.answers import Event
from perago_core.errors import DefinitionError, ProtocolError
from perago_core.machine.rows import (
    Command,
    Definition,
    Fact,
    Fired,
    Guard,
    K,
    Row,
    S,
    Split,
    State,
    Step,
    split,
)
from perago_core.value import Value


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
    for phase in (*definition.initial, *definition.terminal):
        if phase not in phases:
            _fail(definition, f"an initial or a terminal phase is unknown: {phase!r}")


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
    reached = _closure(set(definition.initial), ((row.phase, row.next) for row in definition.rows))
    missing = sorted(phase.name for phase in set(definition.phases) - reached)
    if missing:
        _fail(definition, f"phases {missing} cannot be reached from {[phase.name for phase in definition.initial]}")


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
        where = f"{event.__name__} in {phase.name}"
        leaves = list(_leaves(split(definition, rows)))
        for values, matching in leaves:
            if len(matching) > 1:
                _fail(definition, f"rows {[row.id for row in matching]} overlap: {where} when {values}")
        if gaps := [values for values, matching in leaves if not matching]:
            _fail(definition, f"no row for some values: {where} when {' or when '.join(gaps)}")


def _leaves(node: Split, path: str = "") -> Iterable[tuple[str, list[Row]]]:
    """Return the rows of each leaf with the values that lead to it."""
    if isinstance(node, list):
        yield path, node
        return
    fact, branches = node
    for value, below in branches.items():
        yield from _leaves(below, f"{path}, {fact.name}={value}".removeprefix(", "))


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


@frozen(repr=False)
class Matcher(Value):
    """A guard as the predicate ``transitions`` evaluates."""

    guard: Guard
    facts: Mapping[str, Fact]

    def __call__(self, subject: object, known: object, event: object) -> bool:
        """Return whether each fact has one of the values the guard wants."""
        return all(self.facts[name].read(subject, known, event) in wanted for name, wanted in self.guard.items())


class RowTransition(Transition):
    """A ``transitions`` transition, with what that package has no place for: the row's id, event, command and note."""

    def __init__(self, *args: Any, row: Row, **kwargs: Any) -> None:  # noqa: ANN401  passed on unread
        super().__init__(*args, **kwargs)
        self.id, self.event, self.ask, self.note = row.id, row.event, row.ask, row.note

    def row(self, phases: type[Enum]) -> Row:
        """Return the row this transition is: its own source, destination and guard. Anything else is refused."""
        guards = [each.func.guard for each in self.conditions if isinstance(each.func, Matcher) and each.target]
        if len(guards) != 1 or len(self.conditions) != 1:
            _refuse_transition(self, f"has the conditions {self.conditions}, not one guard")
        source, dest = (phases.__members__.get(name or "") for name in (self.source, self.dest))
        if source is None or dest is None:
            _refuse_transition(self, f"leads from {self.source!r} to {self.dest!r}: not both are phases")
        return Row(self.id, source, self.event, guards[0], dest, self.ask, self.note)


def _refuse_transition(transition: RowTransition, problem: str) -> NoReturn:
    message = f"the transition of row {transition.id} {problem}"
    raise DefinitionError(message)


class RowMachine(Machine):
    """A ``transitions`` machine made of rows: the definition, not the executor."""

    transition_cls = RowTransition


#: A row, or the next fact to read with what each of its values leads to.
_Node: TypeAlias = "Row | tuple[Callable[[Any, Any, Any], str], Mapping[str, _Node]]"


@frozen(repr=False)
class _Choice(Value):
    """The compiled answer to one (phase, event): what it teaches, and the facts that decide, while they matter."""

    remember: Callable[[Any, Any], Any] | None
    tree: _Node


class Table(Generic[S, K]):
    """A validated, compiled machine. ``start`` begins, ``step`` advances; both are pure.

    ``definition`` has the rows as ``machine`` holds them. Another machine may be given in place of the one built from
    what was written; ``check=False`` compiles what would be refused, so that a simulator can show what it would do.
    """

    def __init__(self, written: Definition[S, K], *, machine: RowMachine | None = None, check: bool = True) -> None:
        if check:
            validate(written)
        self.machine = build_machine(written) if machine is None else machine
        self.definition = read_back(written, self.machine)
        if check and self.definition.rows != written.rows:
            validate(self.definition)
        choices = compile_choices(self.definition)
        self._choices = MappingProxyType(choices)
        self._find = choices.get

    def start(self, subject: S) -> Step[S, K]:
        """Begin: an initial phase with its first command."""
        phase, known, ask = self.definition.opening(subject)
        commands = () if ask is None else (ask.build(subject, known, None),)
        return Step(State(phase, subject, known, commands), commands)

    def step(self, state: State[S, K], event: Event) -> Step[S, K]:
        """Advance by one event, or raise ``ProtocolError`` and leave everything as it was."""
        row, known = self.choose(state, event)
        return _follow(row, state, known, event)

    def fire(self, state: State[S, K], event: Event) -> Fired[S, K]:
        """Advance by one event and also name the row that did it."""
        row, known = self.choose(state, event)
        return Fired(row, *_follow(row, state, known, event))

    def choose(self, state: State[S, K], event: Event) -> tuple[Row, K]:
        """Find the one row for this event here, with what is known once the event is."""
        choice = self._find((state.phase, type(event)))
        if choice is None:
            self._refuse(state, event)
        subject = state.subject
        known = state.known if choice.remember is None else choice.remember(state, event)
        node = choice.tree
        while isinstance(node, tuple):
            read, leads_to = node
            node = leads_to[read(subject, known, event)]
        return node, known

    def allowed(self, phase: Enum) -> tuple[str, ...]:
        """Name the events a phase allows, in alphabetical order."""
        return tuple(sorted(event.__name__ for source, event in self._choices if source is phase))

    def is_terminal(self, state: State[S, K]) -> bool:
        """Return whether nothing more can happen."""
        return state.phase in self.definition.terminal

    def _refuse(self, state: State[S, K], event: Event) -> NoReturn:
        names = self.allowed(state.phase)
        allowed = ", ".join(names) if names else "nothing: the machine has ended"
        message = (
            f"{self.definition.name}: {type(event).__name__} is not allowed in phase {state.phase.name}; "
            f"allowed: {allowed}. The state is unchanged."
        )
        raise ProtocolError(message)


def _follow(row: Row, state: State[S, K], known: K, event: Event) -> Step[S, K]:
    """Go where the row leads. One that stays and asks for nothing keeps waiting for what was already asked."""
    if row.ask is None:
        pending = state.pending if row.next is state.phase else ()
        return Step(State(row.next, state.subject, known, pending), ())
    commands = (row.ask.build(state.subject, known, event),)
    return Step(State(row.next, state.subject, known, commands), commands)


def build_machine(definition: Definition[Any, Any]) -> RowMachine:
    """Feed the rows to ``transitions``."""
    machine = RowMachine(
        model=None,
        states=list(definition.phases),
        initial=definition.initial[0],
        auto_transitions=False,
        send_event=False,
        queued=False,
    )
    for row in definition.rows:
        guard = Matcher(row.when, definition.facts_by_name)
        machine.add_transition(row.event.__name__, row.phase, row.next, conditions=[guard], row=row)
    return machine


def read_back(written: Definition[S, K], machine: RowMachine) -> Definition[S, K]:
    """Return the definition with the rows the machine holds, in the order in which they were written."""
    held: dict[str, Row] = {}
    for event in machine.events.values():
        for leaving in event.transitions.values():
            for transition in leaving:
                assert isinstance(transition, RowTransition)
                held[transition.id] = transition.row(written.phases)
    return evolve(written, rows=tuple(held[row.id] for row in written.rows if row.id in held))


def compile_choices(definition: Definition[Any, Any]) -> dict[tuple[Enum, type], _Choice]:
    """Turn the rows into the dictionary that ``step`` uses."""
    grouped: dict[tuple[Enum, type], list[Row]] = {}
    for row in definition.rows:
        grouped.setdefault((row.phase, row.event), []).append(row)
    return {
        (phase, event): _Choice(
            remember=definition.lesson(phase, event),
            tree=_tree(split(definition, rows)),
        )
        for (phase, event), rows in grouped.items()
    }


def _tree(node: Split) -> _Node:
    """Keep of each leaf its row; an unchecked table may have several there, of which the last counts, or none."""
    if isinstance(node, list):
        return node[-1]
    fact, branches = node
    return fact.read, MappingProxyType({value: _tree(below) for value, below in branches.items() if below != []})
