"""How a command becomes port calls: a conversation, written once, carried on synchronously or asynchronously.

A conversation is a generator. It yields a ``Call``, is sent the ``Answer``, and returns the event. It holds no port and
does no IO, so ``drive`` and ``adrive`` share it, and a simulator can stop it before or after any single call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from attrs import field, frozen

from perago_core.answers import Answer, Done, Event, Unknown
from perago_core.value import Value, text
from perago_core.values import Attempt, Target

if TYPE_CHECKING:
    from perago_core.ports import Sink


@frozen(repr=False)
class Call(Value):
    """One call of one port.

    ``charge`` is the class it is counted under when the port's own class is too coarse. ``sink`` names a staging branch
    whose sink is passed as the last argument; the driver makes it from the store, which the conversation does not hold.
    """

    port: str = field(validator=text)
    method: str = field(validator=text)
    args: tuple[Any, ...] = ()
    charge: str | None = None
    sink: tuple[Target, str] | None = None


T = TypeVar("T")
P = ParamSpec("P")
#: Calls on their way to an answer.
Talk: TypeAlias = Generator[Call, Answer[Any], Answer[T]]
Conversation: TypeAlias = Generator[Call, Answer[Any], Event]
#: Calls on their way to whatever it returns.
Dialogue: TypeAlias = Generator[Call, Answer[Any], T]


def call(method: Callable[Concatenate[Any, P], Answer[T]], *args: P.args, **kwargs: P.kwargs) -> Talk[T]:
    """Call a port by the method of its protocol, ``call(Store.publish, plan)``: type checkers see both sides."""
    return charged(None, method, *args, **kwargs)


def charged(
    charge: str | None, method: Callable[Concatenate[Any, P], Answer[T]], *args: P.args, **kwargs: P.kwargs
) -> Talk[T]:
    """Call a port and have it counted under another class than the port's own."""
    assert not kwargs, f"a port call has no named arguments: {sorted(kwargs)}"
    return (yield Call(*_named(method), args, charge))


def through(method: Callable[[Any, Attempt, Sink], Answer[T]], attempt: Attempt, target: Target, name: str) -> Talk[T]:
    """Call a workspace with the sink of a staging name, which the driver makes from the store."""
    return (yield Call(*_named(method), (attempt,), sink=(target, name)))


def _named(method: Callable[..., Any]) -> tuple[str, str]:
    """Give port and method of a protocol's method: ``Store.publish`` is ``store``, ``publish``."""
    port, _, name = method.__qualname__.partition(".")
    return port.lower(), name


def clock() -> Generator[Call, Answer[Any], float]:
    """Ask what time it is. The clock cannot fail and is charged to nobody."""
    answer = yield Call("clock", "now")
    assert isinstance(answer, Done)
    now: float = answer.value
    return now


def wall_clock() -> Generator[Call, Answer[Any], int]:
    """Ask for the date as people count it, for records only: no decision rests on it."""
    answer = yield Call("clock", "wall")
    assert isinstance(answer, Done)
    now: int = answer.value
    return now


def pause(seconds: float) -> Generator[Call, Answer[Any], None]:
    """Wait."""
    yield Call("clock", "sleep", (seconds,))


def ask(talk: Talk[T], done: Callable[[T], Event]) -> Conversation:
    """Have something done: the event that says so, or the port's own *not done* or *unknown*."""
    answer = yield from talk
    return done(answer.value) if isinstance(answer, Done) else answer


def look(talk: Talk[T], found: Callable[[T], Event]) -> Conversation:
    """Read something: the event for what was found, or *unknown*. A refused read shows as little as a lost one."""
    answer = yield from talk
    return found(answer.value) if isinstance(answer, Done) else Unknown(answer.reason, answer.operations)
