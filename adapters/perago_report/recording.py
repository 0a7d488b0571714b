"""What happened in a recorded run, in order: the steps its traces hold, and what follows from them.

Clocks of different machines differ, so the order between executions is as good as their clocks; within one execution it
is the order of its trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from attrs import frozen

from perago_core.attempt import ATTEMPT
from perago_core.attempt.messages import Publish
from perago_core.attempt.state import Phase
from perago_core.machine import codec
from perago_core.machine.rows import Command
from perago_core.machine.trace import TraceRecord, read_record
from perago_core.plan import PublishPlan
from perago_core.value import Value
from perago_core.values import Attempt, CommitRef, TaskStatus


@frozen(repr=False)
class Recording(Value):
    """One execution as its trace has it; ``name`` is what it is called in the story."""

    name: str
    attempt: Attempt
    records: tuple[TraceRecord, ...]

    @property
    def ended(self) -> bool:
        """Return whether the execution came to its own end."""
        return bool(self.records) and self.records[-1].next == Phase.DONE.name


@frozen(repr=False)
class Word(Value):
    """The orchestrator's last word on a task: how it ended and when, in milliseconds since the epoch; 0: it has not."""

    task_id: str
    called: str
    status: TaskStatus
    ended_at: int = 0
    reason: str = ""
    ref: CommitRef | None = None


@frozen(repr=False)
class HandedOut(Value):
    """The orchestrator gave the attempt to a worker."""

    who: Recording


@frozen(repr=False)
class Stepped(Value):
    """An execution was told something; ``asked`` is what it had asked for."""

    who: Recording
    record: TraceRecord
    asked: Command


@frozen(repr=False)
class Sent(Value):
    """An execution sent its publication."""

    who: Recording
    plan: PublishPlan


@frozen(repr=False)
class Vanished(Value):
    """A trace ends in the middle of its run, and the orchestrator has given the attempt up: nobody will hear more."""

    who: Recording
    phase: Phase


@frozen(repr=False)
class GivenUp(Value):
    """The orchestrator ended a task without a result."""

    word: Word


Moment: TypeAlias = HandedOut | Stepped | Sent | Vanished | GivenUp


def read(lines: Iterable[str], name: str) -> Recording:
    """Read one trace: a line for the state it began with, and one for each step. What was measured is left out."""
    first, *rest = lines
    state = codec.load_state(first, ATTEMPT)
    records = (read_record(line) for line in rest)
    return Recording(name, state.subject, tuple(each for each in records if isinstance(each, TraceRecord)))


def moments(recordings: Sequence[Recording], words: Sequence[Word]) -> tuple[tuple[int, Moment], ...]:
    """Return everything that happened with its time, in order."""
    open_tasks = {word.task_id for word in words if word.status.is_open}
    found = [each for who in recordings for each in _of(who, is_open=who.attempt.task_id in open_tasks)]
    found += [(word.ended_at, GivenUp(word)) for word in words if word.ended_at and word.status in _GIVEN_UP]
    return tuple(sorted(found, key=lambda each: each[0]))


_GIVEN_UP = (TaskStatus.TIMED_OUT, TaskStatus.CANCELED)


def _of(who: Recording, *, is_open: bool) -> Iterator[tuple[int, Moment]]:
    if not who.records:
        return
    at = min(who.attempt.started_at or who.records[0].at, who.records[0].at)
    yield at, HandedOut(who)
    asked: Command = ATTEMPT.start(who.attempt).commands[0]
    for record in who.records:
        # A clock that was set back must not carry a step before the one that led to it.
        at = max(at, record.at)
        yield at, Stepped(who, record, asked)
        for command in record.commands:
            asked = command
            if isinstance(command, Publish):
                yield at, Sent(who, command.plan)
    if not who.ended and not is_open:
        yield at, Vanished(who, Phase[who.records[-1].next])
