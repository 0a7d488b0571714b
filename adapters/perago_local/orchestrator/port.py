"""The orchestrator port on SQLite: hands out attempts, gives silent ones up, and alone decides which result counts.

It behaves as Conductor does where a runtime can tell, because the same worker must be right on both:

* At least once. A task that was handed out is given up when no sign of life came within its response time-out, counted
  from the last one; the next attempt is a new task with one more retry.
* A heartbeat never tells of loss, and a result that comes late is answered like any other. Only a reload shows.
* ``requeue`` hands one task out twice under the same id.

Two things are stricter than Conductor, and no correct worker can be harmed by either. A result or a heartbeat of a
delivery that was superseded is ignored, because a stalled no-op could else be accepted beneath a newer publication
(specs/adr/0012). And every delivery gets a number of its own, greater than any of its logical task before (OR-1), so a
second delivery's claim outranks the first's.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from perago_core.answers import Answer, Done, NotDone
from perago_core.pipelines import OrchestratorError
from perago_core.ports import Assignment
from perago_core.results import Result
from perago_core.values import Attempt, CommitRef, Target, TaskSnapshot
from perago_local.database import SqlitePort
from perago_local.orchestrator import deliveries, operations, views
from perago_local.orchestrator.progress import pass_time
from perago_local.orchestrator.schema import PART, Moment
from perago_local.orchestrator.workflow import Json, TaskDefinition, WorkflowDefinition, WorkflowStatus, WorkflowStep

T = TypeVar("T")


class SqliteOrchestrator(SqlitePort):
    """An orchestrator in one file. Any number of workers of one machine may open it; it needs no process of its own."""

    _PART = PART
    #: The only workflow whose tasks are taken through this object; ``None``: those of every workflow.
    only: str | None = None

    # ---- the port

    def poll(self, worker_id: str, task_names: tuple[str, ...], limit: int) -> Answer[tuple[Assignment, ...]]:
        """Take up to ``limit`` tasks. A worker that dies before it reads the answer leaves them to their time-out."""

        def work(connection: sqlite3.Connection, moment: Moment) -> tuple[Assignment, ...]:
            rows = connection.execute(
                "SELECT task.id FROM task JOIN step USING (workflow, position)"
                " WHERE available_from <= ? AND step.task IN (SELECT value FROM json_each(?))"
                " AND coalesce(?, workflow) = workflow ORDER BY available_from, scheduled_at, task.id LIMIT ?",
                (moment.now, json.dumps(task_names), self.only, max(limit, 0)),
            ).fetchall()
            return tuple(deliveries.hand_out(connection, moment, worker_id, task_id) for (task_id,) in rows)

        return self._change(work)

    def reload(self, workflow_id: str | None, task_id: str) -> Answer[TaskSnapshot | None]:
        """Read the task and its workflow now, whichever that is if none is given; ``None`` says that it is gone."""
        return self._change(lambda connection, _moment: deliveries.snapshot(connection, workflow_id, task_id))

    def extend(self, attempt: Attempt) -> Answer[None]:
        """Send one heartbeat; done also when it changes nothing."""

        def work(connection: sqlite3.Connection, moment: Moment) -> None:
            if deliveries.may_speak(connection, attempt):
                deliveries.sign_of_life(connection, moment, attempt.task_id)

        return self._change(work)

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        """Take a result; done also when it is ignored, because the task has ended or is somebody else's by now."""

        def work(connection: sqlite3.Connection, moment: Moment) -> None:
            if deliveries.may_speak(connection, attempt):
                deliveries.take(connection, moment, attempt, result)

        return self._change(work)

    # ---- for whoever runs workflows

    def register(self, definition: TaskDefinition) -> None:
        """Keep a task definition; workflows that have started keep the one they started with."""
        self._do(lambda connection, _moment: operations.register(connection, definition))

    def definitions(self) -> tuple[TaskDefinition, ...]:
        """List the task definitions, by name."""
        return self._do(lambda connection, _moment: operations.definitions(connection))

    def start_workflow(
        self,
        name: str,
        steps: tuple[WorkflowStep, ...],
        params: str | Mapping[str, Json] = "{}",
        *,
        target: Target | None = None,
        ref: CommitRef | None = None,
        correlation: str = "",
    ) -> str:
        """Start a line of steps on a target at a commit, and give the workflow's id."""
        given = params if isinstance(params, str) else json.dumps(params)
        definition = WorkflowDefinition(name, steps, given, target, ref)
        return self._do(lambda connection, moment: operations.start(connection, moment, definition, correlation))

    def terminate(self, workflow_id: str, reason: str = "terminated by an operator") -> None:
        """End a running workflow; its open tasks are cancelled. One that has ended already stays as it is."""
        self._do(lambda connection, moment: operations.terminate(connection, moment, workflow_id, reason))

    def retry(self, workflow_id: str) -> None:
        """Try the failed step of an ended workflow once more: a new task, also after a terminal failure."""
        self._do(lambda connection, moment: operations.retry(connection, moment, workflow_id))

    def remove(self, workflow_id: str) -> None:
        """Forget an ended workflow with all its tasks and their logs."""
        self._do(lambda connection, _moment: operations.remove(connection, workflow_id))

    def rerun(self, workflow_id: str, step: str) -> None:
        """Run an ended workflow again from a step on: its last task under the same id; later steps are forgotten."""
        self._do(lambda connection, moment: operations.rerun(connection, moment, workflow_id, step))

    def requeue(self, task_id: str) -> None:
        """Hand an open task out once more under the same id, whether or not its worker lives."""
        self._do(lambda connection, moment: operations.requeue(connection, moment, task_id))

    def log(self, task_id: str, *lines: str) -> None:
        """Write lines about a task."""
        self._do(lambda connection, moment: operations.log(connection, moment, task_id, lines))

    # ---- for whoever asks

    def workflow(self, workflow_id: str) -> views.WorkflowView | None:
        """Read one workflow; ``None``: there is no such workflow."""
        return self._do(lambda connection, _moment: views.workflow(connection, workflow_id))

    def workflows(self, status: WorkflowStatus | None = WorkflowStatus.RUNNING) -> tuple[views.WorkflowView, ...]:
        """List the workflows in a state, by default the running ones; ``None``: all."""
        return self._do(lambda connection, _moment: views.workflows(connection, status))

    def newest(
        self, limit: int, skip: int = 0, name: str = "", states: Collection[str] = ()
    ) -> tuple[views.WorkflowLine, ...]:
        """List so many workflows for an overview, newest first; of one name or in these states only, if given."""
        return self._do(lambda connection, _moment: views.newest(connection, limit, skip, name, states))

    def tasks_like(self, beginning: str) -> tuple[views.TaskView, ...]:
        """List the attempts whose id begins like this."""
        return self._do(lambda connection, _moment: views.tasks_like(connection, beginning))

    def tasks(self, workflow_id: str) -> tuple[views.TaskView, ...]:
        """List every attempt of a workflow, in step order."""
        return self._do(lambda connection, _moment: views.tasks_of(connection, workflow_id))

    def open_tasks(self) -> tuple[views.TaskView, ...]:
        """List the tasks that are waiting or running."""
        return self._do(lambda connection, _moment: views.open_tasks(connection))

    def task(self, task_id: str) -> views.TaskView | None:
        """Read one attempt; ``None``: there is no such task."""
        return self._do(lambda connection, _moment: views.task(connection, task_id))

    def logs(self, task_id: str) -> tuple[views.LogLine, ...]:
        """List the log lines of a task."""
        return self._do(lambda connection, _moment: views.logs(connection, task_id))

    # ---- how

    def _change(self, work: Callable[[sqlite3.Connection, Moment], T]) -> Answer[T]:
        """Do work under the write lock, at one moment, after what is due has timed out; reads too (``pass_time``)."""

        def at_one_moment(connection: sqlite3.Connection) -> T:
            moment = Moment(self._clock.now(), self._clock.wall())
            pass_time(connection, moment)
            return work(connection, moment)

        return self._database.change(at_one_moment)

    def _do(self, work: Callable[[sqlite3.Connection, Moment], T]) -> T:
        answer = self._change(work)
        if isinstance(answer, Done):
            return answer.value
        kind = "nothing was changed" if isinstance(answer, NotDone) else "whether it was done is not known"
        message = f"{answer.reason} ({kind})"
        raise OrchestratorError(message)
