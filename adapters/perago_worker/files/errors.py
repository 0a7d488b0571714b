"""Why a local workspace cannot be made, read or uploaded."""

from __future__ import annotations


class WorkspaceError(Exception):
    """Something about the files is wrong; says what was expected, what was found and what to do."""


class TransferUnknownError(Exception):
    """A store did not answer, so nobody knows whether it took what was sent."""
