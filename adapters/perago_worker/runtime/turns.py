"""Turns of the attempts of one worker that publish to one shared branch."""

from __future__ import annotations

import threading

from attrs import define, field

from perago_core.values import Target


@define
class ProcessTurns:
    """One turn for each target; whoever tries next when it is free has it."""

    _taken: set[Target] = field(factory=set[Target], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def take(self, target: Target) -> bool:
        """Take the turn if nobody has it, and say so; waits for nobody."""
        with self._lock:
            free = target not in self._taken
            self._taken.add(target)
            return free

    def give_back(self, target: Target) -> None:
        """Leave the turn to the next one."""
        with self._lock:
            self._taken.discard(target)
