"""The orchestrator port on Conductor: translates, and decides nothing.

Conductor answers 200 to late results, to second ones and to heartbeats of anybody. So nothing here is believed because
it was answered: a reload reads the task *and* its workflow, and the core compares.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path

from perago_clock import seconds
from perago_conductor.documents import assignment_of, output_of, snapshot_of
from perago_conductor.transport import Access, Gone, Json, Transport, Unreachable, task_result
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.ports import Assignment, Nudgeable
from perago_core.results import Completed, Result, status_of
from perago_core.values import Attempt, TaskSnapshot, TaskStatus
from perago_http import reading

#: Beyond 3 MiB Conductor keeps the output elsewhere and shows none, so nobody could read the result back; beyond 10 MiB
#: it fails the task for good, with answer 200. What is around the result of the body is far below the difference.
OUTPUT_MAX = 3 * 2**20 - 64 * 2**10
#: Conductor cuts a reason there itself; what to do next stands at its end.
REASON_MAX = 500
#: Conductor refuses to hold a poll for longer.
LONGEST_WAIT = 5.0
#: Seconds before a result that found nobody, or had no answer, is sent again.
_PAUSES = (0.1, 0.3, 1.0, 2.0, 3.0, 4.0)
_LOG = logging.getLogger("perago.conductor")


class ConductorOrchestrator(Nudgeable):
    """Any number of workers on any number of machines; threads may share one."""

    output_max = OUTPUT_MAX

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        secret: str = "",
        ca: Path | None = None,
        domain: str = "",
        timeout: float = 10.0,
        poll_wait: float = 1.0,
        insecure: bool = False,
    ) -> None:
        self.transport = Transport(Access(url, key, secret, ca, timeout, insecure))
        self.domain = domain
        self._wait = min(poll_wait, LONGEST_WAIT)
        self._turn = 0

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()

    def poll(self, worker_id: str, task_names: tuple[str, ...], limit: int) -> Answer[tuple[Assignment, ...]]:
        """Take up to ``limit`` tasks of any of the names; if there is none, wait a moment for the first.

        Never a long poll for more than one: Conductor holds it until as many have come, or the time is over, and what
        has come already waits with it.
        """
        found: list[Assignment] = []
        failed: NotDone | Unknown | None = None
        operations = 0
        for name, count, wait in self._questions(task_names, limit):
            if found and wait:
                break
            if len(found) == limit:
                break
            operations += 1
            answer = self._poll_one(worker_id, name, min(count, limit - len(found)), wait)
            if isinstance(answer, Done):
                found += _readable(answer.value)
            else:
                failed = answer
        if failed is not None and not found:
            return failed
        # What another name's poll has assigned would be run by nobody if this were a failure.
        return Done(tuple(found), operations)

    def reload(self, workflow_id: str | None, task_id: str, *, within: float = inf) -> Answer[TaskSnapshot | None]:
        """Read the task, then its workflow; of a completed one also what the workflow went on with.

        Two small documents, not the workflow with all its tasks: that one grows with every step and every result.
        """
        read = self.transport.ask(self.transport.tasks.get_task, task_id, within=within)
        if isinstance(read, Gone):
            return Done(None)
        if not isinstance(read, Done):
            return read
        task: Json = read.value
        about = reading.read(read, lambda found: (_text(found["workflowInstanceId"]), found["status"]), "Conductor")
        if not isinstance(about, Done):
            return about
        running, ended = about.value
        if workflow_id not in {None, running}:
            return Done(None)
        whole = "true" if ended == TaskStatus.COMPLETED.value else "false"
        status = self.transport.workflows.get_execution_status
        read = self.transport.ask(status, running, include_tasks=whole, within=within)
        if isinstance(read, Gone):
            return Done(None, operations=2)
        snapshot = reading.read(read, lambda found: snapshot_of(task, found), "Conductor")
        return Done(snapshot.value, operations=2) if isinstance(snapshot, Done) else snapshot

    def extend(self, attempt: Attempt) -> Answer[None]:
        """Send one heartbeat. Not the status update of the same name: that one hands the task back."""
        return self._update(attempt, TaskStatus.IN_PROGRESS, extend=True)

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        """Send the result; again if it found nobody or had no answer, while the task is this delivery's.

        Conductor takes the first result of an open task and ignores the rest, so sending it again changes nothing if
        it arrived. But a task that was handed out again meanwhile would take it for its new owner's.
        """
        reserve = attempt.budget.completion_reserve
        end = seconds() + reserve
        within = reserve / 3  # else the first request that nobody answers uses up the time of all others
        answer = self._send(attempt, result, within)
        uncertain = isinstance(answer, Unknown)
        for pause in _PAUSES:
            if not isinstance(answer, Unknown | Unreachable) or seconds() + pause > end:
                break
            time.sleep(pause)
            seen = self.reload(attempt.workflow_id, attempt.task_id, within=within)
            if not isinstance(seen, Done):
                continue
            if not _is_delivery_of(attempt, seen.value):
                break
            answer = self._send(attempt, result, within)
            uncertain = uncertain or isinstance(answer, Unknown)
        if isinstance(answer, NotDone) and uncertain:
            return Unknown(f"an earlier try had no answer and may have arrived; then {answer.reason}")
        return answer

    def log(self, task_id: str, line: str) -> None:
        """Append a line to the task's log."""
        self.transport.log(task_id, line)

    def nudge(self, workflow_id: str) -> Answer[None]:
        """Have Conductor look at a workflow now: it then gives up whatever has been silent for too long.

        Without it, a worker that dies after a heartbeat was noticed after 3 to 272 s, whatever the response time-out;
        with it, at once. It is the decision its own sweeper takes later, and on a workflow that is fine or over it
        changes nothing. Done also when the workflow is gone.
        """
        answer = self.transport.ask(self.transport.workflows.decide, workflow_id)
        return Done(None) if isinstance(answer, Gone) else reading.read(answer, _nothing, "Conductor")

    # ---- how

    def _questions(self, names: tuple[str, ...], limit: int) -> Iterator[tuple[str, int, float]]:
        """Say whom to ask for how many and how long to wait: all for what is there, then each for its first."""
        if not names or limit < 1:
            return
        self._turn += 1
        first = self._turn % len(names)
        turns = (*names[first:], *names[:first])
        if len(names) > 1 or limit > 1:
            for name in turns:
                yield name, limit, 0.0
        for name in turns:
            yield name, 1, self._wait / len(names)

    def _poll_one(self, worker_id: str, name: str, count: int, wait: float) -> Answer[list[Json]]:
        query: dict[str, Json] = {"workerid": worker_id, "count": count, "timeout": round(wait * 1000)}
        if self.domain:
            query["domain"] = self.domain
        answer = self.transport.ask(self.transport.tasks.batch_poll, name, wait=wait, **query)
        if isinstance(answer, Done) and not isinstance(answer.value, list):
            return Unknown(f"expected a list of tasks named {name!r}, found {type(answer.value).__name__}")
        return answer

    def _send(self, attempt: Attempt, result: Result, within: float) -> Answer[None]:
        status = status_of(result)
        if isinstance(result, Completed):
            return self._update(attempt, status, output=output_of(attempt, result), within=within)
        return self._update(attempt, status, reason=_text(str(result.refusal))[:REASON_MAX], within=within)

    def _update(
        self,
        attempt: Attempt,
        status: TaskStatus,
        *,
        output: dict[str, Json] | None = None,
        reason: str | None = None,
        extend: bool = False,
        within: float = inf,
    ) -> Answer[None]:
        body = task_result(
            attempt.workflow_id,
            attempt.task_id,
            attempt.worker_id,
            status.value,
            output=output,
            reason=reason,
            extend=extend,
        )
        answer = self.transport.ask(self.transport.tasks.update_task, body, within=within)
        return reading.read(answer, lambda found: _names(found, attempt.task_id), "Conductor")


