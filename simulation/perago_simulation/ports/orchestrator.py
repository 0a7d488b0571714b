"""The simulated orchestrator: workflows of steps, retries, time-outs on the simulated clock, late results ignored.

As real ones do, it hands a task out at least once, takes whichever result comes first while the task is open, and
answers the others as if it had taken them. A step's output ref is the next step's input ref.
"""

from __future__ import annotations

import json
from typing import ClassVar

from attrs import Factory, define

from perago_core.answers import Answer, Done, NotDone
from perago_core.contract import PARAMS, WORKSPACE, workspace_document
from perago_core.ports import Assignment, Clock
from perago_core.results import Completed, Result, status_of
from perago_core.values import Attempt, CommitRef, Target, TaskSnapshot, TaskStatus
from perago_simulation.ports.serving import ByReference, Dispatcher, served

_RETRIED = (TaskStatus.FAILED, TaskStatus.TIMED_OUT)


@define
class Task:
    """One task: one try at one step."""

    id: str
    step: int
    retry_count: int
    input: CommitRef
    queued_at: float | None
    status: TaskStatus = TaskStatus.SCHEDULED
    worker_id: str = ""
    started_at: int = 0
    poll_count: int = 0
    heard_at: float = 0.0
    execution: str | None = None
    result: Result | None = None


@define
class Workflow:
    """One run of a list of steps."""

    id: str
    steps: tuple[str, ...]
    target: Target
    retries: int
    retry_delay: float
    response_timeout: float
    running: bool = True
    tasks: list[Task] = Factory(list[Task])
    handed_out: dict[int, int] = Factory(dict[int, int])


