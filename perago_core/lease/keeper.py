"""Keeping a lease: the lease machine together with the conversations that carry out what it asks for.

Whoever needs the lock acquires, tends it while working, and releases it; what the machine decides in between is its own
business. Pure like every conversation: it yields calls and is sent answers.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from perago_core.answers import Answer
from perago_core.calls import Call, clock
from perago_core.lease import events as e
from perago_core.lease.calls import perform
from perago_core.lease.known import LeaseRequest, LeaseState
from perago_core.lease.outcomes import LeaseEnd, hold, outcome
from perago_core.lease.table import start, step
from perago_core.rows import Command, Event

Talk: TypeAlias = Generator[Call, Answer[Any], bool]


class Keeper:
    """One lock of one execution, from the wish to have it to its end."""

    def __init__(self, request: LeaseRequest) -> None:
        self._state: LeaseState
        self._commands: tuple[Command, ...]
        self._state, self._commands = start(request)

    def acquire(self) -> Talk:
        """Try to get the lock and say whether it is held; if not, ``why`` says why."""
        return (yield from self._settle())

    def tend(self) -> Talk:
        """Renew the lease if that is due and say whether the lock is still held."""
        now = yield from clock()
        return (yield from self._feed(e.Ticked(now)))

    def release(self) -> Talk:
        """Give the lock back and say whether that is certain; a lock that is not held needs no release."""
        if hold(self._state) is None:
            return True
        yield from self._feed(e.ReleaseWanted())
        ended = outcome(self._state)
        return ended is not None and ended.end is LeaseEnd.RELEASED and not ended.reason

    @property
    def held(self) -> e.LeaseHold | None:
        """Give what is held, or ``None``."""
        return hold(self._state)

    @property
    def end(self) -> LeaseEnd | None:
        """Give how it ended, or ``None``."""
        ended = outcome(self._state)
        return None if ended is None else ended.end

    @property
    def why(self) -> str:
        """Say why the lock is not held."""
        ended = outcome(self._state)
        return "the lease is not held" if ended is None or not ended.reason else ended.reason

    def _feed(self, event: Event) -> Talk:
        self._state, self._commands = step(self._state, event)
        return (yield from self._settle())

    def _settle(self) -> Talk:
        """Carry out commands until the machine waits for the next tick or has ended."""
        while self._commands:
            event = yield from perform(self._commands[0], self._state.subject)
            self._state, self._commands = step(self._state, event)
        return hold(self._state) is not None
