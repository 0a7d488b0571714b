"""Running a machine one port call at a time, as a value that can be kept, compared and gone back to.

A conversation is a generator, and a generator cannot be copied. But it is a function of the answers it was sent. So a
process is the state of its machine and the answers to the command under way; the next call is found by opening the
conversation anew and sending them again, once for each such place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import Any, Generic, TypeAlias

from attrs import frozen

from perago_core.answers import Answer, Event
from perago_core.calls import Call, Conversation
from perago_core.machine.engine import Table
from perago_core.machine.rows import Command, K, S, State
from perago_core.value import Value

Answers: TypeAlias = tuple[Answer[Any], ...]
#: How a command of a machine becomes calls, given what the machine is about.
Perform: TypeAlias = Callable[[Command, Any], Conversation]


@frozen(repr=False)
class Concluded(Value):
    """What a conversation came to."""

    value: Any


class Conversations:
    """Conversations by name, each replayed from its answers at most once for each place in it."""

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, Answers], Call | Concluded] = {}

    def next(
        self, name: Hashable, answers: Answers, begin: Callable[[], Generator[Call, Answer[Any], Any]]
    ) -> Call | Concluded:
        """Return the call that follows these answers, or what the conversation comes to."""
        found = self._known.get((name, answers))
        if found is None:
            found = self._known[name, answers] = _replayed(begin(), answers)
        return found


def _replayed(talk: Generator[Call, Answer[Any], Any], answers: Answers) -> Call | Concluded:
    try:
        call = next(talk)
        for answer in answers:
            call = talk.send(answer)
    except StopIteration as end:
        return Concluded(end.value)
    return call


@frozen(cache_hash=True, repr=False)
class Running(Value, Generic[S, K]):
    """A machine on its way: its state, and the answers to the command it waits for."""

    state: State[S, K]
    answers: Answers = ()


class Runner(Generic[S, K]):
    """One machine: its table, how its commands become calls, and the event it is begun with, if it asks for nothing."""

    def __init__(self, table: Table[S, K], perform: Perform, opening: Event | None = None) -> None:
        self.table = table
        self._perform = perform
        self._opening = opening
        self._talks = Conversations()
        self._known: dict[tuple[Running[S, K], Answer[Any]], Running[S, K]] = {}
        self.fired: set[str] = set()

    def begin(self, subject: S) -> Running[S, K]:
        """Return the machine before its first call."""
        running = Running(self.table.start(subject).state)
        return running if self._opening is None else self.feed(running, self._opening)

    def call(self, running: Running[S, K]) -> Call | None:
        """Return the call it makes next; ``None`` while it waits for something else, or has ended."""
        found = self._next(running)
        return found if isinstance(found, Call) else None

    def answer(self, running: Running[S, K], answer: Answer[Any]) -> Running[S, K]:
        """Return the machine after its call was answered."""
        known = self._known.get((running, answer))
        if known is None:
            known = Running(running.state, (*running.answers, answer))
            found = self._next(known)
            if isinstance(found, Concluded):
                known = self.feed(known, found.value)
            self._known[running, answer] = known
        return known

    def feed(self, running: Running[S, K], event: Event) -> Running[S, K]:
        """Let an event happen. One that changes nothing of what is awaited leaves the conversation where it is."""
        row, state, _ = self.table.fire(running.state, event)
        self.fired.add(row.id)
        waits_on = state.pending == running.state.pending and row.ask is None
        return Running(state, running.answers if waits_on else ())

    def _next(self, running: Running[S, K]) -> Call | Concluded | None:
        if not running.state.pending:
            return None
        (command,) = running.state.pending
        subject = running.state.subject
        return self._talks.next((command, subject), running.answers, lambda: self._perform(command, subject))
