"""``drive`` and ``adrive``: run an attempt to its end over real ports, synchronously or asynchronously.

Both only carry calls to ports and answers back. Everything in between is the conversation of ``attempt.calls``, so the
two cannot differ in what they do, and neither can decide anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar, cast

from attrs import Factory, define, evolve, fields

from perago_core.answers import Answer, Done, Event, NotDone, Unknown
from perago_core.attempt.run import Execution, Interrupts, Observer, Turns
from perago_core.attempt.state import AttemptState, Known
from perago_core.attempt.table import outcome
from perago_core.calls import Call, Dialogue
from perago_core.failpoints import Edge, Failpoint, Reached
from perago_core.machine.rows import Fired
from perago_core.measured import CallTimes
from perago_core.ports import PORT_CALLS, Clock, Coordination, Orchestrator, Store, Workspace
from perago_core.results import Outcome
from perago_core.unanswered import asking_again
from perago_core.value import Value
from perago_core.values import Attempt

if TYPE_CHECKING:
    from perago_core.lease.run import Background, Keeper


@define
class Meter:
    """Counts by class; a class has exactly one owner, so the sum over classes is the total (H-05).

    ``items`` and ``bytes`` are what the answers brought: a call may be one hop and carry all of history (S-38).
    ``times`` are of each call by its own name, ``store.publish``.
    """

    calls: Counter[str] = Factory(Counter[str])
    operations: Counter[str] = Factory(Counter[str])
    items: Counter[str] = Factory(Counter[str])
    bytes: Counter[str] = Factory(Counter[str])
    times: dict[str, CallTimes] = Factory(dict[str, CallTimes])

    def count(self, call: Call, answer: Done[object] | NotDone | Unknown, took: float) -> None:
        """Charge one call, the operations its answer says it took, what it brought, and its seconds."""
        charge = charge_of(call)
        name = f"{call.port}.{call.method}"
        self.times[name] = self.times.get(name, CallTimes(name)).with_call(max(took, 0.0))
        self.calls[charge] += 1
        self.operations[charge] += answer.operations
        if isinstance(answer, Done):
            self.items[charge] += _items(answer.value)
            self.bytes[charge] += _bytes(answer.value)


def charge_of(call: Call) -> str:
    """Return the class a call is counted under."""
    return call.charge or PORT_CALLS[call.port][call.method]


def _items(value: object) -> int:
    """Count the things in an answer: those of a list, or the one there is."""
    return len(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else int(value is not None)


def _bytes(value: object) -> int:
    """Count the bytes of the texts in an answer, however deep they lie."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Value):
        return sum(_bytes(getattr(value, each.name)) for each in fields(type(value)))
    if isinstance(value, tuple):
        return sum(_bytes(each) for each in cast("tuple[object, ...]", value))
    return 0


#: Told of every call with the seconds it took. Nothing it returns or raises is looked at.
Timed: TypeAlias = Callable[[Call, float], object]
#: Told of every fault of a port once, with the exception as it was raised. Nothing it returns or raises is looked at.
Faulty: TypeAlias = Callable[[Call, Exception], object]

T = TypeVar("T")


class Ports:
    """The ports of one execution, wrapped: every call is counted, has its failpoints, and answers one of three things.

    A port that raises has not answered. Whether its effect happened is unknown, and unknown is what the core is told.
    A machine may find out what became of the call, or give up, and then says nothing of the exception: so ``faults``
    keeps each, in words, and ``faulty`` is told of it with its traceback. What a port answers besides the three answers
    is a fault too.
    """

    def __init__(
        self,
        *,
        orchestrator: Orchestrator | None,
        store: Store | None,
        workspace: Workspace | None,
        clock: Clock,
        coordination: Coordination | None = None,
        reached: Reached | None = None,
        timed: Timed | None = None,
        faulty: Faulty | None = None,
    ) -> None:
        self._ports = {
            "orchestrator": orchestrator,
            "store": store,
            "workspace": workspace,
            "coordination": coordination,
            "clock": clock,
        }
        self._clock: Any = clock  # its methods are coroutines for ``acall``
        self._reached = reached
        self._timed = timed
        self._faulty = faulty
        self.meter = Meter()
        self.faults: list[str] = []

    def call(self, call: Call) -> Answer[Any]:
        """Make one call of a synchronous port."""
        method = self._enter(call)
        if call.port == "clock":
            return Done(method(*call.args), operations=0)
        began = self._clock.now()
        try:
            answer = method(*self._resolve(call))
        except Exception as error:  # noqa: BLE001  an exception is a missing answer, whatever its type
            answer = self._fault(call, f"raised {type(error).__name__}: {error}", error)
        return self._leave(call, answer, self._clock.now() - began)

    async def acall(self, call: Call) -> Answer[Any]:
        """Make one call of an asynchronous port."""
        method = self._enter(call)
        if call.port == "clock":
            return Done(await method(*call.args), operations=0)
        began = await self._clock.now()
        try:
            answer = await method(*self._resolve(call))
        except Exception as error:  # noqa: BLE001  an exception is a missing answer, whatever its type
            answer = self._fault(call, f"raised {type(error).__name__}: {error}", error)
        return self._leave(call, answer, await self._clock.now() - began)

    def _enter(self, call: Call) -> Callable[..., Any]:
        if self._reached is not None and call.port != "clock":
            self._reached(Failpoint(call.port, call.method, Edge.BEFORE))
        method: Callable[..., Any] = getattr(self._ports[call.port], call.method)
        return method

    def _resolve(self, call: Call) -> tuple[Any, ...]:
        """Turn a staging name into the sink a workspace writes through; making a sink is not a call."""
        if call.sink is None:
            return call.args
        sink = getattr(self._ports["store"], "sink")(*call.sink)  # noqa: B009  ports are only known by name here
        return (*call.args, sink)

    def _leave(self, call: Call, answer: object, took: float) -> Answer[Any]:
        if not _is_answer(answer):
            what = f"answered {type(answer).__name__}, not Done, NotDone or Unknown"
            answer = self._fault(call, what, TypeError(what))
        answer = _plain(answer)
        self.meter.count(call, answer, took)
        if self._timed is not None:
            with suppress(Exception):  # it watches, it does not decide
                self._timed(call, took)
        if self._reached is not None:
            self._reached(Failpoint(call.port, call.method, Edge.AFTER))
        return answer

    def _fault(self, call: Call, what: str, error: Exception) -> Unknown:
        """Keep what a port did instead of answering; a call that is made again and again tells of it once."""
        fault = f"{call.port}.{call.method} {what}"
        if fault not in self.faults:
            self.faults.append(fault)
            if self._faulty is not None:
                with suppress(Exception):  # it watches, it does not decide
                    self._faulty(call, error)
        return Unknown(fault)


