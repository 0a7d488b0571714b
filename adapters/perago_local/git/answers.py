"""From exceptions to answers, in one place: refused is *not done*, half done is *unknown*, and there is no third.

A store on a local disk nearly always knows what it did. So every problem met before the first ref moved says *not
done*, with the problem; only one met between two moves says *unknown*.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar

import pygit2

from perago_core.answers import Answer, Done, NotDone, NotDoneError, Unknown, UnknownError

T = TypeVar("T")

#: What pygit2 and the operating system raise. pygit2 says ``KeyError`` for a missing object.
Problem = (OSError, pygit2.GitError, KeyError, ValueError)

_OF_THE_SYSTEM = {
    errno.ENOSPC: "The disk is full, or has no inodes left: free some space; what was published is kept",
    errno.EDQUOT: "The user's share of the disk is used up: free some space; what was published is kept",
    errno.EROFS: "The disk is read-only: make it writable",
    errno.EMFILE: "No more files may be open: raise the limit (ulimit -n)",
}
DAMAGED = "Is the repository damaged? `git fsck` in it says; put back from a copy what it misses"


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
    """Describe an exception in one line: its message, and what to do about a disk or a repository that is at fault.

    libgit2 has no words for what the system told it but the system's own.
    """
    text = f"{type(problem).__name__}: {problem}"
    for number, advice in _OF_THE_SYSTEM.items():
        if os.strerror(number) in text:
            return f"{text}. {advice}"
    return text if isinstance(problem, OSError | ValueError) else f"{text}. {DAMAGED}"
