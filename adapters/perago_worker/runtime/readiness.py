"""Whether what an attempt needs to publish answers: a worker for which it does not takes no task.

An attempt asks the coordination store and the data store for the first time when its body is done. So a worker that is
cut off them would take task after task, run each body to its end and throw it away, and use up everybody's retries,
with a healthy worker beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define

from perago_core.answers import Answer, Unknown
from perago_core.ports import Clock
from perago_core.values import Target
from perago_worker.stack import Stack

#: Seconds for which an answer of each system stands. One look at a data store is several requests.
COORDINATION_ANSWER = 1.0
STORE_ANSWER = 5.0
#: A key that nobody writes.
_NOTHING = "ready"


@define
class _System:
    """Something that must answer: what it is asked, and until when its last answer stands."""

    name: str
    ask: Callable[[], Answer[Any]]
    stands: float
    until: float = float("-inf")


class Readiness:
    """Looks whether the systems behind a worker answer, before each poll and no oftener than needed."""

    def __init__(self, stack: Stack, targets: Iterable[Target]) -> None:
        self._clock: Clock = stack.clock
        self._systems: list[_System] = []
        coordination, store = stack.coordination, stack.store
        if coordination is not None:
            self._systems.append(
                _System("the coordination store", lambda: coordination.get(_NOTHING), COORDINATION_ANSWER)
            )
        target = next(iter(targets), None)
        if target is not None:
            self._systems.append(_System("the data store", lambda: store.head(target), STORE_ANSWER))

    def trouble(self) -> str | None:
        """Return which system does not answer; ``None`` when all do. A refusal is an answer."""
        for system in self._systems:
            if self._clock.now() < system.until:
                continue
            unanswered = self._unanswered(system)
            if unanswered is not None:
                return f"{system.name} does not answer: {unanswered}"
            system.until = self._clock.now() + system.stands
        return None

    def _unanswered(self, system: _System) -> str | None:
        try:
            answer = system.ask()
        except Exception as error:  # noqa: BLE001  as in the driver: whatever is raised, it is a missing answer
            return f"{type(error).__name__}: {error}"
        return answer.reason if isinstance(answer, Unknown) else None
