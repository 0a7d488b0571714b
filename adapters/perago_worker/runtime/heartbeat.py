"""The heartbeat of one attempt: read the task, compare, extend. The only way to learn that an attempt is lost.

A heartbeat's own answer never tells of loss (an orchestrator answers success for anybody), so every beat begins with a
read. The deadline counts from the *send* time of the last good beat: the orchestrator's clock started no earlier. A
deadline that has passed stays passed: a beat of a worker that slept too long may look fine only because nobody has
looked for the worker yet, so nothing is published then. An attempt that could only have published is lost by it: its
body is stopped, instead of running to its end for nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from perago_core.answers import Done
from perago_core.attempt.messages import AttemptLost
from perago_core.attempt.state import is_current
from perago_core.ports import Clock, Orchestrator
from perago_core.values import Attempt, Backing
from perago_worker.logger import log


class Heartbeat:
    """Beats in a thread of its own from ``start`` to ``stop``; after ``stop`` returns no beat is on its way.

    A beat that overlaps the result can undo it (on Conductor in 9 of 60 runs), so it is drained before reporting.
    """

    def __init__(
        self,
        attempt: Attempt,
        orchestrator: Orchestrator,
        clock: Clock,
        *,
        interval: float,
        patience: float,
        since: float,
        on_loss: Callable[[str], object],
    ) -> None:
        self._attempt = attempt
        self._orchestrator = orchestrator
        self._clock = clock
        self._interval = interval
        self._patience = patience
        self._on_loss = on_loss
        self._until = since + patience
        self._stopping = threading.Event()
        self._lost: str | None = None
        self._thread = threading.Thread(target=self._beat_on, name=f"heartbeat {attempt.task_id}", daemon=True)

    def start(self) -> None:
        """Begin. The poll that handed the attempt out counts as the first good beat, from when it was sent.

        Counted from now, a worker that was paused on its way here would believe in time it does not have.
        """
        self._thread.start()

    def stop(self) -> None:
        """Send no more beats and wait for the one that is on its way."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def until(self) -> float:
        """Return the second of the clock after which the orchestrator may have given the attempt to somebody else."""
        return self._until

    def loss(self) -> AttemptLost | None:
        """Say that the attempt is lost, if a beat found it so, or the time for one is over."""
        return None if self._lost is None else AttemptLost(self._lost)

    def _beat_on(self) -> None:
        while not self._stopping.wait(self._interval):
            self.beat()
            if self._lost is not None:
                return

    def beat(self) -> None:
        """Read, compare, extend, once. A read or a beat without an answer changes nothing: time runs on."""
        try:
            self._beat()
        except Exception as error:  # noqa: BLE001  as in the driver: whatever is raised, it is a missing answer
            # Else the first hiccup would silence the heart for good, and a body that is fine would be given up.
            log.warning("a heartbeat of %s had no answer: %s: %s", self._attempt.task_id, type(error).__name__, error)

    def _beat(self) -> None:
        sent = self._clock.now()
        read = self._orchestrator.reload(self._attempt.workflow_id, self._attempt.task_id)
        if isinstance(read, Done) and not is_current(self._attempt, read.value):
            found = "gone" if read.value is None else f"{read.value.status.value} of worker {read.value.worker_id!r}"
            self._lose(f"the task is {found}; it was IN_PROGRESS of worker {self._attempt.worker_id!r}")
        elif sent > self._until:
            self._too_late(sent)
        elif isinstance(read, Done) and not self._stopping.is_set() and self._extends():
            self._until = sent + self._patience

    def _extends(self) -> bool:
        return isinstance(self._orchestrator.extend(self._attempt), Done)

    def _too_late(self, now: float) -> None:
        """Return an attempt up that may not publish any more; ``soft`` knows no such deadline, and who reads none."""
        if self._attempt.read_only or self._attempt.backing is Backing.SOFT:
            return
        self._lose(
            f"its deadline passed {now - self._until:.1f} s ago: for {self._patience:g} s no heartbeat was answered, "
            "and the orchestrator may have given it to another worker"
        )

    def _lose(self, why: str) -> None:
        self._lost = why
        self._on_loss(why)
