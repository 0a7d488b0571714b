"""What a guard is told about the body it is to run, and what it tells when that is over. Both are one line of JSON."""

from __future__ import annotations

import json
from typing import Any, Final

from attrs import asdict, frozen

#: How a stage ends that has written a verdict of failure. Any other code but 0 means that it did not get so far.
REPORTED: Final = 3
#: The exit code of one whose verdict could not be written: the disk is full, for instance.
UNWRITTEN: Final = 4


@frozen
class Spec:
    """One body: which task, on which folder, with which parameters, and within which limits.

    ``workspace`` is ``None`` for a task without one. ``verdict`` is the file in which the body says how it ended.
    ``hidden``: files and folders the body must not see; ``None``: it is not isolated.
    """

    module: str
    task: str
    workspace: str | None
    scratch: str
    verdict: str
    params: str
    deadline: float
    grace: float
    memory_limit: int | None
    output_limit: int
    has_post: bool
    hidden: tuple[str, ...] | None = None


@frozen
class Ended:
    """How a body's processes ended, as its guard saw it.

    ``why`` is set if the guard ended it: the deadline, or the worker's wish. ``stage`` is ``post`` once the body itself
    is over and what it left is being checked.
    """

    stage: str
    code: int | None
    signal: int | None
    why: str | None


def write(message: Spec | Ended) -> bytes:
    """Make a line of it."""
    return json.dumps(asdict(message)).encode("utf-8") + b"\n"


def read_spec(line: bytes) -> Spec:
    """Read a line the worker wrote."""
    return Spec(**_fields(line))


def read_ended(line: bytes) -> Ended:
    """Read a line the guard wrote."""
    return Ended(**_fields(line))


def _fields(line: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found
