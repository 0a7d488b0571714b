"""What bodies and the runtime say about a task: to the orchestrator's task log, to our log, and as progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from perago_core.ports import ManagedOrchestrator
from perago_core.values import Attempt
from perago_worker.bodies.notes import Note, Progressed, Transferred
from perago_worker.bodies.process import as_text
from perago_worker.folders.workspace import NoteListener, to_log
from perago_worker.logger import log

#: Appends a line to the log that the orchestrator keeps of a task.
Tell: TypeAlias = Callable[[str, str], object]
#: How many tasks' progress is kept: a worker may run for months.
_REMEMBERED = 1000


def task_log(orchestrator: ManagedOrchestrator) -> Tell:
    """Write to the orchestrator's task log. A log that fails is a log line, never a failed task."""

    def tell(task_id: str, line: str) -> None:
        try:
            orchestrator.log(task_id, line)
        except Exception as error:  # noqa: BLE001  whatever a log's trouble is, it is not the task's
            log.warning("the task log of %s was not written: %s", task_id, error)

    return tell


def note_listener(
    tell: Tell, progress: dict[str, Progressed], hear: NoteListener = to_log
) -> Callable[[Attempt, Note], object]:
    """Make what listens to bodies: it passes on what they say and keeps the newest progress of each task.

    ``hear``: where it goes beside the orchestrator's task log; the worker's own log, if nothing else is said.
    """

    def listen(attempt: Attempt, note: Note) -> None:
        if isinstance(note, Progressed):
            progress.pop(attempt.task_id, None)
            progress[attempt.task_id] = note
            if len(progress) > _REMEMBERED:
                progress.pop(next(iter(progress)), None)
        if isinstance(note, Transferred):
            return
        hear(attempt, note)
        tell(attempt.task_id, as_text(note))

    return listen
