"""Trace conformance: replay a trace a real worker wrote through ``step``, and name the first step that differs.

A trace begins with the state it started from and holds one record per step (``perago_core.trace``). Because ``step`` is
deterministic, the events are enough to go the same way again; phases, rows and commands must then come out the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from perago_core.attempt import ATTEMPT
from perago_core.errors import CodecError, ProtocolError
from perago_core.machine import codec
from perago_core.machine.trace import read_record
from perago_core.measured import Measured
from perago_core.value import Value


@frozen(repr=False)
class Checked(Value):
    """How far a trace agrees: so many steps, and what is wrong with the next one (or nothing)."""

    steps: int
    divergence: str | None = field(default=None)


def check_trace(lines: Iterable[str]) -> Checked:
    """Replay the lines of one trace; whatever is malformed, missing or different is the divergence."""
    steps = 0
    state = None
    for number, line in enumerate(lines, start=1):
        try:
            if state is None:
                state = codec.load_state(line, ATTEMPT)
                continue
            record = read_record(line)
            if isinstance(record, Measured):
                continue
            row, after, commands = ATTEMPT.fire(state, record.event)
        except (CodecError, ProtocolError) as problem:
            return Checked(steps, f"line {number}: {problem}")
        for name, found, expected in (
            ("machine", record.machine, ATTEMPT.definition.name),
            ("sequence", record.sequence, steps),
            ("phase", record.phase, state.phase.name),
            ("row", record.row, row.id),
            ("next", record.next, after.phase.name),
            ("commands", record.commands, commands),
        ):
            if found != expected:
                return Checked(steps, f"line {number}: {name} is {found!r}, the table says {expected!r}")
        state, steps = after, steps + 1
    return Checked(steps, None if state is not None else "there is no line at all")