def _is_delivery_of(attempt: Attempt, seen: TaskSnapshot | None) -> bool:
    return (
        seen is not None
        and seen.status is TaskStatus.IN_PROGRESS
        and (seen.started_at, seen.poll_count) == (attempt.started_at, attempt.poll_count)
    )


def _nothing(found: Json) -> None:
    if found:
        raise ValueError(f"{str(found)[:100]!r} where there is nothing to say")


def _names(found: Json, task_id: str) -> None:
    """See that an update was answered with the id of its task."""
    if found != task_id:
        raise ValueError(f"{str(found)[:100]!r} in place of the task's id")


def _text(text: str) -> str:
    """Write half a surrogate pair, which a file name may bring in and no UTF-8 can hold, as JSON would."""
    return text.encode("utf-8", "backslashreplace").decode()


def _readable(tasks: list[Json]) -> Iterator[Assignment]:
    """Read each task alone. One that cannot be read times out at the server, and costs the others nothing.

    Counterexample, seen: a task without a start time ended the worker's loop, and all that came with it was run by
    nobody; after a restart it came again.
    """
    for task in tasks:
        try:
            yield assignment_of(task)
        except reading.SURPRISES as surprise:
            _LOG.warning("a task cannot be read and is left to time out: %r in %.200r", surprise, task)
