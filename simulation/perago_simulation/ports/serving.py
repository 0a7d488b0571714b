"""How a simulated port serves a call: one at a time, and with the faults that were asked for.

A fault strikes one call of one port in one of three ways, which a caller cannot always tell apart: that is the point.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable
from enum import Enum
from functools import wraps
from itertools import count
from threading import RLock
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

from perago_core.answers import Answer, NotDone, Unknown
from perago_core.ports import PORT_CALLS

P = ParamSpec("P")
T = TypeVar("T")


class Fault(Enum):
    """What may strike a call."""

    REFUSED = "the system says no, and nothing happens"
    LANDED = "it happens, and the answer does not arrive"
    DROPPED = "it does not happen, and no answer arrives"


class Dispatcher:
    """Where all calls of one world arrive: the lock they are served under, and the faults that wait for them."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._waiting: defaultdict[tuple[str, str], deque[Fault | None]] = defaultdict(deque)

    def fail(self, port: str, method: str, *faults: Fault | None) -> None:
        """Let the next calls of this method go wrong like this, one after the other; ``None`` lets one pass."""
        if method not in PORT_CALLS.get(port, {}):
            message = f"no such port call: {port}.{method}; expected one of perago_core.ports.PORT_CALLS"
            raise ValueError(message)
        with self.lock:
            self._waiting[port, method].extend(faults)

    def next_fault(self, port: str, method: str) -> Fault | None:
        """Take the fault that waits for this call, if there is one."""
        waiting = self._waiting[port, method]
        return waiting.popleft() if waiting else None


class Serving(Protocol):
    """A port whose calls a dispatcher serves."""

    PORT: ClassVar[str]

    @property
    def dispatcher(self) -> Dispatcher:
        """Return what serves its calls."""
        ...


S = TypeVar("S", bound=Serving)


def served(method: Callable[Concatenate[S, P], Answer[T]]) -> Callable[Concatenate[S, P], Answer[T]]:
    """Make a method one call of its port: under the lock, in one step, struck by the fault that waits for it."""
    name = method.__name__

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Answer[T]:
        with self.dispatcher.lock:
            match self.dispatcher.next_fault(self.PORT, name):
                case None:
                    return method(self, *args, **kwargs)
                case Fault.REFUSED:
                    return NotDone(f"{self.PORT}.{name} was refused, as the test asked for")
                case Fault.DROPPED:
                    return Unknown(f"{self.PORT}.{name}: the request was lost, as the test asked for")
                case Fault.LANDED:
                    method(self, *args, **kwargs)
                    return Unknown(f"{self.PORT}.{name}: the answer was lost, as the test asked for")

    return call


class ByReference:
    """Something that lives in the memory of one process. Pickled, it is its name there; anywhere else it says so."""

    _numbers = count(1)
    _living: ClassVar[WeakValueDictionary[tuple[int, int], ByReference]] = WeakValueDictionary()

    def __init__(self) -> None:
        self._name = (os.getpid(), next(self._numbers))
        self._living[self._name] = self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _found, (type(self).__name__, self._name)

    @classmethod
    def find(cls, name: tuple[int, int]) -> ByReference | None:
        """Return what has this name in this process. A forked copy is another world, so it does not count."""
        return cls._living.get(name) if name[0] == os.getpid() else None


def _found(kind: str, name: tuple[int, int]) -> ByReference:
    living = ByReference.find(name)
    if living is None:
        message = (
            f"this {kind} lives in the memory of process {name[0]}, and this is process {os.getpid()}, or it is gone; "
            "across processes, use an embedded or a real system"
        )
        raise LookupError(message)
    return living