class SimulatedOrchestrator(ByReference):
    """The ``Orchestrator`` port over memory."""

    PORT: ClassVar[str] = "orchestrator"

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self._clock = clock
        self._workflows: dict[str, Workflow] = {}

    # -----------------------------------------------------------------------------------------------------------------
    # The port

    @served
    def poll(self, worker_id: str, task_names: tuple[str, ...], limit: int) -> Answer[tuple[Assignment, ...]]:
        """Hand out up to ``limit`` tasks that wait."""
        self._pass_time()
        now = self._clock.now()
        waiting = [
            (workflow, task)
            for workflow in self._workflows.values()
            for task in workflow.tasks
            if task.queued_at is not None and task.queued_at <= now and workflow.steps[task.step] in task_names
        ]
        return Done(tuple(self._hand_out(*each, worker_id) for each in waiting[:limit]))

    @served
    def reload(self, workflow_id: str | None, task_id: str) -> Answer[TaskSnapshot | None]:
        """Read a task and its workflow."""
        self._pass_time()
        found = self._find(workflow_id, task_id)
        return Done(None if found is None else _snapshot(*found))

    @served
    def extend(self, attempt: Attempt) -> Answer[None]:
        """Hear that an attempt lives; nothing is said if it is not wanted any more."""
        self._pass_time()
        found = self._find(attempt.workflow_id, attempt.task_id)
        if found is None:
            return NotDone(f"there is no task {attempt.task_id} in workflow {attempt.workflow_id}")
        found[1].heard_at = self._clock.now()
        return Done(None)

    @served
    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        """Take a result if the task is open, whoever sends it; else ignore it and say nothing of that."""
        self._pass_time()
        found = self._find(attempt.workflow_id, attempt.task_id)
        if found is None:
            return NotDone(f"there is no task {attempt.task_id} in workflow {attempt.workflow_id}")
        workflow, task = found
        if workflow.running and task.status.is_open:
            task.execution, task.result = attempt.execution, result
            self._end(workflow, task, status_of(result))
        return Done(None)

    # -----------------------------------------------------------------------------------------------------------------
    # What people do

    def start(
        self,
        steps: tuple[str, ...],
        target: Target,
        ref: CommitRef,
        *,
        retries: int = 2,
        retry_delay: float = 0.0,
        response_timeout: float = 60.0,
    ) -> str:
        """Start a workflow and give its id."""
        with self.dispatcher.lock:
            workflow_id = f"wf-{len(self._workflows) + 1}"
            workflow = Workflow(workflow_id, steps, target, retries, retry_delay, response_timeout)
            self._workflows[workflow_id] = workflow
            self._schedule(workflow, 0, ref)
            return workflow_id

    def terminate(self, workflow_id: str) -> None:
        """End a workflow."""
        with self.dispatcher.lock:
            self._pass_time()
            workflow = self._workflows[workflow_id]
            workflow.running = False
            for task in workflow.tasks:
                if task.status.is_open:
                    task.status, task.queued_at = TaskStatus.CANCELED, None

    def redeliver(self, workflow_id: str, task_id: str) -> None:
        """Queue an open task once more, although somebody may be working on it."""
        with self.dispatcher.lock:
            self._pass_time()
            task = self._open_task(workflow_id, task_id)
            task.queued_at = self._clock.now()

    def give_up(self, workflow_id: str, task_id: str) -> None:
        """Time a task out now."""
        with self.dispatcher.lock:
            self._pass_time()
            task = self._open_task(workflow_id, task_id)
            self._end(self._workflows[workflow_id], task, TaskStatus.TIMED_OUT)

    def workflow(self, workflow_id: str) -> Workflow:
        """Return everything about a workflow, to look at."""
        with self.dispatcher.lock:
            self._pass_time()
            return self._workflows[workflow_id]

    # -----------------------------------------------------------------------------------------------------------------

    def _hand_out(self, workflow: Workflow, task: Task, worker_id: str) -> Assignment:
        """Assign a task. Its number is greater than that of every delivery of the same step before (ADR 5)."""
        task.queued_at = None
        task.status = TaskStatus.IN_PROGRESS
        task.worker_id = worker_id
        task.started_at = task.started_at or self._clock.wall()
        task.poll_count += 1
        task.heard_at = self._clock.now()
        number = workflow.handed_out[task.step] = workflow.handed_out.get(task.step, 0) + 1
        name = workflow.steps[task.step]
        return Assignment(
            snapshot=_snapshot(workflow, task),
            task_name=name,
            logical_task=f"{workflow.id}/{task.step}/{name}",
            number=number,
            input=json.dumps({PARAMS: {}, WORKSPACE: workspace_document(workflow.target, task.input)}),
            response_timeout=workflow.response_timeout,
        )

    def _schedule(
        self, workflow: Workflow, step: int, ref: CommitRef, retry_count: int = 0, delay: float = 0.0
    ) -> None:
        task_id = f"{workflow.id}-task-{len(workflow.tasks) + 1}"
        workflow.tasks.append(Task(task_id, step, retry_count, ref, self._clock.now() + delay))

    def _end(self, workflow: Workflow, task: Task, status: TaskStatus) -> None:
        """End a task and schedule what follows: the next step, a retry, or nothing more."""
        task.status, task.queued_at = status, None
        if isinstance(task.result, Completed) and task.step + 1 < len(workflow.steps):
            self._schedule(workflow, task.step + 1, task.result.ref)
        elif status in _RETRIED and task.retry_count < workflow.retries:
            self._schedule(workflow, task.step, task.input, task.retry_count + 1, workflow.retry_delay)
        else:
            workflow.running = False

    def _pass_time(self) -> None:
        now = self._clock.now()
        for workflow in self._workflows.values():
            for task in list(workflow.tasks):
                if task.status is TaskStatus.IN_PROGRESS and now - task.heard_at > workflow.response_timeout:
                    self._end(workflow, task, TaskStatus.TIMED_OUT)

    def _find(self, workflow_id: str | None, task_id: str) -> tuple[Workflow, Task] | None:
        for workflow in self._workflows.values():
            for task in workflow.tasks:
                if task.id == task_id and workflow_id in {None, workflow.id}:
                    return workflow, task
        return None

    def _open_task(self, workflow_id: str, task_id: str) -> Task:
        found = self._find(workflow_id, task_id)
        if found is None or not found[1].status.is_open:
            message = f"expected an open task {task_id} in workflow {workflow_id}, found {found and found[1].status}"
            raise ValueError(message)
        return found[1]


def _snapshot(workflow: Workflow, task: Task) -> TaskSnapshot:
    result = task.result
    return TaskSnapshot(
        workflow_id=workflow.id,
        task_id=task.id,
        retry_count=task.retry_count,
        status=task.status,
        worker_id=task.worker_id,
        started_at=task.started_at,
        poll_count=task.poll_count,
        workflow_running=workflow.running,
        result_execution=task.execution,
        result_ref=result.ref if isinstance(result, Completed) else None,
    )
