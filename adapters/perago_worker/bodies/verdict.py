"""How a body ended in its own words: a file that appears complete or not at all.

Not a pipe, because a result may be megabytes long, and whatever the body has forked holds the other end of its pipes.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, TypeAlias

from attrs import asdict, frozen

#: Bytes beside the output: the names of the fields, and a reason, which is one line.
_ROOM = 1 << 16


@frozen
class Succeeded:
    """The body returned this, as JSON, and the checks passed."""

    output: str


@frozen
class BodyFailure:
    """A check, the input or the body failed. ``terminal``: trying again cannot help."""

    reason: str
    terminal: bool = False


Verdict: TypeAlias = Succeeded | BodyFailure


def write(verdict: Verdict, place: Path) -> None:
    """Write it, replacing what an earlier stage has written."""
    half = place.with_suffix(".half")
    half.write_text(json.dumps(asdict(verdict)), "utf-8")
    half.replace(place)


def read(place: Path, output_limit: int) -> Verdict | None:
    """Read it; ``None`` if there is none, or none that can be read.

    The file is in reach of the body, so it is a guest's word: a plain file of a bounded length, or none. What it says
    is for ``objection_to``. Counterexamples, seen: a FIFO in its place blocked the worker for ever, a link to a device
    without an end ate its memory, and a result of 20 MiB was published first and refused afterwards.
    """
    text = _bounded(place, 6 * output_limit + _ROOM)  # JSON may write a character of the output as six
    try:
        found: Any = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
    match found:
        case {"output": str(output)}:
            return Succeeded(output)
        case {"reason": str(reason), "terminal": bool(terminal)}:
            return BodyFailure(reason, terminal=terminal)
        case _:
            return None


def objection_to(output: str, limit: int) -> str | None:
    """Say why no orchestrator could take a result, whatever its type; ``None`` if one can.

    Asked in the body, and again of the verdict in the worker: a body may have written that by itself.
    """
    size = len(output.encode("utf-8", "surrogatepass"))
    if size > limit:
        return (
            f"expected a result of at most {limit} bytes; found {size}. "
            "Write large data into the workspace and return where it is"
        )
    try:
        json.loads(output, parse_constant=_refuse)
        output.encode("utf-8")
    except (ValueError, RecursionError) as error:
        return (
            f"expected a result that can be written as JSON and read again; found {type(error).__name__}: {error}. "
            "Return finite numbers of ordinary length, nested less deeply; write the rest as text"
        )
    return None


def _refuse(constant: str) -> None:
    message = f"{constant} is no number in JSON"
    raise ValueError(message)


def _bounded(place: Path, most: int) -> str | None:
    try:
        file = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(file, "rb") as opened:  # noqa: PTH123  of a descriptor
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        data = opened.read(most + 1)
    try:
        return None if len(data) > most else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
