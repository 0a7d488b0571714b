"""The trace: one record per step, as JSON lines. A public contract, so that production traces can be replayed.

A trace begins with the subject and holds every event. Because ``step`` is deterministic, that is enough to replay it;
phases, row and commands are there for people, and for a checker to find the first divergence. A last line may say what
was measured (``Measured``); it is no step.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from attrs import field, frozen

from perago_core.answers import Event
from perago_core.errors import CodecError
from perago_core.machine import codec
from perago_core.machine.rows import Command, Fired, State
from perago_core.measured import Measured
from perago_core.value import Value, a, count, many, text


@frozen(cache_hash=True, repr=False)
class TraceRecord(Value):
    """One step: where it began, what happened, which row fired, where it led and what was asked for.

    ``at`` is when the runtime wrote it down, in milliseconds since the epoch, for people; 0 where nobody looked.
    """

    machine: str = field(validator=text)
    sequence: int = field(validator=count)
    phase: str = field(validator=text)
    event: Event = field(validator=a(Event))
    row: str = field(validator=text)
    next: str = field(validator=text)
    commands: tuple[Command, ...] = field(default=(), validator=many(a(Command)))
    at: int = field(default=0, validator=count)


def read_record(line: str) -> TraceRecord | Measured:
    """Read a line after the first: a step, or what was measured; anything else raises ``CodecError``."""
    record = codec.loads(line, Value)
    if not isinstance(record, TraceRecord | Measured):
        message = f"expected a TraceRecord or Measured, found a {type(record).__name__}"
        raise CodecError(message)
    return record


class Tracer:
    """An observer that writes one line per step to ``write``. Make one per execution."""

    def __init__(self, machine: str, write: Callable[[str], object], wall: Callable[[], int] = int) -> None:
        self._machine = machine
        self._write = write
        self._wall = wall
        self._sequence = 0

    def __call__(self, before: State[Any, Any], event: Event, fired: Fired[Any, Any]) -> None:
        """Write the step down; the first line of a trace is the state it began with."""
        if self._sequence == 0:
            self._write(codec.dumps(before))
        record = TraceRecord(
            machine=self._machine,
            sequence=self._sequence,
            phase=_name(before.phase),
            event=event,
            row=fired.row.id,
            next=_name(fired.state.phase),
            commands=fired.commands,
            at=self._wall(),
        )
        self._sequence += 1
        self._write(codec.dumps(record))


def _name(phase: Enum) -> str:
    return phase.name
