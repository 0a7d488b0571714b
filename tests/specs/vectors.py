"""Conformance vectors: what happens to each machine, and what it must do, as plain JSON for other languages.

One vector for each row and each line of the menu that fires it, by the shortest way and named after the row; and for
each subject one on which all goes well. A vector that another one begins with is left out, because the longer one
checks the same. A vector starts from the table's own ``start``: what ``policy.start`` feeds of its own accord is an
event of the vector like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from attrs import frozen

from perago_core import attempt, lease, policy, recovery
from perago_core.answers import Event
from perago_core.errors import ProtocolError
from perago_core.machine.codec import plain
from perago_core.machine.description import digest
from perago_core.machine.engine import Table
from perago_core.machine.rows import Command
from perago_core.value import Value
from specs.reference import told
from tests.core import attempts
from tests.specs import menus
from tests.specs.walking import AnyState, Menu, Move, Way, reachable, shortest_ways, straight_way, without_beginnings

SCHEMA = 3


@frozen
class Source:
    """A machine with all it takes to walk it."""

    table: Table[Any, Any]
    outcome: Callable[[Any], Value | None]
    subjects: tuple[Value, ...]
    menu: Menu


SOURCES: Mapping[str, Source] = {
    "attempt": Source(attempt.ATTEMPT, attempt.outcome, attempts.all_attempts(), attempts.menu),
    "policy": Source(policy.POLICY, policy.outcome, menus.POLICY_SUBJECTS, menus.policy_menu),
    "lease": Source(lease.LEASE, lease.outcome, menus.LEASE_SUBJECTS, menus.lease_menu),
    "recovery": Source(recovery.RECOVERY, recovery.outcome, menus.RECOVERY_SUBJECTS, menus.recovery_menu),
}

MACHINES: Mapping[str, Table[Any, Any]] = MappingProxyType({name: each.table for name, each in SOURCES.items()})


@cache
def states(name: str) -> frozenset[AnyState]:
    """Return every state of a machine that the events of its menu lead to."""
    source = SOURCES[name]
    return reachable(source.table, source.subjects, source.menu)


def vectors(name: str) -> Mapping[str, Any]:
    """Return everything an implementation of this machine is checked by.

    A vector is a subject, what the start gives, and steps: what happens, and what must follow. The step that ends the
    machine has the ``outcome``. Those under ``refused`` hold one event that must be rejected and change nothing: the
    step after it follows as if that event had not happened.
    """
    source = SOURCES[name]
    kept = without_beginnings(_ways(name))
    fired = {row for way in kept.values() for row in way.rows}
    silent = [row.id for row in source.table.definition.rows if row.id not in fired]
    assert not silent, f"{name}: no vector fires {silent}"
    return {
        "schema": SCHEMA,
        "machine": name,
        "digest": digest(source.table),
        "vectors": [_vector(source, called, way) for called, way in kept.items()],
        "refused": list(_refused(name)),
    }


@cache
def _ways(name: str) -> Mapping[str, Way]:
    source = SOURCES[name]
    straight = (straight_way(source.table, subject, source.menu) for subject in source.subjects)
    return {
        **shortest_ways(source.table, source.subjects, source.menu),
        **{f"straight on {number}": way for number, way in enumerate(straight, start=1)},
    }


def _vector(source: Source, name: str, way: Way) -> Mapping[str, Any]:
    start = source.table.start(way.subject)
    return {
        "name": name,
        "rows": list(way.rows),
        "subject": plain(way.subject),
        "start": {"phase": start.state.phase.name, "commands": _plain(start.commands)},
        "steps": [_step(source, move) for move in way.moves],
    }


def _step(source: Source, move: Move) -> Mapping[str, Any]:
    step = {
        "event": plain(move.event),
        "row": move.row,
        "phase": move.state.phase.name,
        "commands": _plain(move.commands),
    }
    return {**step, "outcome": told(source.outcome(move.state))} if source.table.is_terminal(move.state) else step


def _plain(commands: Iterable[Command]) -> list[Any]:
    return [told(each) for each in commands]


# ---------------------------------------------------------------------------------------------------------------------
# What must be refused


def _refused(name: str) -> Iterable[Mapping[str, Any]]:
    """Return an event too early, one twice, one after the end, and one that belongs to another machine."""
    source = SOURCES[name]
    ways = _ways(name).values()
    longest = max(ways, key=lambda way: len(way.moves))
    ended = next(way for way in ways if source.table.is_terminal(way.moves[-1].state))
    early = next(event for event in longest.events if _is_refused(source, longest, 0, event))
    twice = next(index for index, event in enumerate(longest.events, 1) if _is_refused(source, longest, index, event))
    foreign: Event = lease.ReleaseWanted() if name == "policy" else policy.Begun()
    yield _refusal(source, "too early", longest, 0, early)
    yield _refusal(source, "twice", longest, twice, longest.events[twice - 1])
    yield _refusal(source, "another machine's", longest, len(longest.moves) // 2, foreign)
    yield _refusal(source, "after the end", ended, len(ended.moves), ended.events[-1])


def _is_refused(source: Source, way: Way, index: int, event: Event) -> bool:
    """Return whether the event is rejected after so many events of the way."""
    state = way.moves[index - 1].state if index else source.table.start(way.subject).state
    try:
        source.table.fire(state, event)
    except ProtocolError:
        return True
    return False


def _refusal(source: Source, name: str, way: Way, index: int, event: Event) -> Mapping[str, Any]:
    """Give the way up to where the event is refused, the event, and one step more if there is one."""
    assert _is_refused(source, way, index, event), (name, event)
    vector = _vector(source, name, Way(way.subject, way.moves[: index + 1]))
    steps = [*vector["steps"][:index], {"event": plain(event), "refused": True}, *vector["steps"][index:]]
    return {**vector, "steps": steps}
