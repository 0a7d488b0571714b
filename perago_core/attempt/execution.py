"""One execution from start to end: the dialogue between the attempt machine and the ports.

Pure: it yields calls and is sent answers. ``driver`` carries them; a simulator may stop between any two.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from attrs import define

from perago_core import ledger
from perago_core.answers import Answer
from perago_core.attempt import failures as f
from perago_core.attempt.calls import PERFORM
from perago_core.attempt.commands import CleanUp
from perago_core.attempt.known import AttemptState, Known
from perago_core.attempt.machine import ATTEMPT, start
from perago_core.attempt.phases import UNDER_LEASE
from perago_core.calls import Call
from perago_core.lease.keeper import Keeper
from perago_core.rows import Event, Fired
from perago_core.values import Attempt, Backing

#: Watches every step: before, event, what fired. It cannot change one; nothing it returns or raises is looked at.
Observer: TypeAlias = Callable[[AttemptState, Event, Fired[Attempt, Known]], object]
#: Asked before each command, and when a body did not answer, for an event from outside.
Interrupts: TypeAlias = Callable[[AttemptState], Event | None]


def _for_ever() -> float:
    return float("inf")


@define
class Execution:
    """One execution on its way: the state, and the two things a state cannot hold, the lease and who is watching."""

    state: AttemptState
    observe: Observer | None
    interrupts: Interrupts | None
    attempt_until: Callable[[], float]
    resumed: bool
    keeper: Keeper | None = None
    intent: ledger.Intent | None = None

    @classmethod
    def of(
        cls,
        attempt: Attempt | AttemptState,
        observe: Observer | None = None,
        interrupts: Interrupts | None = None,
        attempt_until: Callable[[], float] | None = None,
    ) -> Execution:
        """Begin with a fresh attempt, or go on with a stored state."""
        resumed = not isinstance(attempt, Attempt)
        state = start(attempt).state if isinstance(attempt, Attempt) else attempt
        return cls(state, observe, interrupts, attempt_until or _for_ever, resumed)

    @property
    def attempt(self) -> Attempt:
        """Give what was pinned."""
        return self.state.subject

    def dialogue(self) -> Generator[Call, Answer[Any], AttemptState]:
        """Run to the end and give the last state.

        An answer that leaves the machine waiting for the same command was not the answer it waits for (a completion of
        another execution). Nothing is asked twice because of it: the true answer counts as lost.
        """
        if self.resumed and not self._may_ask_again():
            self._advance(self._lost("the process stopped while waiting for this answer"))
        while self.state.pending:
            event = self.interruption()
            if event is None and self._tends_lease():
                event = yield from self._tend()
            # What is lost stays lost, and is told again each time. Where it changes nothing any more, go on.
            if event is not None and self._advance(event).commands:
                continue
            (command,) = self.state.pending
            fired = self._advance((yield from PERFORM[type(command)](self, command)))
            if self.state.pending and not fired.commands:
                self._advance(self._lost("the port answered for another execution"))
        return self.state

    def interruption(self) -> Event | None:
        """Give what came from outside, if anything did."""
        return self.interrupts(self.state) if self.interrupts is not None else None

    def _advance(self, event: Event) -> Fired[Attempt, Known]:
        before = self.state
        fired = ATTEMPT.fire(before, event)
        self.state = fired.state
        if self.observe is not None:
            self.observe(before, event, fired)
        return fired

    def _may_ask_again(self) -> bool:
        return all(command.answers.repeatable for command in self.state.pending)

    def _lost(self, reason: str) -> Event:
        (command,) = self.state.pending
        (unknown,) = command.answers.unknown
        event: Event = unknown(("staging name", "workspace")) if isinstance(command, CleanUp) else unknown(reason)
        return event

    def _tends_lease(self) -> bool:
        """Keep the lease alive until the head is read; between that and the send nothing may come (S-09)."""
        return self.state.phase in UNDER_LEASE and self.attempt.backing is Backing.LOCKED

    def _tend(self) -> Generator[Call, Answer[Any], Event | None]:
        """Give ``LeaseLost`` if the lease is no longer ours."""
        if self.keeper is None:
            return f.LeaseLost("the process that held the lease is gone")
        held = yield from self.keeper.tend()
        return None if held else f.LeaseLost(self.keeper.why)

    def lease_until(self) -> float:
        """Give the lease's local deadline, or no limit where no lease is needed."""
        held = None if self.keeper is None else self.keeper.held
        return float("inf") if held is None else held.until
