"""What a port may answer: done, not done, unknown. There is no fourth answer and no exception.

A lost response to a merge is the third one. Treating it as *not done* publishes twice; treating it as *done* invents a
success. So it has a type of its own, and every phase that waits on an effect has a row for it.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from attrs import field, frozen

from perago_core.value import Value, count

T = TypeVar("T")


@frozen(repr=False)
class Done(Value, Generic[T]):
    """The call took effect (or the read succeeded) and this is what it gave.

    ``operations`` is how many requests of the outside system the call needed. The driver counts calls itself, one
    serial hop each; only the adapter knows how many operations it issued side by side.
    """

    value: T
    operations: int = field(default=1, validator=count)


@frozen(repr=False)
class NotDone(Value):
    """The outside system said no, and therefore nothing happened."""

    reason: str
    operations: int = field(default=1, validator=count)


@frozen(repr=False)
class Unknown(Value):
    """Nobody can say whether it happened: a timeout, a dropped connection, an error after the request was sent."""

    reason: str
    operations: int = field(default=1, validator=count)


Answer: TypeAlias = Done[T] | NotDone | Unknown
