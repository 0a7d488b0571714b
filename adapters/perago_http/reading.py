"""Reading an answer as its server documents it. Where it is something else, nobody can tell what has happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from perago_core.answers import Answer, Done, Unknown

T = TypeVar("T")
Json: TypeAlias = Any
#: What reading a document may raise that is of another shape than expected; the last: one that is nested without end.
SURPRISES = (AttributeError, KeyError, TypeError, ValueError, RecursionError)


def read(answer: Answer[Json], reading: Callable[[Json], T], whose: str) -> Answer[T]:
    """Read what was answered; unknown where ``reading`` finds another shape. ``whose``: the server, for people."""
    if not isinstance(answer, Done):
        return answer
    try:
        return Done(reading(answer.value), answer.operations)
    except SURPRISES as surprise:
        found = " ".join(f"{type(surprise).__name__}: {surprise}".split())[:200]
        return Unknown(f"expected an answer as {whose} documents it; found something else: {found}", answer.operations)


def kind_of(headers: Any) -> str:  # noqa: ANN401  any mapping of headers
    """Return the type an answer says it has, without its parameters."""
    return str(headers.get("Content-Type", "")).partition(";")[0].strip().lower()
