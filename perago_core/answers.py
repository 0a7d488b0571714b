"""What a port may answer: done, not done, unknown. There is no fourth answer and no exception.

A lost response to a merge is the third one. Treating it as *not done* publishes twice; treating it as *done* invents a
success. So it has a type of its own, and every phase that waits on an effect has a row for it.

What is not done or unknown is also what a machine is told: the two are events as they are. The phase says what it is
that was not done; a class for each would only repeat it.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from attrs import field, frozen

from perago_core.value import Value, count, line, many, seconds, text

T = TypeVar("T")


@frozen(cache_hash=True, repr=False)
class Event(Value):
    """Base of everything that can happen to a machine: a fact, in the past tense.

    A subclass without fields of its own is a plain class; ``attrs`` has nothing to add to it.
    """


@frozen(repr=False)
class Done(Value, Generic[T]):
    """The call took effect (or the read succeeded) and this is what it gave.

    ``operations`` is how many requests of the outside system the call needed. The driver counts calls itself, one
    serial hop each; only the adapter knows how many operations it issued side by side.
    """

    value: T
    operations: int = field(default=1, validator=count)


@frozen(cache_hash=True, repr=False)
class NotDone(Event):
    """The outside system said no, and therefore nothing happened. ``left`` is what a clean-up left behind."""

    reason: str = field(validator=line)
    operations: int = field(default=1, validator=count)
    left: tuple[str, ...] = field(default=(), validator=many(text), kw_only=True)


@frozen(cache_hash=True, repr=False)
class Unknown(Event):
    """Nobody can say whether it happened: a timeout, a dropped connection, an error after the request was sent.

    A conversation may add what a row needs besides the reason: ``now`` and ``until``, the time and a deadline read at
    the same moment; ``left``, what a clean-up may have left behind. A port gives none of these.
    """

    reason: str = field(validator=line)
    operations: int = field(default=1, validator=count)
    now: float = field(default=0.0, validator=seconds, kw_only=True)
    until: float = field(default=float("inf"), validator=seconds, kw_only=True)
    left: tuple[str, ...] = field(default=(), validator=many(text), kw_only=True)


Answer: TypeAlias = Done[T] | NotDone | Unknown


class NotDoneError(Exception):
    """Raised within an adapter's call: it says no, or was told no, and nothing has happened. Becomes ``NotDone``.

    Which exceptions of its own system mean the same is for each adapter to say; a port raises neither of these.
    """


class UnknownError(Exception):
    """Raised within an adapter's call: something may have happened, perhaps half of it. Becomes ``Unknown``."""
