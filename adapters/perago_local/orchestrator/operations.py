"""What an operator or a pipeline does to workflows: define, start, terminate, retry, remove, rerun, requeue, log.

Each is one transaction of the caller. What cannot be done is refused with a sentence that says what was found.
"""

from __future__ import annotations

import re
import sqlite3
import uuid
from typing import Any

from perago_core.answers import NotDoneError
from perago_core.values import TaskStatus
from perago_local.orchestrator.progress import (
    TaskPosition,
    end_workflow,
    make_input,
    schedule,
    settings_from,
    settings_text,
    start_total_timeout,
    try_again,
)
from perago_local.orchestrator.schema import Moment
from perago_local.orchestrator.workflow import TaskDefinition, WorkflowDefinition, WorkflowStatus

LINE_MAX = 10_000


def register(connection: sqlite3.Connection, definition: TaskDefinition) -> None:
    """Keep a task definition in place of the one of that name."""
    row = (definition.name, settings_text(definition))
    connection.execute("INSERT OR REPLACE INTO definition VALUES (?, ?)", row)


def definitions(connection: sqlite3.Connection) -> tuple[TaskDefinition, ...]:
    """List the task definitions, by name."""
    rows = connection.execute("SELECT settings FROM definition ORDER BY name")
    return tuple(settings_from(settings) for (settings,) in rows)


def start(connection: sqlite3.Connection, moment: Moment, definition: WorkflowDefinition, correlation: str) -> str:
    """Start a workflow: write it down with the task definitions that stand now, and schedule its first step."""
    known = {registered.name: registered for registered in definitions(connection)}
    missing = sorted({step.task for step in definition.steps} - known.keys())
    if missing:
        message = f"expected task definitions for every step, found none for {', '.join(missing)} "
        message += f"(known: {', '.join(known) or 'none'}): register them first"
        raise NotDoneError(message)
    workflow_id = f"{re.sub(r'[^A-Za-z0-9_-]+', '-', definition.name)[:32]}-{uuid.uuid4().hex[:12]}"
    target = (None, None) if definition.target is None else (definition.target.repository, definition.target.branch)
    connection.execute(
        "INSERT INTO workflow (id, name, correlation, params, repository, branch, ref, status, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            workflow_id,
            definition.name,
            correlation,
            definition.params,
            *target,
            definition.ref,
            WorkflowStatus.RUNNING.value,
            moment.wall,
        ),
    )
    for position, step in enumerate(definition.steps):
        connection.execute(
            "INSERT INTO step (workflow, position, name, task, params, settings, place) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                workflow_id,
                position,
                step.name,
                step.task,
                step.params,
                settings_text(known[step.task]),
                step.place.value,
            ),
        )
    schedule(connection, moment, workflow_id, 0)
    return workflow_id


def terminate(connection: sqlite3.Connection, moment: Moment, workflow_id: str, reason: str) -> None:
    """End a running workflow."""
    if _status(connection, workflow_id) is WorkflowStatus.RUNNING:
        end_workflow(connection, moment, workflow_id, WorkflowStatus.TERMINATED, reason)


def retry(connection: sqlite3.Connection, moment: Moment, workflow_id: str) -> None:
    """Schedule one more attempt of the step at which an ended workflow stopped."""
    _require_ended(connection, workflow_id, "retry")
    last = _last_task(connection, workflow_id, "")
    if last is None or last[1] == TaskStatus.COMPLETED.value:
        message = f"expected workflow {workflow_id} to have stopped at a task that failed, found none: nothing to retry"
        raise NotDoneError(message)
    place = last[0]
    _run_on(connection, workflow_id)
    start_total_timeout(connection, moment, workflow_id, place.position)
    try_again(connection, moment, place, delay=0.0)


