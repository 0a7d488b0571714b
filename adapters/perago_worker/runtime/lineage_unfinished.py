"""Runs that OpenLineage was told of as begun, written down, so that another worker can say how they ended.

A worker that is killed tells nobody. What it had begun stands in the coordination store: whoever retries the task, and
every worker that starts, looks at what stands, asks the orchestrator what became of it, and tells the end of what is
over. Who takes the record away tells it, so that one does. An attempt that lives on after it was given up tells its end
as well, in the same word.

All of it happens beside the attempts, in one thread, in order; no trouble of it is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from perago_core.answers import Done
from perago_core.ports import Clock, Coordination, Entry, Orchestrator
from perago_core.values import Attempt
from perago_worker.logger import log
from perago_worker.runtime.lineage import closed
from perago_worker.runtime.lineage_sender import LineageSender

BEGUN = "begun/"


@define
class Unfinished:
    """What has begun here and elsewhere. ``_own``: what this worker wrote down, by execution."""

    _coordination: Coordination
    _orchestrator: Orchestrator
    _sender: LineageSender
    _clock: Clock
    _own: dict[str, Entry] = field(factory=dict[str, Entry], init=False)
    _beside: ThreadPoolExecutor = field(
        factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="lineage-unfinished"), init=False
    )

    @contextmanager
    def open(self) -> Generator[Unfinished]:
        """Tell the end of what others have left, and write down what is begun, until this is left."""
        self._later(lambda: self._close(BEGUN))
        try:
            yield self
        finally:
            self._beside.shutdown()

    def began(self, attempt: Attempt, event: Mapping[str, Any]) -> None:
        """Write down that an attempt begins; one that is not the first ends what those before it have left."""
        place = f"{BEGUN}{attempt.logical_task}/"
        about = {"workflow": attempt.workflow_id, "task": attempt.task_id, "execution": attempt.execution}
        entry = Entry(f"{place}{attempt.execution}", json.dumps({**about, "event": event}))
        self._own[attempt.execution] = entry
        self._later(lambda: self._coordination.create_if_absent(entry.key, entry.value))
        if attempt.number > 1:
            self._later(lambda: self._close(place))

    def ended(self, attempt: Attempt) -> None:
        """Take away what was written down: its end was told."""
        entry = self._own.pop(attempt.execution)
        self._later(lambda: self._coordination.swap(entry.key, entry.value, None))

    def _later(self, work: Callable[[], object]) -> None:
        def tried() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  it watches, it does not decide
                log.warning("what has begun could not be looked after for OpenLineage: %s", type(error).__name__)

        self._beside.submit(tried)

    def _close(self, place: str) -> None:
        listed = self._coordination.list(place)
        for entry in listed.value if isinstance(listed, Done) else ():
            found = json.loads(entry.value)
            if found["execution"] in self._own:
                continue
            seen = self._orchestrator.reload(found["workflow"], found["task"])
            if not isinstance(seen, Done) or (seen.value is not None and seen.value.status.is_open):
                continue
            taken = self._coordination.swap(entry.key, entry.value, None)
            if isinstance(taken, Done) and taken.value:
                self._sender.tell(closed(found["event"], found["execution"], seen.value, self._clock.wall()))
