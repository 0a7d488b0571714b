"""How a workflow progresses: what is scheduled when a task ends, and which tasks time out.

Everything here happens inside a transaction of the caller, at one moment. There is no process that watches the clock:
each call first times out what is due (``pass_time``). So the next call, whoever makes it, gives up a silent worker's
task, and no call shows a task whose time is over as running.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from typing import cast

from attrs import asdict, frozen

from perago_core.contract import output_document
from perago_core.pipelines import Place
from perago_core.values import CommitRef, Target, TaskStatus
from perago_local.orchestrator.schema import Moment
from perago_local.orchestrator.workflow import (
    Backoff,
    Json,
    TaskDefinition,
    WorkflowDefinition,
    WorkflowStatus,
    WorkflowStep,
    input_of,
    workspace_in,
    workspace_of,
)

_ENDS = {TaskStatus.TIMED_OUT: WorkflowStatus.TIMED_OUT}


@frozen
class TaskPosition:
    """Where a task stands: its workflow, the position of its step, and how often it was tried before."""

    task_id: str
    workflow_id: str
    position: int
    retry_count: int


def settings_text(definition: TaskDefinition) -> str:
    """Write a task definition; infinity is null, because SQLite reads this too and JSON has no infinity."""
    settings: dict[str, Json] = {**asdict(definition), "retry_backoff": definition.retry_backoff.value}
    return json.dumps({name: None if value == float("inf") else value for name, value in settings.items()})


def settings_from(text: str) -> TaskDefinition:
    """Read a task definition back."""
    written: dict[str, Json] = json.loads(text)
    settings: dict[str, Json] = {name: float("inf") if value is None else value for name, value in written.items()}
    settings["retry_backoff"] = Backoff(settings["retry_backoff"])
    return TaskDefinition(**settings)


def pass_time(connection: sqlite3.Connection, moment: Moment) -> None:
    """Time out the tasks whose worker sent no sign of life, and those whose total time is over."""
    silent = connection.execute(
        "SELECT id, workflow, position, retry_count FROM task WHERE respond_by <= ? AND status = ?",
        (moment.now, TaskStatus.IN_PROGRESS.value),
    ).fetchall()
    for row in silent:
        end_task(
            connection, moment, TaskPosition(*row), TaskStatus.TIMED_OUT, "no sign of life within the response time-out"
        )
    late = connection.execute(
        "SELECT task.id, task.workflow, position, retry_count FROM step JOIN task USING (workflow, position)"
        " WHERE end_by <= ? AND task.status IN (?, ?)",
        (moment.now, TaskStatus.SCHEDULED.value, TaskStatus.IN_PROGRESS.value),
    ).fetchall()
    for row in late:
        place = TaskPosition(*row)
        _end_row(connection, moment, place, TaskStatus.TIMED_OUT, "the total time-out of all attempts is over")
        end_workflow(connection, moment, place.workflow_id, WorkflowStatus.TIMED_OUT, "the total time-out is over")


def schedule(connection: sqlite3.Connection, moment: Moment, workflow_id: str, position: int) -> None:
    """Schedule the first attempt of a step, or end the workflow if its parameters cannot be made."""
    try:
        given = make_input(connection, workflow_id, position)
    except ValueError as problem:
        end_workflow(connection, moment, workflow_id, WorkflowStatus.FAILED, str(problem))
        return
    start_total_timeout(connection, moment, workflow_id, position)
    _insert(connection, moment, workflow_id, position, retry_count=0, given=given, delay=0.0)


def end_task(
    connection: sqlite3.Connection, moment: Moment, place: TaskPosition, status: TaskStatus, reason: str
) -> None:
    """End an open task, and go on from there: the next step, another attempt, or the end of the workflow."""
    _end_row(connection, moment, place, status, reason)
    if status is TaskStatus.COMPLETED:
        _go_on(connection, moment, place)
        return
    definition = definition_of(connection, place.workflow_id, place.position)
    if status is TaskStatus.FAILED_WITH_TERMINAL_ERROR or place.retry_count >= definition.retry_count:
        end_workflow(connection, moment, place.workflow_id, _ENDS.get(status, WorkflowStatus.FAILED), reason)
        return
    try_again(connection, moment, place, definition.delay_before(place.retry_count + 1))


def try_again(connection: sqlite3.Connection, moment: Moment, place: TaskPosition, delay: float) -> None:
    """Schedule one more attempt: a new task id, one more retry."""
    (given,) = connection.execute("SELECT input FROM task WHERE id = ?", (place.task_id,)).fetchone()
    retry_count = place.retry_count + 1
    _insert(connection, moment, place.workflow_id, place.position, retry_count=retry_count, given=given, delay=delay)


def end_workflow(
    connection: sqlite3.Connection,
    moment: Moment,
    workflow_id: str,
    status: WorkflowStatus,
    reason: str,
) -> None:
    """End a workflow; what is still open in it is cancelled."""
    connection.execute(
        "UPDATE task SET status = ?, ended_at = ?, available_from = NULL, respond_by = NULL"
        " WHERE workflow = ? AND status IN (?, ?)",
        (
            TaskStatus.CANCELED.value,
            moment.wall,
            workflow_id,
            TaskStatus.SCHEDULED.value,
            TaskStatus.IN_PROGRESS.value,
        ),
    )
    connection.execute("UPDATE step SET end_by = NULL WHERE workflow = ?", (workflow_id,))
    connection.execute(
        "UPDATE workflow SET status = ?, reason = ?, ended_at = ? WHERE id = ?",
        (status.value, reason, moment.wall, workflow_id),
    )


def definition_of(connection: sqlite3.Connection, workflow_id: str, position: int) -> TaskDefinition:
    """Read the definition a step runs under: the one that stood when its workflow started."""
    query = "SELECT settings FROM step WHERE workflow = ? AND position = ?"
    (settings,) = connection.execute(query, (workflow_id, position)).fetchone()
    return settings_from(settings)


def start_total_timeout(connection: sqlite3.Connection, moment: Moment, workflow_id: str, position: int) -> None:
    """Begin to count the total time-out of a step."""
    total = definition_of(connection, workflow_id, position).total_timeout
    end_by = None if total == float("inf") else moment.now + total
    connection.execute(
        "UPDATE step SET end_by = ? WHERE workflow = ? AND position = ?", (end_by, workflow_id, position)
    )


def make_input(connection: sqlite3.Connection, workflow_id: str, position: int) -> str:
    """Write what a step is given, from what the steps before it left; ``ValueError`` if it quotes what is not there."""
    definition = workflow_definition(connection, workflow_id)
    step, outputs = definition.steps[position], cast("dict[str, Json]", {})
    left: tuple[Target, CommitRef] | None = None
    before = connection.execute(
        "SELECT step.name, output, result_ref, task.id, result_execution, input FROM step"
        " JOIN task USING (workflow, position) WHERE workflow = ? AND position < ? AND status = ? ORDER BY position",
        (workflow_id, position, TaskStatus.COMPLETED.value),
    )
    for name, output, result_ref, task_id, execution, given in before:
        left = workspace_in(given)[0], CommitRef(result_ref)
        outputs[name] = output_document(*left, output, task_id, execution)
    return input_of(definition, step, outputs, workspace_of(definition, workflow_id, step, left))


def workflow_definition(connection: sqlite3.Connection, workflow_id: str) -> WorkflowDefinition:
    """Read back what a workflow was started with."""
    name, params, repository, branch, ref = connection.execute(
        "SELECT name, params, repository, branch, ref FROM workflow WHERE id = ?",
        (workflow_id,),
    ).fetchone()
    steps = connection.execute(
        "SELECT name, task, params, place FROM step WHERE workflow = ? ORDER BY position",
        (workflow_id,),
    )
    made = tuple(WorkflowStep(label, task, given, Place(place)) for label, task, given, place in steps)
    target = None if repository is None else Target(repository, branch)
    return WorkflowDefinition(name, made, params, target, ref)


def _go_on(connection: sqlite3.Connection, moment: Moment, place: TaskPosition) -> None:
    connection.execute("UPDATE step SET end_by = NULL WHERE workflow = ?", (place.workflow_id,))
    following = place.position + 1
    query = "SELECT count(*) FROM step WHERE workflow = ?"
    (steps,) = connection.execute(query, (place.workflow_id,)).fetchone()
    if following == steps:
        end_workflow(connection, moment, place.workflow_id, WorkflowStatus.COMPLETED, "")
    else:
        schedule(connection, moment, place.workflow_id, following)


def _insert(
    connection: sqlite3.Connection,
    moment: Moment,
    workflow_id: str,
    position: int,
    *,
    retry_count: int,
    given: str,
    delay: float,
) -> None:
    connection.execute(
        "INSERT INTO task (id, workflow, position, retry_count, status, input, scheduled_at, available_from)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            uuid.uuid4().hex,
            workflow_id,
            position,
            retry_count,
            TaskStatus.SCHEDULED.value,
            given,
            moment.wall,
            moment.now + delay,
        ),
    )


def _end_row(
    connection: sqlite3.Connection, moment: Moment, place: TaskPosition, status: TaskStatus, reason: str
) -> None:
    connection.execute(
        "UPDATE task SET status = ?, reason = ?, ended_at = ?, available_from = NULL, respond_by = NULL WHERE id = ?",
        (status.value, reason, moment.wall, place.task_id),
    )