def _is_answer(answer: object) -> TypeGuard[Answer[Any]]:
    return isinstance(answer, Done | NotDone | Unknown)


def _plain(answer: Answer[Any]) -> Answer[Any]:
    """Return an answer as one of the three that machines have rows for.

    An adapter may answer with a class of its own that says more to itself, such as a server that could not be reached.
    A row is found by the class of the event, so that class would be an event no phase allows.
    """
    if isinstance(answer, NotDone) and type(answer) is not NotDone:
        return NotDone(answer.reason, answer.operations)
    if isinstance(answer, Unknown) and type(answer) is not Unknown:
        return Unknown(answer.reason, answer.operations)
    return answer


def run(dialogue: Dialogue[T], ports: Ports) -> T:
    """Carry a conversation on synchronously until it returns."""
    try:
        call = next(dialogue)
        while True:
            call = dialogue.send(ports.call(call))
    except StopIteration as end:
        result: T = end.value
        return result


async def arun(dialogue: Dialogue[T], ports: Ports) -> T:
    """Carry a conversation on asynchronously until it returns."""
    try:
        call = next(dialogue)
        while True:
            call = dialogue.send(await ports.acall(call))
    except StopIteration as end:
        result: T = end.value
        return result


def drive(
    attempt: Attempt | AttemptState,
    ports: Ports,
    *,
    observe: Observer | None = None,
    interrupts: Interrupts | None = None,
    attempt_until: Callable[[], float] | None = None,
    background: Background | None = None,
    turns: Turns | None = None,
) -> Outcome:
    """Run an attempt, or resume a stored state, to its end; give what became of it.

    ``observe`` sees every step and can change none. ``interrupts`` is asked before each command for an event from
    outside. ``attempt_until`` gives the attempt's own deadline, counted from the send time of the last good heartbeat;
    until it is near, idempotent calls that go unanswered are made again. Without one, every call is made once.
    ``background`` keeps a lease alive beside the calls, by ``keep_alive``; without it only between them. ``turns`` lets
    the writers of one process publish to a shared branch one after the other.
    """
    execution = Execution.of(attempt, _harmless(observe), interrupts, attempt_until, background, turns=turns)
    ended = outcome(run(asking_again(execution.dialogue(), execution.asks_until), ports))
    return evolve(ended, faults=tuple(ports.faults))


async def adrive(
    attempt: Attempt | AttemptState,
    ports: Ports,
    *,
    observe: Observer | None = None,
    interrupts: Interrupts | None = None,
    attempt_until: Callable[[], float] | None = None,
    background: Background | None = None,
    turns: Turns | None = None,
) -> Outcome:
    """Do what ``drive`` does, over ports whose methods are coroutines."""
    execution = Execution.of(attempt, _harmless(observe), interrupts, attempt_until, background, turns=turns)
    ended = outcome(await arun(asking_again(execution.dialogue(), execution.asks_until), ports))
    return evolve(ended, faults=tuple(ports.faults))


def keep_alive(keeper: Keeper, ports: Ports, wait: Callable[[float], bool]) -> None:
    """Tend a lease for as long as it is kept; ``wait`` waits so many seconds, and says whether to stop."""
    while keeper.kept and not wait(keeper.interval):
        run(keeper.tend(), ports)


async def akeep_alive(keeper: Keeper, ports: Ports, wait: Callable[[float], Awaitable[bool]]) -> None:
    """Do what ``keep_alive`` does, over ports whose methods are coroutines."""
    while keeper.kept and not await wait(keeper.interval):
        await arun(keeper.tend(), ports)


def _harmless(observe: Observer | None) -> Observer | None:
    """Keep an observer from ending the execution by raising: it watches, it does not decide."""
    if observe is None:
        return None

    def watch(before: AttemptState, event: Event, fired: Fired[Attempt, Known]) -> None:
        with suppress(Exception):
            observe(before, event, fired)

    return watch
