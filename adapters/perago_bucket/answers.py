"""From exceptions to answers, in one place: refused is *not done*, unanswered is *unknown*, and there is no third.

A request that changes something and brought no answer may have been carried out, or may be later. So whatever went
wrong on the way is *unknown*; only what the bucket itself refused, or what was refused here before anything was sent,
is *not done*.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from obstore.exceptions import BaseError

from perago_core.answers import Answer, Done, NotDone, NotDoneError, Unknown

T = TypeVar("T")

#: What obstore raises. Some of its errors are Python's own: a missing object is a ``FileNotFoundError``.
Problem = (BaseError, OSError, NotImplementedError, ValueError)


def answer(work: Callable[[], T]) -> Answer[T]:
    """Do the work; turn its result, or the exception it raised, into one of the three answers."""
    try:
        return Done(work())
    except NotDoneError as no:
        return NotDone(str(no))
    except Problem as problem:
        return Unknown(described(problem))


def described(problem: Exception) -> str:
    """Describe an exception in one line: obstore adds pages of its own innards below the first."""
    return f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}"
