"""Why a local workspace cannot be made, read or uploaded."""

from __future__ import annotations

_LONGEST = 120


class WorkspaceError(Exception):
    """Something about the files is wrong; says what was expected, what was found and what to do."""


class TransferUnknownError(Exception):
    """A store did not answer, so nobody knows whether it took what was sent."""


def shown(name: str) -> str:
    """Write a name so that the rest of the sentence is still read: a long one without its middle."""
    whole = repr(name)
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST // 2]}…{whole[-_LONGEST // 2 :]}"
