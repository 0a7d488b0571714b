"""``LocalWorkspace``: the workspace port on local folders, with bodies in processes of their own.

Translates, and decides nothing: what a body's end means for the attempt is the core's business. A call that fails has
changed nothing outside this machine, except an upload whose answer is missing, and that one is ``Unknown``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias, assert_never

from attrs import frozen

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.attempt.messages import BodyEvent, BodyFailed
from perago_core.errors import one_line
from perago_core.ports import Sink, Source
from perago_core.values import Attempt, CommitRef
from perago_worker.api.task import TaskDefinition
from perago_worker.api.task import Workspace as Declared
from perago_worker.bodies.notes import Changed, Logged, Note, Transferred
from perago_worker.bodies.pool import Bodies, TemplateError
from perago_worker.bodies.process import Lost, as_text
from perago_worker.bodies.spec import Spec
from perago_worker.bodies.verdict import BodyFailure, Succeeded
from perago_worker.folders.cache import Cache
from perago_worker.folders.errors import TransferUnknownError, WorkspaceError
from perago_worker.folders.folder import Folder, Origin
from perago_worker.folders.jobs import Job
from perago_worker.folders.sandboxes import Sandbox, Sandboxes
from perago_worker.folders.several import MARK, Folders, SeveralSource, mark
from perago_worker.folders.transfer_progress import Moved, MovedListener, paced
from perago_worker.folders.tree import keeps_change_times

#: Told of everything a body says while it runs.
NoteListener: TypeAlias = Callable[[Attempt, Note], object]

_LOG = logging.getLogger("perago.task")
_MEGABYTE = 1 << 20


def to_log(attempt: Attempt, note: Note) -> None:
    """Write a note to the worker's own log."""
    level = note.level if isinstance(note, Logged) else logging.INFO
    _LOG.log(level, "%s: %s", attempt.task_id, as_text(note))


class Readable(Protocol):
    """All a workspace needs of a store: somebody to read commits. It is given its sink by whoever drives it."""

    def read(self, repository: str, ref: CommitRef) -> Source:
        """Return the reader of an immutable commit."""
        ...


@frozen
class Limits:
    """How much of the machine an attempt may take.

    ``output``: bytes of a result, the same under every orchestrator, so that a project can move. Conductor shows
    nothing of more than 3 MiB with all that is around it, so that nobody could read back whose result was taken, and
    fails a task for good, after it was published, beyond 10. ``grace``: seconds between asking a body to stop and
    killing it. ``transfers``: objects under way at once.
    """

    output: int = 3 * _MEGABYTE - (1 << 16)
    grace: float = 5.0
    transfers: int = 8


