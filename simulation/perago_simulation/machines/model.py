"""What may happen to processes that share one store: each single call, what goes wrong with it, and death in between.

A call is answered, refused, or not answered. An unanswered one is still on its way: it may land at any later moment, or
never. A process dies between two calls, and the next one may be on its way then. What goes wrong comes out of budgets;
everything else may happen as often as it can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Call
from perago_core.ports import Entry
from perago_simulation.machines.store import Shared, serve

#: The calls that change nothing: whether an unanswered one arrived makes no difference.
READS = frozenset({"get", "list", "head", "look", "claims", "probe", "reload", "now", "wall", "sleep"})
REFUSED = NotDone("refused")
UNANSWERED = Unknown("no answer")
#: How much of an answer a trace shows.
_WIDTH = 60


class Left(NamedTuple):
    """How often something may still go wrong: calls that are refused or not answered, processes that die."""

    faults: int = 0
    crashes: int = 0


class ClusterWorld(NamedTuple):
    """Everything there is. ``outside`` is what the kind of processes needs besides the coordination store."""

    shared: Shared
    outside: Any
    processes: tuple[Any, ...]
    left: Left = Left()
    late: tuple[Call, ...] = ()

    def with_process(self, index: int, process: object) -> ClusterWorld:
        """Return the world with another process in this place."""
        before = self.processes
        return self._replace(processes=(*before[:index], process, *before[index + 1 :]))


class Label(NamedTuple):
    """What happened: who did it, what it was, how it was answered, and whether something went wrong."""

    actor: str
    does: str
    call: Call | None = None
    answer: Answer[Any] | None = None
    fault: bool = False

    def __str__(self) -> str:
        what = self.does if self.call is None else f"{self.does}{' ' * bool(self.does)}{_words(self.call)}"
        return f"{self.actor}: {what}" + ("" if self.answer is None else f" -> {_shown(self.answer)}")

    def is_call(self, method: str) -> bool:
        """Return whether this is an answered call of this method."""
        return self.call is not None and self.answer is not None and self.call.method == method


Move: TypeAlias = tuple[Label, ClusterWorld]
Moves: TypeAlias = Iterator[Move]


class Cluster(ABC):
    """The moves that all kinds of processes have; a kind adds what its processes do and what surrounds them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    @abstractmethod
    def beginnings(self) -> Iterator[ClusterWorld]:
        """Return the worlds it may begin in."""

    @abstractmethod
    def call(self, world: ClusterWorld, index: int) -> Call | None:
        """Return the call a process makes next."""

    @abstractmethod
    def answered(self, world: ClusterWorld, index: int, answer: Answer[Any]) -> object:
        """Return the process after its call was answered."""

    @abstractmethod
    def died(self, world: ClusterWorld, index: int) -> ClusterWorld:
        """Return the world after the death of a process."""

    @abstractmethod
    def mortal(self, world: ClusterWorld, index: int) -> bool:
        """Return whether a process can die."""

    @abstractmethod
    def own_moves(self, world: ClusterWorld, index: int) -> Moves:
        """Return what a process does by itself, beside the call it may be about to make."""

    @abstractmethod
    def surroundings(self, world: ClusterWorld) -> Moves:
        """Return what happens without any process: time passes, somebody else acts."""

    def fallible(self, call: Call) -> bool:
        """Return whether a call can go wrong."""
        return call.port != "clock"

    def serve(self, world: ClusterWorld, index: int, call: Call) -> Iterator[tuple[Answer[Any], ClusterWorld]]:
        """Return every way a call may be answered while nothing goes wrong."""
        del index
        answer, shared = serve(world.shared, call)
        yield answer, world._replace(shared=shared)

    def landed(self, world: ClusterWorld, call: Call) -> ClusterWorld:
        """Return the world after a call nobody waits for any more has landed."""
        return world._replace(shared=serve(world.shared, call)[1])

    # -----------------------------------------------------------------------------------------------------------------

    def moves(self, world: ClusterWorld) -> Moves:
        """Give everything that may happen next."""
        for index in range(len(world.processes)):
            call = self.call(world, index)
            if call is not None:
                yield from self._call(world, index, call)
            yield from self.own_moves(world, index)
            if world.left.crashes and self.mortal(world, index):
                yield from self._die(world, index, call)
        for number, late in enumerate(world.late):
            rest = world._replace(late=(*world.late[:number], *world.late[number + 1 :]))
            yield Label("network", "delivers late:", late), self.landed(rest, late)
            yield Label("network", "loses:", late), rest
        yield from self.surroundings(world)

    def _call(self, world: ClusterWorld, index: int, call: Call) -> Moves:
        name = self.names[index]
        for answer, after in self.serve(world, index, call):
            yield Label(name, "", call, answer), after.with_process(index, self.answered(world, index, answer))
        if world.left.faults and self.fallible(call):
            poorer = world._replace(left=world.left._replace(faults=world.left.faults - 1))
            for answer in (REFUSED, UNANSWERED):
                after = poorer.with_process(index, self.answered(world, index, answer))
                if answer is UNANSWERED:
                    after = _on_its_way(after, call)
                yield Label(name, "", call, answer, fault=True), after

    def _die(self, world: ClusterWorld, index: int, call: Call | None) -> Moves:
        poorer = world._replace(left=world.left._replace(crashes=world.left.crashes - 1))
        after = self.died(poorer, index)
        yield Label(self.names[index], "dies", fault=True), after
        if call is not None and (sending := _on_its_way(after, call)) is not after:
            yield Label(self.names[index], "dies sending:", call, fault=True), sending


def _on_its_way(world: ClusterWorld, call: Call) -> ClusterWorld:
    """Keep a call that may still land. One that changes nothing need not be kept, nor an equal one beside the first."""
    return world if call.method in READS or call in world.late else world._replace(late=(*world.late, call))


def _words(call: Call) -> str:
    """Name a call by its method and, if it has one, the key or name it is about."""
    about = call.args[0] if call.args and isinstance(call.args[0], str) else ""
    return f"{call.method} {about}".rstrip()


def _shown(answer: Answer[Any]) -> str:
    if not isinstance(answer, Done):
        return answer.reason
    value = answer.value.value if isinstance(answer.value, Entry) else answer.value
    text = str(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
