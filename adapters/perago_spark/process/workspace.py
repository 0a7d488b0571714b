"""``SparkWorkspace``: the workspace port on Spark. The body reads its input commit and writes to staging while it runs.

Translates, and decides nothing. The body's first write makes ``run`` answer that staging is wanted; the core then asks
whether the attempt is still ours, opens the staging name and calls ``resume`` with its sink.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias, assert_never

from attrs import define, field, frozen

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.attempt.messages import BodyDone, BodyEvent, BodyFailed, StagingWanted
from perago_core.errors import one_line
from perago_core.ports import Sink, Source
from perago_core.values import Attempt, CommitRef, Content, Landed, Operation
from perago_spark.api.scope import DatasetScope
from perago_spark.errors import SparkUnavailableError
from perago_spark.format.seal import content_of, discrepancy, tree_digest
from perago_spark.process.messages import (
    BodyFailure,
    CommitsOpened,
    CommitsWanted,
    Ended,
    InputPinned,
    InputSeen,
    Returned,
    RunTask,
    SinkGranted,
    SinkWanted,
    Stop,
)
from perago_spark.process.pool import WarmBodies, WarmBody

#: Called with each line that a body prints.
Listener: TypeAlias = Callable[[Attempt, str], object]
#: Keeps what the first attempt of a task has read of an input from outside, and returns that.
Pin: TypeAlias = Callable[[Attempt, str, str], Answer[str]]
#: Keeps what was staged of folders that did not pass their gates, for people to look at.
Keep: TypeAlias = Callable[[Attempt, tuple[str, ...], str], object]
#: Seconds that a message is waited for, however late it is.
_LEAST: Final = 0.001


class Readable(Protocol):
    """All a workspace needs of a store: reading commits. The sink is passed in by the driver."""

    def read(self, repository: str, ref: CommitRef) -> Source:
        """Open a commit for reading."""
        ...

    def since(
        self, repository: str, base: CommitRef, head: CommitRef, prefixes: tuple[str, ...]
    ) -> Answer[tuple[Landed, ...] | None]:
        """List what lies above a commit up to a head, newest first."""
        ...


@frozen
class SparkTask:
    """A task as the workspace sees it: the prefix it may touch, and how long its body may take.

    ``body`` is passed to the entry function of the process, which alone knows what it means.
    """

    body: str
    prefix: str = ""
    timeout: float = 3600.0
    read_only: bool = False


@define
class _Execution:
    task: SparkTask
    params: str
    body: WarmBody | None = None
    until: float = 0.0
    cancelled: str | None = None
    changed: tuple[str, ...] = ()
    gated: Mapping[str, str] = field(factory=dict[str, str])
    sink: Sink | None = None
    session: str = field(factory=lambda: str(uuid.uuid4()))
    lock: threading.Lock = field(factory=threading.Lock)


class SparkWorkspace:
    """Runs Spark tasks in warm processes. One for all attempts of a worker; threads may share it.

    ``grace``: seconds between interrupting a body's jobs and killing its process. Together they stay below the two
    seconds after which a lost attempt must not write any more.
    """

    def __init__(
        self,
        store: Readable,
        tasks: Mapping[str, SparkTask],
        bodies: WarmBodies,
        *,
        grace: float = 1.0,
        listener: Listener = lambda _attempt, _line: None,
        pin: Pin = lambda _attempt, _path, identity: Done(identity),
        keep: Keep = lambda _attempt, _failed, _reason: None,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._bodies = bodies
        self._grace = grace
        self._listener = listener
        self._pin = pin
        self._keep = keep
        self._executions: dict[str, _Execution] = {}

    def accept(self, attempt: Attempt, task_name: str, params: str) -> None:
        """Register an attempt with its task and parameters, before any other call. Unknown task: ``KeyError``."""
        self._executions[attempt.execution] = _Execution(self._tasks[task_name], params)

    def prepare(self, attempt: Attempt) -> Answer[None]:
        """Nothing is fetched: a body reads what it wants of the commit, when it wants it."""
        if attempt.execution not in self._executions:
            return NotDone(f"execution {attempt.execution} was never accepted here")
        return Done(None, operations=0)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Run the body to its end, or until it wants to write."""
        execution = self._executions.get(attempt.execution)
        if execution is None:
            return Unknown(f"execution {attempt.execution} was never accepted here")
        if execution.cancelled is not None:
            return Done(BodyFailed(attempt.execution, f"the body was not started: {execution.cancelled}"))
        try:
            body = self._bodies.take()
        except (SparkUnavailableError, OSError) as error:
            return Done(BodyFailed(attempt.execution, one_line(str(error))))
        body.listen(lambda line: self._listener(attempt, line))
        execution.until = time.monotonic() + execution.task.timeout
        source = self._store.read(attempt.target.repository, attempt.input)
        read_only = attempt.read_only or execution.task.read_only
        maintenance = attempt.operation is Operation.MAINTENANCE
        scope = DatasetScope(
            attempt.execution,
            source,
            execution.task.prefix,
            read_only,
            maintenance,
            attempt.input,
            attempt.scope,
        )
        body.send(RunTask(execution.task.body, execution.params, scope, execution.session))
        self._follow(execution, body)
        return self._wait(attempt, execution, body)

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:
        """Send the sink to a body that waits for it, and run it on."""
        execution = self._executions.get(attempt.execution)
        if execution is None or execution.body is None:
            return Unknown(f"no body of execution {attempt.execution} waits here")
        execution.sink = sink
        execution.body.send(SinkGranted(sink))
        return self._wait(attempt, execution, execution.body)

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        """Nothing is left to upload; see that staging holds what was sealed, no file more and none less."""
        execution = self._executions.get(attempt.execution)
        if execution is None or not execution.changed:
            return NotDone(f"nothing of execution {attempt.execution} was written here")
        for folder in execution.changed:
            listed = sink.list(folder)
            if not isinstance(listed, Done):
                return NotDone(f"{folder!r} cannot be listed: {listed.reason}")
            problem = discrepancy(listed.value)
            if problem is not None:
                return NotDone(f"expected the files that the seals of {folder!r} name; found {problem}")
            if folder in execution.gated and tree_digest(listed.value) != execution.gated[folder]:
                return NotDone(
                    f"expected {folder!r} as its gates saw it; found it changed since. Nothing was published"
                )
        return Done(None, operations=len(execution.changed))

    def remove(self, attempt: Attempt) -> Answer[None]:
        """End a body that still waits, and forget the execution."""
        execution = self._executions.pop(attempt.execution, None)
        if execution is not None and execution.body is not None:
            self._bodies.discard(execution.body)
            self._bodies.end_jobs(execution.session)
        return Done(None)

    def cancel(self, attempt: Attempt, reason: str) -> None:
        """Stop the body of an attempt that is no longer ours: interrupted at once, killed after its grace."""
        execution = self._executions.get(attempt.execution)
        if execution is not None:
            self._stop(execution, reason)

    def cancel_all(self, reason: str) -> None:
        """Stop every body that runs here."""
        for execution in tuple(self._executions.values()):
            self._stop(execution, reason)

    def sweep(self) -> tuple[str, ...]:
        """Remove the scratch folders that dead processes have left."""
        return self._bodies.sweep()

    def _follow(self, execution: _Execution, body: WarmBody) -> None:
        """Let a cancellation reach the body: one that comes from now on, and one that came while it was started."""
        with execution.lock:
            execution.body = body
            if execution.cancelled is not None:
                self._end_soon(body, execution.cancelled)

    def _stop(self, execution: _Execution, reason: str) -> None:
        with execution.lock:
            if execution.cancelled is None:
                execution.cancelled = reason
                if execution.body is not None:
                    self._end_soon(execution.body, reason)

    def _end_soon(self, body: WarmBody, reason: str) -> None:
        body.send(Stop(reason))
        # Killed in any case: who was interrupted is not used again, and a body may catch what interrupts it.
        timer = threading.Timer(self._grace, body.kill)
        timer.daemon = True
        timer.start()

    def _wait(self, attempt: Attempt, execution: _Execution, body: WarmBody) -> Answer[BodyEvent]:
        try:
            # Not zero: a socket that waits for nothing says it would block, as if nobody were there.
            report = body.receive(max(_LEAST, execution.until - time.monotonic()))
        except TimeoutError:
            self._let_go(execution, body, keep=False)
            limit = f"{execution.task.timeout:g} s"
            return Done(BodyFailed(attempt.execution, f"the body ran longer than {limit} and was ended"))
        match report:
            case SinkWanted() if execution.cancelled is None:
                return Done(StagingWanted(attempt.execution))
            case InputSeen(path, identity) if execution.cancelled is None:
                pinned = self._pin(attempt, path, identity)
                answer = InputPinned(pinned.value) if isinstance(pinned, Done) else InputPinned("", pinned.reason)
                body.send(answer)
                return self._wait(attempt, execution, body)
            case CommitsWanted() as wanted if execution.cancelled is None:
                body.send(self._opened(attempt, wanted))
                return self._wait(attempt, execution, body)
            case Ended(ending, changed, spent, gated, failed) if execution.cancelled is None:
                execution.changed, execution.gated = changed, gated
                if failed and isinstance(ending, BodyFailure):
                    self._keep(attempt, failed, ending.reason)
                if spent is not None:
                    self._listener(attempt, f"another process takes the next task: {spent}")
                self._let_go(execution, body, keep=spent is None)
                return Done(_event(attempt, ending, changed=bool(changed), content=self._compared(attempt, execution)))
            case _:
                self._let_go(execution, body, keep=False)
        if execution.cancelled is not None:
            return Done(BodyFailed(attempt.execution, one_line(f"the body was stopped: {execution.cancelled}")))
        return Unknown("the process of the body is gone, or sent a malformed message")

    def _opened(self, attempt: Attempt, wanted: CommitsWanted) -> CommitsOpened:
        """Open an earlier commit of the branch, or all above it up to the input, for a stream."""
        repository, base = attempt.target.repository, CommitRef(wanted.base)
        if not wanted.folder:
            return CommitsOpened(((wanted.base, self._store.read(repository, base)),))
        found = self._store.since(repository, base, attempt.input, (wanted.folder,))
        if not isinstance(found, Done):
            return CommitsOpened((), found.reason)
        if found.value is None:
            return CommitsOpened((), "one that is not below it, or too far")
        refs = [each.commit.ref for each in reversed(found.value)]
        return CommitsOpened(tuple((ref, self._store.read(repository, ref)) for ref in refs))

    def _compared(self, attempt: Attempt, execution: _Execution) -> Content | None:
        """Compare the rows of what maintenance has changed with those that were there; ``None``: that cannot be done.

        By this process, from what the store lists: what the body says of itself is not asked for.
        """
        if attempt.operation is not Operation.MAINTENANCE or execution.sink is None:
            return None
        source = self._store.read(attempt.target.repository, attempt.input)
        found: list[list[str]] = []
        for place in (source, execution.sink):
            listings = [place.list(folder) for folder in execution.changed]
            digests = [content_of(each.value) for each in listings if isinstance(each, Done)]
            found.append([each for each in digests if each is not None])
        before, after = found
        if not len(before) == len(after) == len(execution.changed) > 0:
            return None
        return Content(" ".join(before), " ".join(after))

    def _let_go(self, execution: _Execution, body: WarmBody, *, keep: bool) -> None:
        with execution.lock:
            execution.body = None
            keep = keep and execution.cancelled is None
        if keep:
            self._bodies.give_back(body)
        else:
            self._bodies.discard(body)
            self._bodies.end_jobs(execution.session)


def _event(attempt: Attempt, ending: Returned | BodyFailure, *, changed: bool, content: Content | None) -> BodyEvent:
    match ending:
        case Returned(output):
            return BodyDone(attempt.execution, changed=changed, output=output, content=content)
        case BodyFailure(reason, terminal):
            return BodyFailed(attempt.execution, one_line(reason), terminal=terminal)
        case _:
            assert_never(ending)
