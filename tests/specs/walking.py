"""Ways through a machine: to every row by the shortest, and straight on; the same walk for all machines.

A way is a subject and the events that happened to it. Two ways that led to the same state go on in the same manner, so
only the first is followed; the first to fire a row is therefore the shortest. The order of the subjects and of the
menu decides between equals, nothing is random: what is generated from the ways does not change by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from perago_core.answers import Event
from perago_core.machine.engine import Table
from perago_core.machine.rows import Command, State

AnyState: TypeAlias = State[Any, Any]
Menu: TypeAlias = Callable[[Any], list[Event]]


class Move(NamedTuple):
    """One step of a way: what happened, which row fired, where it led and what was asked for."""

    event: Event
    row: str
    state: State[Any, Any]
    commands: tuple[Command, ...]


class Way(NamedTuple):
    """A way through a machine from its start."""

    subject: Any
    moves: tuple[Move, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """Give what happened, in order."""
        return tuple(move.event for move in self.moves)

    @property
    def rows(self) -> tuple[str, ...]:
        """Give the rows that fired, in order."""
        return tuple(move.row for move in self.moves)

    def begins(self, other: Way) -> bool:
        """Return whether the other way begins with the whole of this one."""
        return self.subject == other.subject and self.events == other.events[: len(self.moves)]


class _Node(NamedTuple):
    """Where the walk has come to, and how."""

    state: State[Any, Any]
    move: Move | None
    before: _Node | None


def shortest_ways(table: Table[Any, Any], subjects: Iterable[object], menu: Menu) -> Mapping[str, Way]:
    """Give the shortest way that fires each row, in the order of the table; a row that nothing fires is an error.

    A row that several lines of the menu fire has one way for each of them, named ``H5``, ``H5.2``, ``H5.3``: a head
    that is dirty and one that is missing are both refused, and not with the same words.
    """
    found: dict[str, dict[int, Way]] = {row.id: {} for row in table.definition.rows}
    waiting = deque(_Node(table.start(subject).state, None, None) for subject in subjects)
    seen = {node.state for node in waiting}
    while waiting:
        node = waiting.popleft()
        for line, event in enumerate(menu(node.state)):
            row, state, commands = table.fire(node.state, event)
            reached = _Node(state, Move(event, row.id, state, commands), node)
            if line not in found[row.id]:
                found[row.id][line] = _way(reached)
            if state not in seen:
                seen.add(state)
                waiting.append(reached)
    missing = [row for row, ways in found.items() if not ways]
    assert not missing, f"{table.definition.name}: nothing on the menu fires {missing}"
    return {
        row if number == 1 else f"{row}.{number}": way
        for row, ways in found.items()
        for number, way in enumerate(ways.values(), start=1)
    }


def reachable(table: Table[Any, Any], subjects: Iterable[object], menu: Menu) -> frozenset[AnyState]:
    """Return every state that the events of the menu lead to from the start of any subject."""
    waiting = [table.start(subject).state for subject in subjects]
    seen = set(waiting)
    while waiting:
        state = waiting.pop()
        for event in menu(state):
            after = table.step(state, event).state
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return frozenset(seen)


def straight_way(table: Table[Any, Any], subject: object, menu: Menu) -> Way:
    """Give the way on which the first thing on the menu happens each time, to the end or until it repeats itself."""
    node = _Node(table.start(subject).state, None, None)
    seen = {node.state}
    while events := menu(node.state):
        row, state, commands = table.fire(node.state, events[0])
        if state in seen:
            break
        seen.add(state)
        node = _Node(state, Move(events[0], row.id, state, commands), node)
    return _way(node)


def without_beginnings(ways: Mapping[str, Way]) -> Mapping[str, Way]:
    """Leave out every way that another one begins with; together they still fire the same rows."""
    kept: dict[str, Way] = {}
    for name in sorted(ways, key=lambda each: -len(ways[each].moves)):
        if not any(ways[name].begins(longer) for longer in kept.values()):
            kept[name] = ways[name]
    return {name: way for name, way in ways.items() if name in kept}


def _way(node: _Node) -> Way:
    moves: list[Move] = []
    at: _Node | None = node
    while at is not None and at.move is not None:
        moves.append(at.move)
        at = at.before
    return Way(node.state.subject, tuple(reversed(moves)))
