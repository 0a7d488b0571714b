"""Workflows, tasks and their log as values for a status page. Read in one transaction; nothing is decided by them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from typing import Any

from attrs import fields, frozen

from perago_core.contract import output_document
from perago_core.value import Value
from perago_core.values import CommitRef, Target, TaskStatus
from perago_local.orchestrator.progress import workflow_definition
from perago_local.orchestrator.workflow import WorkflowStatus, workspace_in


@frozen(repr=False)
class TaskView(Value):
    """One attempt as a person sees it. Times are milliseconds since the epoch, 0 for what has not happened."""

    task_id: str
    workflow_id: str
    step: str
    name: str
    logical_task: str
    retry_count: int
    number: int
    status: TaskStatus
    worker_id: str
    poll_count: int
    started_at: int
    ended_at: int
    reason: str
    input: str
    output: str | None
    result_execution: str | None
    result_ref: CommitRef | None


@frozen(repr=False)
class WorkflowView(Value):
    """One workflow as a person sees it. ``output`` is the JSON of what each finished step left, by step name."""

    workflow_id: str
    name: str
    correlation: str
    status: WorkflowStatus
    reason: str
    created_at: int
    ended_at: int
    output: str
    target: Target | None
    ref: CommitRef | None


@frozen(repr=False)
class WorkflowLine(Value):
    """A workflow in a list: how far it is, and nothing of what it gave."""

    workflow_id: str
    name: str
    status: WorkflowStatus
    reason: str
    created_at: int
    ended_at: int
    steps: int
    done: int


@frozen(repr=False)
class LogLine(Value):
    """One line a body or the runtime wrote about a task."""

    at: int
    line: str


_TASKS = (
    "SELECT task.id, workflow, step.name, step.task, workflow || '/' || step.name, retry_count, task.number, status,"
    " worker_id, poll_count, started_at, ended_at, reason, input, output, result_execution, result_ref"
    " FROM task JOIN step USING (workflow, position)"
)
_FIELDS = tuple(each.name for each in fields(TaskView))
_OPEN = (TaskStatus.SCHEDULED.value, TaskStatus.IN_PROGRESS.value)


def open_tasks(connection: sqlite3.Connection) -> tuple[TaskView, ...]:
    """List the tasks that are waiting or running, oldest first."""
    return tuple(_tasks(connection, "WHERE status IN (?, ?) ORDER BY scheduled_at, task.id", _OPEN))


def tasks_of(connection: sqlite3.Connection, workflow_id: str) -> tuple[TaskView, ...]:
    """List every attempt of every step of a workflow, in order."""
    return tuple(_tasks(connection, "WHERE workflow = ? ORDER BY position, retry_count", (workflow_id,)))


def task(connection: sqlite3.Connection, task_id: str) -> TaskView | None:
    """Read one attempt; ``None``: there is no such task."""
    return next(_tasks(connection, "WHERE task.id = ?", (task_id,)), None)


def workflows(connection: sqlite3.Connection, status: WorkflowStatus | None) -> tuple[WorkflowView, ...]:
    """List all workflows, or those in one state, oldest first."""
    wanted = [member.value for member in WorkflowStatus] if status is None else [status.value]
    rows = connection.execute(
        "SELECT id FROM workflow WHERE status IN (SELECT value FROM json_each(?)) ORDER BY created_at, id",
        (json.dumps(wanted),),
    ).fetchall()
    return tuple(view for (row_id,) in rows if (view := workflow(connection, row_id)) is not None)


def workflow(connection: sqlite3.Connection, workflow_id: str) -> WorkflowView | None:
    """Read one workflow; ``None``: there is no such workflow."""
    row = connection.execute(
        "SELECT id, name, correlation, status, reason, created_at, ended_at FROM workflow WHERE id = ?",
        (workflow_id,),
    ).fetchone()
    if row is None:
        return None
    definition = workflow_definition(connection, workflow_id)
    output = {
        each.step: output_document(
            workspace_in(each.input)[0],
            each.result_ref,
            each.output or "null",
            each.task_id,
            each.result_execution or "",
        )
        for each in tasks_of(connection, workflow_id)
        if each.status is TaskStatus.COMPLETED and each.result_ref is not None
    }
    _, name, correlation, status, reason, created_at, ended_at = row
    return WorkflowView(
        workflow_id,
        name,
        correlation,
        WorkflowStatus(status),
        reason,
        created_at,
        ended_at,
        json.dumps(output),
        definition.target,
        definition.ref,
    )


def newest(
    connection: sqlite3.Connection, limit: int, skip: int = 0, name: str = "", states: Collection[str] = ()
) -> tuple[WorkflowLine, ...]:
    """List workflows for an overview, newest first; of one name or in these states only, if given."""
    # Chosen first: steps and tasks are then counted for what is shown, not for every workflow there ever was.
    rows = connection.execute(
        "WITH chosen AS (SELECT id, name, status, reason, created_at, ended_at FROM workflow"
        " WHERE ?1 IN ('', name) AND (?2 = '[]' OR status IN (SELECT value FROM json_each(?2)))"
        " ORDER BY created_at DESC, id DESC LIMIT ?3 OFFSET ?4)"
        " SELECT chosen.*,"
        " (SELECT count(*) FROM step WHERE step.workflow = chosen.id),"
        " (SELECT count(*) FROM task WHERE task.workflow = chosen.id AND task.status = ?5)"
        " FROM chosen ORDER BY created_at DESC, id DESC",
        (name, json.dumps(sorted(states)), limit, skip, TaskStatus.COMPLETED.value),
    ).fetchall()
    return tuple(WorkflowLine(row[0], row[1], WorkflowStatus(row[2]), *row[3:]) for row in rows)


def tasks_like(connection: sqlite3.Connection, beginning: str) -> tuple[TaskView, ...]:
    """List the attempts whose id begins like this."""
    return tuple(_tasks(connection, "WHERE substr(task.id, 1, ?) = ? ORDER BY task.id", (len(beginning), beginning)))


def logs(connection: sqlite3.Connection, task_id: str) -> tuple[LogLine, ...]:
    """List the log lines of a task, in the order they were written."""
    rows = connection.execute("SELECT at, line FROM log WHERE task = ? ORDER BY sequence", (task_id,))
    return tuple(LogLine(*row) for row in rows)


def _tasks(connection: sqlite3.Connection, where: str, parameters: tuple[str | int, ...]) -> Iterator[TaskView]:
    for row in connection.execute(f"{_TASKS} {where}", parameters).fetchall():
        columns: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
        columns["status"] = TaskStatus(columns["status"])
        yield TaskView(**columns)
