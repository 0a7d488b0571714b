"""One delivery of one task: handing it out, and judging what whoever got it says afterwards.

Each function is part of a transaction of the caller.
"""

from __future__ import annotations

import sqlite3

from perago_core.answers import NotDoneError
from perago_core.ports import Assignment
from perago_core.results import Completed, Result, status_of
from perago_core.values import Attempt, TaskSnapshot, TaskStatus
from perago_local.orchestrator.progress import TaskPosition, definition_of, end_task
from perago_local.orchestrator.schema import Moment
from perago_local.orchestrator.workflow import WorkflowStatus

#: A greater result fails the task for good, as on Conductor, and the publication is then without a result. A runtime
#: compares before it publishes.
OUTPUT_MAX = 10 * 2**20
REASON_MAX = 4000


def hand_out(connection: sqlite3.Connection, moment: Moment, worker_id: str, task_id: str) -> Assignment:
    """Hand a task out: one more delivery, with a number of its own."""
    workflow_id, position = connection.execute(
        "SELECT workflow, position FROM task WHERE id = ?",
        (task_id,),
    ).fetchone()
    number, name, step = connection.execute(
        "UPDATE step SET number = number + 1 WHERE workflow = ? AND position = ? RETURNING number, task, name",
        (workflow_id, position),
    ).fetchone()
    (given,) = connection.execute(
        "UPDATE task SET status = ?, worker_id = ?, poll_count = poll_count + 1, number = ?, started_at = ?,"
        " available_from = NULL WHERE id = ? RETURNING input",
        (TaskStatus.IN_PROGRESS.value, worker_id, number, moment.wall, task_id),
    ).fetchone()
    sign_of_life(connection, moment, task_id)
    found = snapshot(connection, workflow_id, task_id)
    assert found is not None
    patience = definition_of(connection, workflow_id, position).response_timeout
    return Assignment(found, name, f"{workflow_id}/{step}", number, given, patience)


def snapshot(connection: sqlite3.Connection, workflow_id: str | None, task_id: str) -> TaskSnapshot | None:
    """Read a task as a reload shows it; without a workflow: the task of this id, wherever it belongs."""
    row = connection.execute(
        "SELECT task.status, retry_count, worker_id, started_at, poll_count, workflow.status, result_execution,"
        " result_ref, workflow FROM task JOIN workflow ON workflow.id = task.workflow WHERE task.id = ?",
        (task_id,),
    ).fetchone()
    if row is None or workflow_id not in {None, row[-1]}:
        return None
    status, retry_count, worker_id, started_at, poll_count, workflow_status, execution, ref, workflow = row
    return TaskSnapshot(
        workflow_id=workflow,
        task_id=task_id,
        retry_count=retry_count,
        status=TaskStatus(status),
        worker_id=worker_id,
        started_at=started_at,
        poll_count=poll_count,
        workflow_running=workflow_status == WorkflowStatus.RUNNING.value,
        result_execution=execution,
        result_ref=ref,
    )


def may_speak(connection: sqlite3.Connection, attempt: Attempt) -> bool:
    """Whether the task is open and this is its latest delivery; a task nobody knows is refused."""
    found = snapshot(connection, attempt.workflow_id, attempt.task_id)
    if found is None:
        message = f"expected a task of workflow {attempt.workflow_id}, found no task {attempt.task_id}: it is gone"
        raise NotDoneError(message)
    return found.status.is_open and found.poll_count == attempt.poll_count


def sign_of_life(connection: sqlite3.Connection, moment: Moment, task_id: str) -> None:
    """Count the response time-out from now."""
    row = connection.execute("SELECT workflow, position FROM task WHERE id = ?", (task_id,)).fetchone()
    respond_by = moment.now + definition_of(connection, *row).response_timeout
    connection.execute("UPDATE task SET respond_by = ? WHERE id = ?", (respond_by, task_id))


def take(connection: sqlite3.Connection, moment: Moment, attempt: Attempt, result: Result) -> None:
    """End the task as the result says."""
    query = "SELECT id, workflow, position, retry_count FROM task WHERE id = ?"
    place = TaskPosition(*connection.execute(query, (attempt.task_id,)).fetchone())
    if not isinstance(result, Completed):
        end_task(connection, moment, place, status_of(result), _text(str(result.refusal))[:REASON_MAX])
        return
    output = _text(result.output)
    size = len(output.encode())
    if size > OUTPUT_MAX:
        reason = f"expected a result of at most {OUTPUT_MAX} bytes, found {size}: put large data into the workspace"
        end_task(connection, moment, place, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason)
        return
    connection.execute(
        "UPDATE task SET output = ?, result_execution = ?, result_ref = ? WHERE id = ?",
        (output, result.execution, result.ref, attempt.task_id),
    )
    end_task(connection, moment, place, TaskStatus.COMPLETED, "")


def _text(text: str) -> str:
    """Write half a surrogate pair, which a file name may bring in and no UTF-8 can hold, as JSON would."""
    return text.encode("utf-8", "backslashreplace").decode()
