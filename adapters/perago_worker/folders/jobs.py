"""What a worker knows of one execution while it has it: the task, its place, its body, and what the body changed."""

from __future__ import annotations

import threading

from attrs import define, field

from perago_core.attempt.messages import BodyDone, BodyEvent, BodyFailed
from perago_core.errors import one_line
from perago_core.values import Attempt
from perago_worker.api.task import TaskDefinition
from perago_worker.bodies.process import Running
from perago_worker.folders.errors import WorkspaceError, shown
from perago_worker.folders.folder import Folder
from perago_worker.folders.sandboxes import Sandbox
from perago_worker.folders.several import Folders
from perago_worker.folders.tree import Changes

#: Changed files that are named where none should be.
_NAMED = 3


@define
class Job:
    """One execution. One thread drives it; another may stop it."""

    definition: TaskDefinition
    params: str
    sandbox: Sandbox | None = None
    folder: Folder | None = None
    changes: Changes | None = None
    running: Running | None = None
    cancelled: str | None = None
    further: Folders = field(factory=lambda: Folders({}))
    _lock: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    def is_read_only(self, attempt: Attempt) -> bool:
        """Return whether the workspace must be afterwards what it was."""
        return attempt.read_only or self.definition.read_only

    def follow(self, running: Running) -> None:
        """Let a cancellation reach the body: one that comes from now on, and one that came while it was started."""
        with self._lock:
            self.running = running
            if self.cancelled is not None:
                running.stop(self.cancelled)

    def stop(self, reason: str) -> None:
        """Have the body ended, or never started."""
        with self._lock:
            self.cancelled = reason
            if self.running is not None:
                self.running.stop(reason)

    def compare(self, attempt: Attempt, output: str) -> BodyEvent:
        """Look at what the body left. What cannot be published as it is fails here, before anything is staged."""
        if self.folder is None:
            return BodyDone(attempt.execution, changed=False, output=output)
        try:
            self.changes = self.folder.changes()
        except (WorkspaceError, OSError) as error:
            return BodyFailed(attempt.execution, one_line(str(error)))
        if self.changes and self.is_read_only(attempt):
            named = ", ".join(shown(name) for name in (*self.changes.written, *self.changes.deleted)[:_NAMED])
            return BodyFailed(
                attempt.execution,
                one_line(
                    f"expected a read-only workspace to stay as it was; found changes in {named}. "
                    "Write to a temporary folder, or declare the workspace writable"
                ),
            )
        outside = self._undeclared(self.changes)
        if outside:
            named = ", ".join(shown(name) for name in outside[:_NAMED])
            return BodyFailed(
                attempt.execution,
                one_line(
                    f"expected changes in what the task declares to write; found changes in {named}. "
                    "Declare the folder under `writes`, or write to a temporary one"
                ),
            )
        return BodyDone(attempt.execution, changed=bool(self.changes), output=output)

    def _undeclared(self, changes: Changes) -> list[str]:
        """Name what was changed and is not declared to be written; a directory marker counts like what is in it."""
        workspace = self.definition.workspace
        if workspace is None or workspace.scope is None:
            return []
        paths = (f"{workspace.prefix}{name}" for name in (*changes.written, *changes.deleted))
        return [path for path in paths if not workspace.scope.allows(path)]
