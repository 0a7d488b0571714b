"""The trace: what is written down is enough to do it again."""

from __future__ import annotations

import json

import pytest

from perago_core.attempt import ATTEMPT
from perago_core.errors import CodecError
from perago_core.machine import codec
from perago_core.machine.trace import Tracer, TraceRecord, read_record
from perago_core.measured import CallTimes, Measured
from tests.core.attempts import Path, all_attempts, make_attempt, play, walk


def traced(path: Path) -> list[str]:
    """Go a way again with a tracer watching."""
    lines: list[str] = []
    tracer = Tracer("attempt", lines.append)
    for move in path.moves:
        tracer(move.before, move.event, ATTEMPT.fire(move.before, move.event))
    return lines


def test_replaying_a_trace_gives_the_same_states() -> None:
    """S-39, P-25, N-02: from the text alone, by a process that knows nothing else, on the way to every row."""
    for path in walk(all_attempts()).values():
        first, *rest = traced(path)
        state = codec.load_state(first, ATTEMPT)
        assert state == path.moves[0].before
        for number, (line, move) in enumerate(zip(rest, path.moves, strict=True)):
            record = codec.loads(line, TraceRecord)
            assert (record.machine, record.sequence) == ("attempt", number)
            assert record.phase == state.phase.name
            row, state, commands = ATTEMPT.fire(state, record.event)
            assert (row.id, state.phase.name, commands) == (record.row, record.next, record.commands)
            assert state == move.state


def test_trace_is_one_line_a_step_and_the_state_it_began_with() -> None:
    """A public contract: JSON lines, the same bytes for the same run."""
    path = play(make_attempt())
    lines = traced(path)
    assert len(lines) == len(path.moves) + 1
    assert all("\n" not in line for line in lines)
    assert [json.loads(line)["type"] for line in lines] == ["State", *["TraceRecord"] * len(path.moves)]
    assert lines == traced(path)


def test_a_last_line_may_say_what_was_measured_and_is_no_step() -> None:
    """What was written before there was such a line is read as it is; anything else is refused."""
    line = traced(play(make_attempt()))[1]
    assert isinstance(read_record(line), TraceRecord)
    measured = Measured((CallTimes("store.publish").with_call(0.2),), (("target", 2),))
    assert read_record(codec.dumps(measured)) == measured
    with pytest.raises(CodecError, match="expected a TraceRecord or Measured, found a CallTimes"):
        read_record(codec.dumps(measured.calls[0]))


def test_tracer_may_begin_in_the_middle() -> None:
    """N-13: a process that goes on with a stored state writes that state first."""
    path = play(make_attempt())
    half = Path(path.attempt, path.moves[5:], ())
    first, record, *_ = traced(half)
    assert codec.load_state(first, ATTEMPT) == path.moves[5].before
    assert codec.loads(record, TraceRecord).sequence == 0


def test_a_trace_says_when_if_the_runtime_looks_at_a_clock() -> None:
    """The core has no clock; what the runtime's one says is for people, and changes no step."""
    path = play(make_attempt())
    times = iter(range(1000, 2000))
    lines: list[str] = []
    tracer = Tracer("attempt", lines.append, lambda: next(times))
    for move in path.moves:
        tracer(move.before, move.event, ATTEMPT.fire(move.before, move.event))
    records = [codec.loads(line, TraceRecord) for line in lines[1:]]
    assert [record.at for record in records] == list(range(1000, 1000 + len(records)))
    assert [codec.loads(line, TraceRecord).at for line in traced(path)[1:]] == [0] * len(records)
