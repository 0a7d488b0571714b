"""What Conductor's documents say in the words of the core, and a result as the document Conductor keeps.

A result names its execution twice over: in the task's output, and inside ``workspace``, which every next step and the
workflow's own output take over whole. So whoever asks later can tell whose result the workflow went on with. The two
can differ: of two results that arrive together Conductor keeps one in the task and may hand the other on (in 39 of 60
races). What the workflow goes on with is what counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from perago_conductor.sdk import Json
from perago_core.contract import EXECUTION, REF, RESULT, TASK, output_document
from perago_core.ports import Assignment
from perago_core.results import Completed
from perago_core.values import Attempt, CommitRef, TaskSnapshot, TaskStatus

#: Ended, and not as ours would: an optional task that failed for good; a task an operator skipped.
_OTHER_ENDS: Mapping[str, TaskStatus] = {
    "COMPLETED_WITH_ERRORS": TaskStatus.FAILED,
    "SKIPPED": TaskStatus.CANCELED,
}
#: A paused workflow still takes results of what was handed out.
_RUNNING = frozenset({"RUNNING", "PAUSED"})
#: Deliveries of one task within one start time that can be told apart; more than anybody requeues.
_DELIVERIES = 1024


def assignment_of(task: Mapping[str, Json]) -> Assignment:
    """Read a polled task. Whatever polled it just now, its workflow was running."""
    return Assignment(
        snapshot=_snapshot(task, running=True, execution=None, ref=None),
        task_name=task["taskType"],
        # The reference name carries the iteration of a loop, so this is one step of one workflow, across its retries.
        logical_task=f"{task['workflowInstanceId']}/{task['referenceTaskName']}",
        number=number_of(task),
        input=json.dumps(task.get("inputData") or {}, ensure_ascii=False),
        response_timeout=task.get("responseTimeoutSeconds") or None,  # 0: Conductor waits for ever
    )


def snapshot_of(task: Mapping[str, Json], workflow: Mapping[str, Json]) -> TaskSnapshot:
    """Read a task together with its workflow."""
    taken = _taken(task, workflow) or {}
    return _snapshot(
        task,
        running=workflow["status"] in _RUNNING,
        execution=taken.get(EXECUTION),
        ref=taken.get(REF),
    )


def number_of(task: Mapping[str, Json]) -> int:
    """Give the delivery's number: start time first, deliveries within it second (specs/adr/0018).

    Neither suffices: a rerun counts its deliveries from one again, a requeue keeps the start time. The retry count is
    no part of it, because a restart begins with zero again.
    """
    start: int = task["startTime"]
    delivery: int = task["pollCount"]
    return start * _DELIVERIES + min(delivery, _DELIVERIES - 1)


def output_of(attempt: Attempt, result: Completed) -> dict[str, Json]:
    """Write a result as the task's output."""
    return output_document(attempt.target, result.ref, result.output, attempt.task_id, result.execution)


def _snapshot(
    task: Mapping[str, Json],
    *,
    running: bool,
    execution: str | None,
    ref: str | None,
) -> TaskSnapshot:
    status = task["status"]
    return TaskSnapshot(
        workflow_id=task["workflowInstanceId"],
        task_id=task["taskId"],
        retry_count=task["retryCount"],
        status=_OTHER_ENDS.get(status) or TaskStatus(status),
        worker_id=task.get("workerId") or "",
        started_at=task["startTime"],
        poll_count=task["pollCount"],
        workflow_running=running,
        result_execution=execution,
        result_ref=None if ref is None else CommitRef(ref),
    )


def _taken(task: Mapping[str, Json], workflow: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """Give the workspace of this task's result: as the workflow shows it, else as the latest step got it, else its own.

    The input of a step that is tried again is made anew, so the latest one says what the workflow goes on with.
    """
    if task["status"] != TaskStatus.COMPLETED.value:
        return None
    later = sorted(workflow.get("tasks") or (), key=lambda each: each["seq"], reverse=True)
    shown = (workflow.get("output"), *(each.get("inputData") for each in later), task.get("outputData"))
    return next((found for each in shown for found in _results(each) if found.get(TASK) == task["taskId"]), None)


def _results(document: Json) -> Iterator[Mapping[str, Json]]:
    """Find every workspace that some result of ours named, however deep a workflow has put it.

    Not in what bodies returned: that can be large, and says what a body likes.
    """
    if _is_object(document):
        if isinstance(document.get(TASK), str) and isinstance(document.get(EXECUTION), str):
            yield document
        for key, each in document.items():
            if key != RESULT:
                yield from _results(each)
    elif _is_list(document):
        for each in document:
            yield from _results(each)


def _is_object(document: Json) -> TypeGuard[Mapping[str, Json]]:
    return isinstance(document, dict)


def _is_list(document: Json) -> TypeGuard[list[Json]]:
    return isinstance(document, list)
