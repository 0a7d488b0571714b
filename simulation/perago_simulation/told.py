"""What an execution is told about a publication, and what it learns when an answer does not arrive."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from perago_core.attempt import commands as c
from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.rows import Command, Event
from perago_core.values import CommitRef
from perago_simulation.effects import EFFECTS


@cache
def published(ref: str) -> Event:
    """The store has moved the target."""
    return e.Published(CommitRef(ref))


@cache
def refused(reason: str) -> Event:
    """The store has said no."""
    return f.PublishRefused(reason)


def _unknown(kind: type[Command]) -> Event:
    (unknown,) = kind.answers.unknown
    event: Event = unknown(("something",)) if kind is c.CleanUp else unknown("no answer")
    return event


_ASKED: tuple[type[Command], ...] = (*EFFECTS, c.Publish)
#: For each command that may go unanswered, what its execution takes the silence for.
LOST: Mapping[type[Command], Event] = {kind: _unknown(kind) for kind in _ASKED if kind.answers.unknown}
