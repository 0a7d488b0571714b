"""Run a machine of the core against the simulated ports, one port call at a time.

A ``Run`` is one process: a machine's state and the conversation it is in the middle of. ``turn`` makes one port call,
so that a test can interleave processes, let time pass, or drop one (a crash) between any two calls. ``Ports`` is what
that process sees of the world; its mishaps say which calls go wrong, and how.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from perago_core.answers import Answer, Done, Event, NotDone, Unknown
from perago_core.calls import Call, Conversation
from perago_core.machine.engine import Table
from perago_core.machine.rows import Command, State
from perago_simulation.ports import SimulatedClock

S = TypeVar("S")
K = TypeVar("K")


@define
class RatedClock:
    """One process's clock: runs at ``rate`` times the true time and started somewhere else (N-10)."""

    true: SimulatedClock
    rate: float = 1.0
    offset: float = 0.0

    def now(self) -> float:
        return self.offset + self.true.now() * self.rate

    def sleep(self, seconds: float) -> None:
        self.true.sleep(seconds / self.rate)


@frozen
class Mishap:
    """What goes wrong with one call: whether it still happens, what is answered instead, how long it takes.

    ``before`` passes between the sending and the effect, ``after`` between the effect and the answer.
    """

    happens: bool = True
    answer: NotDone | Unknown | None = None
    before: float = 0.0
    after: float = 0.0


FINE = Mishap()
REFUSED = Mishap(happens=False, answer=NotDone("refused"))
DROPPED = Mishap(happens=False, answer=Unknown("dropped"))
LOST = Mishap(happens=True, answer=Unknown("answer lost"))


@define
class Ports:
    """What one process sees: its ports by name, and the mishaps still to come, by method, in order.

    A method whose mishaps are used up works. ``clock`` is the true time, ``log`` keeps every call.
    """

    ports: Mapping[str, Any]
    clock: SimulatedClock
    mishaps: dict[str, list[Mishap]] = field(factory=dict[str, list[Mishap]])
    log: list[Call] = field(factory=list[Call])

    def answer(self, call: Call) -> Answer[Any]:
        """Make one call."""
        self.log.append(call)
        method = getattr(self.ports[call.port], call.method)
        if call.port == "clock":
            return Done(method(*call.args))
        waiting = self.mishaps.get(call.method)
        mishap = waiting.pop(0) if waiting else FINE
        self.clock.sleep(mishap.before)
        given: Answer[Any] | None = method(*call.args) if mishap.happens else None
        self.clock.sleep(mishap.after)
        answer = mishap.answer or given
        assert answer is not None
        return answer

    def count(self, method: str) -> int:
        """Say how often a method was called."""
        return sum(call.method == method for call in self.log)

    def slept(self) -> list[float]:
        """Return the waits this process has asked for, in order."""
        return [call.args[0] for call in self.log if call.method == "sleep"]


@frozen
class Machine(Generic[S, K]):
    """A machine of the core. ``opening`` is the event it is begun with, for one that asks for nothing at first."""

    table: Table[S, K]
    perform: Callable[[Command, S], Conversation]
    opening: Event | None = None


class Run(Generic[S, K]):
    """One process running one machine."""

    def __init__(self, machine: Machine[S, K], subject: S, ports: Ports) -> None:
        self.machine = machine
        self.ports = ports
        self.rows: list[str] = []
        self.commands: list[Command] = []
        self._talk: Conversation | None = None
        self._call: Call | None = None
        self._waiting: list[Command] = []
        begun = machine.table.start(subject)
        self.state: State[S, K] = begun.state
        self._accept(begun.commands)
        if machine.opening is not None:
            self.feed(machine.opening)

    @property
    def idle(self) -> bool:
        """Return whether there is nothing to carry out."""
        return self._talk is None

    @property
    def ended(self) -> bool:
        """Return whether nothing more can happen."""
        return self.machine.table.is_terminal(self.state)

    def feed(self, event: Event) -> None:
        """Let an event happen."""
        row, self.state, commands = self.machine.table.fire(self.state, event)
        self.rows.append(row.id)
        if self.ended:
            self._talk, self._call, self._waiting = None, None, []
        self._accept(commands)

    def turn(self) -> None:
        """Make the next port call of the command under way."""
        assert self._talk is not None
        assert self._call is not None
        self._go_on(self._talk, self.ports.answer(self._call))

    def rest(self) -> None:
        """Make port calls until there is nothing to carry out."""
        while not self.idle:
            self.turn()

    def _accept(self, commands: Iterable[Command]) -> None:
        self._waiting.extend(commands)
        if self._talk is None and self._waiting:
            command = self._waiting.pop(0)
            self.commands.append(command)
            talk = self.machine.perform(command, self.state.subject)
            self._go_on(talk, None)

    def _go_on(self, talk: Conversation, answer: Answer[Any] | None) -> None:
        try:
            self._call = next(talk) if answer is None else talk.send(answer)
            self._talk = talk
        except StopIteration as said:
            self._talk, self._call = None, None
            self.feed(said.value)


def converse(talk: Conversation, ports: Ports) -> Event:
    """Carry on one conversation to its end and give the event it comes to."""
    try:
        call = next(talk)
        while True:
            call = talk.send(ports.answer(call))
    except StopIteration as said:
        event: Event = said.value
        return event


def run_to_rest(machine: Machine[S, K], subject: S, ports: Ports) -> Run[S, K]:
    """Begin a machine and carry out everything it asks for, until it asks for nothing more."""
    run = Run(machine, subject, ports)
    run.rest()
    return run


def interleave(runs: list[Run[Any, Any]], schedule: Iterable[int]) -> Generator[int, None, None]:
    """Let the runs make one call each in the order given, then finish one after the other; yields after each call."""
    for choice in schedule:
        run = runs[choice % len(runs)]
        if not run.idle:
            run.turn()
            yield choice % len(runs)
    for index, run in enumerate(runs):
        while not run.idle:
            run.turn()
            yield index
