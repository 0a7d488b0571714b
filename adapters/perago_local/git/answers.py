"""From exceptions to answers, in one place: refused is *not done*, half done is *unknown*, and there is no third.

A store on a local disk nearly always knows what it did. So every problem met before the first ref moved says *not
done*, with the problem; only one met between two moves says *unknown*.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pygit2

from perago_core.answers import Answer, Done, NotDone, NotDoneError, Unknown, UnknownError

T = TypeVar("T")

#: What pygit2 and the operating system raise. pygit2 says ``KeyError`` for a missing object.
Problem = (OSError, pygit2.GitError, KeyError, ValueError)


def answer(work: Callable[[], T]) -> Answer[T]:
    """Do the work; turn its result, or the exception it raised, into one of the three answers."""
    try:
        return Done(work())
    except NotDoneError as no:
        return NotDone(str(no))
    except UnknownError as unsure:
        return Unknown(str(unsure))
    except Problem as problem:
        return NotDone(described(problem))


def described(problem: Exception) -> str:
    """Describe an exception in one line: its type and its message."""
    return f"{type(problem).__name__}: {problem}"