class LocalWorkspace:
    """Runs tasks on folders below ``root``. One for all attempts of a worker; threads may share it."""

    def __init__(
        self,
        store: Readable,
        tasks: Mapping[str, TaskDefinition],
        bodies: Bodies,
        root: Path,
        cache: Cache,
        *,
        limits: Limits | None = None,
        listener: NoteListener = to_log,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._bodies = bodies
        self._sandboxes = Sandboxes(root)
        self._cache = cache
        self._limits = limits or Limits()
        self._listener = listener
        self._jobs: dict[str, Job] = {}
        self._trusts_times = keeps_change_times(root)

    def accept(self, attempt: Attempt, task_name: str, params: str) -> None:
        """Take note of what an attempt is about; the other calls need it. Raises ``KeyError`` for an unknown task."""
        self._jobs[attempt.execution] = Job(self._tasks[task_name], params)

    def prepare(self, attempt: Attempt) -> Answer[None]:
        """Fetch the input into a folder of its own."""
        job = self._jobs.get(attempt.execution)
        if job is None:
            return NotDone(f"execution {attempt.execution} was never accepted here")
        try:
            job.sandbox = self._sandboxes.enter(attempt.staging_name)
            if job.definition.workspace is not None:
                origin = Origin(
                    source=self._source(job, job.definition.workspace, attempt),
                    repository=attempt.target.repository,
                    ref=attempt.input,
                    prefix=job.definition.workspace.prefix,
                    read_only=job.is_read_only(attempt),
                    shown=job.definition.workspace.shown,
                )
                job.folder = Folder.make(
                    job.sandbox,
                    origin,
                    self._cache,
                    width=self._limits.transfers,
                    trusts_times=self._trusts_times,
                    moved=self._watching(attempt, job, "fetched"),
                )
                for folder in job.further.of_target.values():
                    (job.sandbox.work / folder).mkdir(exist_ok=True)  # also of a branch that is still empty
        except (WorkspaceError, OSError) as error:
            return NotDone(one_line(str(error)))
        return Done(None, operations=1 if job.folder is None else 1 + job.folder.fetched)

    def _source(self, job: Job, workspace: Declared, attempt: Attempt) -> Source:
        first = self._store.read(attempt.target.repository, attempt.input)
        if not attempt.beside:
            return first
        named = tuple(zip(workspace.targets, attempt.beside, strict=True))
        job.further = Folders({each.target: f"{name}/" for name, each in named})
        sources = {
            f"{workspace.prefix}{name}/": self._store.read(each.target.repository, each.input) for name, each in named
        }
        return SeveralSource(first, sources)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Run checks and body to the end, and compare."""
        job = self._jobs.get(attempt.execution)
        if job is None or job.sandbox is None:
            return Unknown(f"execution {attempt.execution} was never prepared here")
        if job.cancelled is not None:
            return Done(BodyFailed(attempt.execution, f"the body was not started: {job.cancelled}"))
        try:
            running = self._bodies.start(self._spec(job, job.sandbox))
        except TemplateError as error:
            return Done(BodyFailed(attempt.execution, one_line(str(error))))
        job.follow(running)
        end = running.wait(lambda note: self._listener(attempt, note))
        match end:
            case Succeeded(output):
                return Done(job.compare(attempt, output))
            case BodyFailure(reason, terminal):
                return Done(BodyFailed(attempt.execution, one_line(reason), terminal=terminal))
            case Lost(reason):
                return Unknown(reason)
            case _:
                assert_never(end)

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:
        """Refuse: a body on local files never asks for staging while it runs."""
        del sink
        return NotDone(f"the body of {attempt.execution} did not ask for staging")

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        """Write what the body changed through the sink: of several targets, that of the attempt's own."""
        job = self._jobs.get(attempt.execution)
        if job is None or job.folder is None or job.changes is None:
            return NotDone(f"nothing of execution {attempt.execution} is here to upload")
        moved = self._watching(attempt, job, "staged")
        changes = job.further.changes_for(attempt.target, job.changes)
        below = job.further.of_target.get(attempt.target)
        try:
            sent = job.folder.upload(changes, sink, width=self._limits.transfers, moved=moved, below=below)
            self._listener(attempt, Changed(logging.INFO, "perago", job.folder.in_words(changes)))
            if attempt.beside:
                sealed = sink.seal(f"{job.folder.origin.prefix}{MARK}", mark(attempt))
                return sealed if not isinstance(sealed, Done) else Done(None, operations=sent + sealed.operations)
            return Done(None, operations=sent)
        except TransferUnknownError as error:
            return Unknown(one_line(str(error)))
        except (WorkspaceError, OSError) as error:
            return NotDone(one_line(str(error)))

    def remove(self, attempt: Attempt) -> Answer[None]:
        """Remove the folder, also of an execution this process knows nothing about (P-25)."""
        self.cancel(attempt, "its workspace is being removed")
        self._jobs.pop(attempt.execution, None)
        try:
            self._sandboxes.leave(attempt.staging_name)
        except (WorkspaceError, OSError) as error:
            return NotDone(one_line(str(error)))
        return Done(None)

    def cancel(self, attempt: Attempt, reason: str) -> None:
        """End the body of an attempt that is no longer ours: asked at once, killed after its grace. Does not wait."""
        job = self._jobs.get(attempt.execution)
        if job is not None:
            job.stop(reason)

    def cancel_all(self, reason: str) -> None:
        """End every body that runs here."""
        for job in tuple(self._jobs.values()):
            job.stop(reason)

    def sweep(self) -> tuple[str, ...]:
        """Remove what processes that died have left; give the names of the sandboxes."""
        return self._sandboxes.sweep()

    def _watching(self, attempt: Attempt, job: Job, what: str) -> MovedListener:
        """Tell how far a transfer is, and end it once the attempt is no longer ours.

        Counterexample, seen: a body left a file of a tebibyte of nothing, and no stop reached the worker that read it.
        """

        def tell(moved: Moved) -> None:
            text = f"{what} {moved.files:,} of {moved.of_files:,} files"
            self._listener(attempt, Transferred(moved.fraction, text))

        told = paced(tell)

        def watch(moved: Moved) -> None:
            if job.cancelled is not None:
                raise WorkspaceError(
                    f"{what} {moved.files:,} of {moved.of_files:,} files, and was stopped: {job.cancelled}"
                )
            told(moved)

        return watch

    def _spec(self, job: Job, sandbox: Sandbox) -> Spec:
        definition = job.definition
        return Spec(
            module=definition.module,
            task=definition.name,
            workspace=None if definition.workspace is None else str(sandbox.work),
            scratch=str(sandbox.scratch),
            verdict=str(sandbox.verdict),
            params=job.params,
            deadline=definition.timeout,
            grace=self._limits.grace,
            memory_limit=definition.memory_limit,
            output_limit=self._limits.output,
            has_post=definition.workspace is not None and bool(definition.workspace.post),
        )
