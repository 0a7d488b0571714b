"""How a body failed, for people: the line of the task's own module first, then the error, then all there is to know.

A traceback ends with the error and begins far from it, in code of this worker; where Spark has raised, a page of Java
stands in between. Whoever wrote the task looks for one line of their own.
"""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from perago_worker.api.errors import said


def account(error: BaseException, function: Callable[..., Any]) -> str:
    """Write down an error: the author's line, what was raised, and the whole traceback."""
    own = next((place for each in _chain(error) if (place := _own_line(each.__traceback__, function))), "")
    whole = "".join(traceback.format_exception(error)).rstrip()
    return f"{own}{said(error)}\n\n{whole}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those it was raised because of, each once."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


def _own_line(trace: TracebackType | None, function: Callable[..., Any]) -> str:
    """Return the deepest place of a traceback that is in the task's own file; empty if there is none."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    found = ""
    while trace is not None:
        here = trace.tb_frame.f_code
        if code is not None and here.co_filename == code.co_filename:
            line = linecache.getline(here.co_filename, trace.tb_lineno).strip()
            found = f"{Path(here.co_filename).name}, line {trace.tb_lineno}, in {here.co_name}: {line}\n"
        trace = trace.tb_next
    return found
