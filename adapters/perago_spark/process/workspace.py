"""``SparkWorkspace``: the workspace port on Spark. The body reads its input commit and writes to staging while it runs.

Translates, and decides nothing. The body's first write makes ``run`` answer that staging is wanted; the core then asks
whether the attempt is still ours, opens the staging name and calls ``resume`` with its sink.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias, assert_never

from attrs import define, field, frozen

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.attempt.messages import BodyDone, BodyEvent, BodyFailed, StagingWanted
from perago_core.ports import Sink, Source
from perago_core.values import Attempt, CommitRef, Operation
from perago_spark.api.datasets import Assignment
from perago_spark.errors import SparkUnavailableError, one_line
from perago_spark.format.seal import discrepancy
from perago_spark.process.messages import Ended, Failed, Granted, Job, Returned, Stop, Wanted
from perago_spark.process.pool import WarmBodies, WarmBody

#: Told of each line a body writes.
Listener: TypeAlias = Callable[[Attempt, str], object]
#: Seconds a body is listened to, however late it is.
_LEAST: Final = 0.001


class Readable(Protocol):
    """All a workspace needs of a store: somebody to read commits. It is given its sink by whoever drives it."""

    def read(self, repository: str, ref: CommitRef) -> Source:
        """Give the reader of an immutable commit."""
        ...


@frozen
class SparkTask:
    """What the workspace needs to know of a task: its part of the branch, and how long its body may take.

    ``body`` is what the process is told to run; what it means is between the worker and its own entry.
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
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._bodies = bodies
        self._grace = grace
        self._listener = listener
        self._executions: dict[str, _Execution] = {}

    def accept(self, attempt: Attempt, task_name: str, params: str) -> None:
        """Take note of what an attempt is about; the other calls need it. Raises ``KeyError`` for an unknown task."""
        self._executions[attempt.execution] = _Execution(self._tasks[task_name], params)

    def prepare(self, attempt: Attempt) -> Answer[None]:
        """Nothing is fetched: a body reads what it wants of the commit, when it wants it."""
        if attempt.execution not in self._executions:
            return NotDone(f"execution {attempt.execution} was never accepted here")
        return Done(None, operations=0)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Run the body to its end, or until it wants to write."""
        mine = self._executions.get(attempt.execution)
        if mine is None:
            return Unknown(f"execution {attempt.execution} was never accepted here")
        if mine.cancelled is not None:
            return Done(BodyFailed(attempt.execution, f"the body was not started: {mine.cancelled}"))
        try:
            body = self._bodies.take()
        except (SparkUnavailableError, OSError) as error:
            return Done(BodyFailed(attempt.execution, one_line(str(error))))
        body.listen(lambda line: self._listener(attempt, line))
        mine.until = time.monotonic() + mine.task.timeout
        source = self._store.read(attempt.target.repository, attempt.input)
        read_only = attempt.read_only or mine.task.read_only
        maintenance = attempt.operation is Operation.MAINTENANCE
        assignment = Assignment(attempt.execution, source, mine.task.prefix, read_only, maintenance)
        body.tell(Job(mine.task.body, mine.params, assignment))
        self._follow(mine, body)
        return self._wait(attempt, mine, body)

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:
        """Let a body go on that waits for a sink."""
        mine = self._executions.get(attempt.execution)
        if mine is None or mine.body is None:
            return Unknown(f"no body of execution {attempt.execution} waits here")
        mine.body.tell(Granted(sink))
        return self._wait(attempt, mine, mine.body)

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        """Nothing is left to upload; see that staging holds what was sealed, no file more and none less."""
        mine = self._executions.get(attempt.execution)
        if mine is None or not mine.changed:
            return NotDone(f"nothing of execution {attempt.execution} was written here")
        for folder in mine.changed:
            listed = sink.list(folder)
            if not isinstance(listed, Done):
                return NotDone(f"{folder!r} cannot be listed: {listed.reason}")
            problem = discrepancy(listed.value)
            if problem is not None:
                return NotDone(f"expected the files that the seals of {folder!r} name; found {problem}")
        return Done(None, operations=len(mine.changed))

    def remove(self, attempt: Attempt) -> Answer[None]:
        """End a body that still waits, and forget the execution."""
        mine = self._executions.pop(attempt.execution, None)
        if mine is not None and mine.body is not None:
            self._bodies.discard(mine.body)
        return Done(None)

    def cancel(self, attempt: Attempt, reason: str) -> None:
        """Stop the body of an attempt that is no longer ours: interrupted at once, killed after its grace."""
        mine = self._executions.get(attempt.execution)
        if mine is not None:
            self._stop(mine, reason)

    def cancel_all(self, reason: str) -> None:
        """Stop every body that runs here."""
        for each in tuple(self._executions.values()):
            self._stop(each, reason)

    def sweep(self) -> tuple[str, ...]:
        """Remove what processes that died have left."""
        return self._bodies.sweep()

    def _follow(self, mine: _Execution, body: WarmBody) -> None:
        """Let a cancellation reach the body: one that comes from now on, and one that came while it was started."""
        with mine.lock:
            mine.body = body
            if mine.cancelled is not None:
                self._end_soon(body, mine.cancelled)

    def _stop(self, mine: _Execution, reason: str) -> None:
        with mine.lock:
            if mine.cancelled is None:
                mine.cancelled = reason
                if mine.body is not None:
                    self._end_soon(mine.body, reason)

    def _end_soon(self, body: WarmBody, reason: str) -> None:
        body.tell(Stop(reason))
        # Killed in any case: who was interrupted is not used again, and a body may catch what interrupts it.
        timer = threading.Timer(self._grace, body.kill)
        timer.daemon = True
        timer.start()

    def _wait(self, attempt: Attempt, mine: _Execution, body: WarmBody) -> Answer[BodyEvent]:
        try:
            # Not zero: a socket that waits for nothing says it would block, as if nobody were there.
            report = body.hear(max(_LEAST, mine.until - time.monotonic()))
        except TimeoutError:
            self._let_go(mine, body, keep=False)
            limit = f"{mine.task.timeout:g} s"
            return Done(BodyFailed(attempt.execution, f"the body ran longer than {limit} and was ended"))
        match report:
            case Wanted() if mine.cancelled is None:
                return Done(StagingWanted(attempt.execution))
            case Ended(ending, changed, spent) if mine.cancelled is None:
                mine.changed = changed
                if spent is not None:
                    self._listener(attempt, f"another process takes the next task: {spent}")
                self._let_go(mine, body, keep=spent is None)
                return Done(_event(attempt, ending, changed=bool(changed)))
            case _:
                self._let_go(mine, body, keep=False)
        if mine.cancelled is not None:
            return Done(BodyFailed(attempt.execution, one_line(f"the body was stopped: {mine.cancelled}")))
        return Unknown("the process of the body is gone, or says what nobody understands")

    def _let_go(self, mine: _Execution, body: WarmBody, *, keep: bool) -> None:
        with mine.lock:
            mine.body = None
            keep = keep and mine.cancelled is None
        if keep:
            self._bodies.give_back(body)
        else:
            self._bodies.discard(body)


def _event(attempt: Attempt, ending: Returned | Failed, *, changed: bool) -> BodyEvent:
    match ending:
        case Returned(output):
            return BodyDone(attempt.execution, changed=changed, output=output)
        case Failed(reason, terminal):
            return BodyFailed(attempt.execution, one_line(reason), terminal=terminal)
        case _:
            assert_never(ending)