def remove(connection: sqlite3.Connection, workflow_id: str) -> None:
    """Forget an ended workflow: its steps, its tasks and their logs."""
    _require_ended(connection, workflow_id, "remove")
    connection.execute("DELETE FROM log WHERE task IN (SELECT id FROM task WHERE workflow = ?)", (workflow_id,))
    for table, column in (("task", "workflow"), ("step", "workflow"), ("workflow", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (workflow_id,))  # noqa: S608  names of our own


def rerun(connection: sqlite3.Connection, moment: Moment, workflow_id: str, step: str) -> None:
    """Reset the last task of a step in place, as Conductor does, and forget the steps after it.

    The poll count goes on counting, so that the two lives of one task id can be told apart.
    """
    _require_ended(connection, workflow_id, "rerun")
    last = _last_task(connection, workflow_id, step)
    if last is None:
        names = connection.execute("SELECT name FROM step WHERE workflow = ? ORDER BY position", (workflow_id,))
        message = f"expected a step of workflow {workflow_id} that has run, found {step!r} "
        message += f"(steps: {', '.join(name for (name,) in names)})"
        raise NotDoneError(message)
    place = last[0]
    connection.execute("DELETE FROM task WHERE workflow = ? AND position > ?", (workflow_id, place.position))
    _run_on(connection, workflow_id)
    start_total_timeout(connection, moment, workflow_id, place.position)
    connection.execute(
        "UPDATE task SET status = ?, input = ?, scheduled_at = ?, available_from = ?, started_at = 0, ended_at = 0,"
        " worker_id = '', output = NULL, result_execution = NULL, result_ref = NULL, reason = '' WHERE id = ?",
        (
            TaskStatus.SCHEDULED.value,
            make_input(connection, workflow_id, place.position),
            moment.wall,
            moment.now,
            place.task_id,
        ),
    )


def requeue(connection: sqlite3.Connection, moment: Moment, task_id: str) -> None:
    """Make an open task available again and change nothing else: its worker, if it lives, goes on."""
    changed = connection.execute(
        "UPDATE task SET available_from = ? WHERE id = ? AND status IN (?, ?)",
        (moment.now, task_id, TaskStatus.SCHEDULED.value, TaskStatus.IN_PROGRESS.value),
    )
    if changed.rowcount == 0:
        message = f"expected an open task, found {task_id} ended or unknown: there is nothing to hand out again"
        raise NotDoneError(message)


def log(connection: sqlite3.Connection, moment: Moment, task_id: str, lines: tuple[str, ...]) -> None:
    """Write lines about a task; overlong ones are cut."""
    rows = [(task_id, moment.wall, line[:LINE_MAX].encode("utf-8", "backslashreplace").decode()) for line in lines]
    connection.executemany("INSERT INTO log (task, at, line) VALUES (?, ?, ?)", rows)


def _status(connection: sqlite3.Connection, workflow_id: str) -> WorkflowStatus:
    row = connection.execute("SELECT status FROM workflow WHERE id = ?", (workflow_id,)).fetchone()
    if row is None:
        message = f"expected a workflow, found none with the id {workflow_id!r}: list them to see the ids"
        raise NotDoneError(message)
    return WorkflowStatus(row[0])


def _require_ended(connection: sqlite3.Connection, workflow_id: str, verb: str) -> None:
    if _status(connection, workflow_id) is WorkflowStatus.RUNNING:
        message = f"expected an ended workflow to {verb}, found {workflow_id} running: terminate it first"
        raise NotDoneError(message)


def _run_on(connection: sqlite3.Connection, workflow_id: str) -> None:
    connection.execute(
        "UPDATE workflow SET status = ?, reason = '', ended_at = 0 WHERE id = ?",
        (WorkflowStatus.RUNNING.value, workflow_id),
    )


def _last_task(connection: sqlite3.Connection, workflow_id: str, step: str) -> tuple[TaskPosition, str] | None:
    """Return the last attempt of a step, or of the whole workflow, with its status."""
    row: tuple[Any, ...] | None = connection.execute(
        "SELECT task.id, workflow, position, retry_count, status FROM task JOIN step USING (workflow, position)"
        " WHERE workflow = ? AND ? IN ('', step.name) ORDER BY position DESC, retry_count DESC LIMIT 1",
        (workflow_id, step),
    ).fetchone()
    return None if row is None else (TaskPosition(*row[:4]), row[4])
