"""How a body ended in its own words: a file that appears complete or not at all.

Not a pipe, because a result may be megabytes long, and whatever the body has forked holds the other end of its pipes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

from attrs import asdict, frozen


@frozen
class Succeeded:
    """The body returned this, as JSON, and the checks passed."""

    output: str


@frozen
class Failed:
    """A check, the input or the body failed. ``terminal``: trying again cannot help."""

    reason: str
    terminal: bool = False


Verdict: TypeAlias = Succeeded | Failed


def write(verdict: Verdict, place: Path) -> None:
    """Write it, replacing what an earlier stage has written."""
    half = place.with_suffix(".half")
    half.write_text(json.dumps(asdict(verdict)), "utf-8")
    half.replace(place)


def read(place: Path) -> Verdict | None:
    """Read it; ``None`` if there is none, or none that can be read."""
    try:
        found: Any = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    match found:
        case {"output": str(output)}:
            return Succeeded(output)
        case {"reason": str(reason), "terminal": bool(terminal)}:
            return Failed(reason, terminal=terminal)
        case _:
            return None
