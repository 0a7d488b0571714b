"""Pipelines on the embedded orchestrator."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from perago_core.contract import PARAMS, is_object
from perago_core.pipelines import (
    AttemptView,
    DeclaredPipeline,
    DeclaredTask,
    Delivery,
    Pipelines,
    PipelineView,
    RunLine,
    TaskName,
    TaskPlace,
    steps_of,
)
from perago_core.values import CommitRef, Target, TaskStatus
from perago_local.orchestrator.port import SqliteOrchestrator
from perago_local.orchestrator.workflow import TaskDefinition, WorkflowStep, workspace_in


class EmbeddedPipelines(Pipelines):
    """Pipelines on the embedded orchestrator."""

    def __init__(self, orchestrator: SqliteOrchestrator) -> None:
        self._orchestrator = orchestrator

    @property
    def shared(self) -> bool:
        """Return false: its file belongs to one project."""
        return False

    def register(self, tasks: Iterable[DeclaredTask]) -> None:
        """Make the tasks known."""
        for each in tasks:
            self._orchestrator.register(
                TaskDefinition(
                    name=each.name,
                    retry_count=each.retries,
                    retry_delay=each.retry_delay,
                    response_timeout=each.response_timeout,
                ),
            )

    def described(self, task: DeclaredTask) -> Mapping[str, Any]:
        """Describe a task in the fields this orchestrator keeps."""
        return {
            "retryCount": task.retries,
            "retryDelaySeconds": task.retry_delay,
            "responseTimeoutSeconds": task.response_timeout,
        }

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is registered, by name, in the fields this orchestrator keeps."""
        return {
            each.name: {
                "retryCount": each.retry_count,
                "retryDelaySeconds": each.retry_delay,
                "responseTimeoutSeconds": each.response_timeout,
            }
            for each in self._orchestrator.definitions()
        }

    def define(self, name: str, pipeline: DeclaredPipeline) -> None:
        """Do nothing: a pipeline is given when it is started."""

    def unlike(self, name: str, pipeline: DeclaredPipeline) -> tuple[str, ...] | None:  # noqa: ARG002  as above
        """Find no difference: nothing is kept that could differ."""
        return ()

    def start(
        self, name: str, pipeline: DeclaredPipeline, ref: CommitRef | None, params: Mapping[str, Any] | None = None
    ) -> str:
        """Start a pipeline at a commit; steps side by side run in their order, of which the last one may write."""
        steps = tuple(WorkflowStep(each.label, each.task, each.params, each.place) for each in steps_of(name, pipeline))
        target = None if ref is None else Target(pipeline.repository, pipeline.branch)
        return self._orchestrator.start_workflow(name, steps, params or {}, target=target, ref=ref)

    def rivals(self, target: Target, names: Iterable[str]) -> tuple[str, ...]:  # noqa: ARG002  all are asked
        """Return the workflows that run on this target."""
        return tuple(each.workflow_id for each in self._orchestrator.workflows() if each.target == target)

    def unattended(self, view: PipelineView) -> tuple[str, ...]:  # noqa: ARG002  it cannot tell
        """Name none: this orchestrator does not remember who asked."""
        return ()

    def view(self, workflow_id: str) -> PipelineView | None:
        """Return a workflow and its attempts."""
        found = self._orchestrator.workflow(workflow_id)
        if found is None:
            return None
        attempts = tuple(
            AttemptView(
                each.task_id,
                each.step,
                each.number or each.retry_count + 1,  # one that nobody has taken yet has no number
                each.status,
                each.worker_id,
                each.reason,
                each.result_ref,
                each.started_at,
                each.ended_at,
            )
            for each in self._orchestrator.tasks(workflow_id)
        )
        return PipelineView(
            found.workflow_id,
            found.name,
            found.status.value,
            found.reason,
            attempts,
            json.loads(found.output),
            found.created_at,
            found.ended_at,
            found.target,
            found.ref,
        )

    def running(self) -> tuple[PipelineView, ...]:
        """Return every workflow that runs."""
        found = (self.view(each.workflow_id) for each in self._orchestrator.workflows())
        return tuple(each for each in found if each is not None)

    def everything(self) -> tuple[PipelineView, ...]:
        """Return every workflow that runs or has ended."""
        found = (self.view(each.workflow_id) for each in self._orchestrator.workflows(None))
        return tuple(each for each in found if each is not None)

    def newest(self, limit: int, skip: int = 0, *, name: str = "", states: Collection[str] = ()) -> tuple[RunLine, ...]:
        """List so many runs, newest first."""
        return tuple(
            RunLine(
                each.workflow_id,
                each.name,
                each.status.value,
                each.created_at,
                each.ended_at,
                each.done,
                each.steps,
            )
            for each in self._orchestrator.newest(limit, skip, name, states)
        )

    def tasks_like(self, beginning: str) -> tuple[TaskName, ...]:
        """Name the attempts whose id begins like this."""
        found = self._orchestrator.tasks_like(beginning)
        return tuple(TaskName(each.task_id, each.workflow_id, each.step) for each in found)

    def find(self, task_id: str) -> TaskPlace | None:
        """Return where an attempt belongs."""
        found = self._orchestrator.task(task_id)
        if found is None:
            return None
        target, ref = workspace_in(found.input)
        done = [
            each.number
            for each in self._orchestrator.tasks(found.workflow_id)
            if each.logical_task == found.logical_task and each.status is TaskStatus.COMPLETED
        ]
        given: Any = json.loads(found.input).get(PARAMS)
        accepted = done[0] if done else None
        return TaskPlace(
            found.workflow_id, found.logical_task, target, accepted, given if is_object(given) else {}, ref
        )

    def delivery(self, task_id: str) -> Delivery | None:
        """Return whose task this is and whether it is open."""
        found = self._orchestrator.task(task_id)
        return None if found is None else Delivery(found.logical_task, found.number, found.status.is_open)

    def settled(self, logical_tasks: Collection[str], older_than: float, *, unknown: bool = False) -> frozenset[str]:
        """Return those of these tasks whose workflow has ended so long ago; with ``unknown`` those of none here too."""
        latest = time.time() * 1000 - older_than * 1000
        over = {
            each.workflow_id: each.status.value != "RUNNING" and each.ended_at <= latest
            for each in self._orchestrator.workflows(None)
        }
        return frozenset(task for task in logical_tasks if over.get(task.partition("/")[0], unknown))

    def log(self, task_id: str) -> tuple[str, ...]:
        """Return what was written about an attempt."""
        return tuple(each.line for each in self._orchestrator.logs(task_id))

    def stop(self, workflow_id: str, reason: str) -> None:
        """Terminate a workflow."""
        self._orchestrator.terminate(workflow_id, reason)

    def retry(self, workflow_id: str) -> None:
        """Try the step at which it stopped once more."""
        self._orchestrator.retry(workflow_id)

    def remove(self, workflow_id: str) -> None:
        """Forget one that has ended."""
        self._orchestrator.remove(workflow_id)

    def work_only_on(self, workflow_id: str) -> bool:
        """Let polls bring tasks of this workflow only."""
        self._orchestrator.only = workflow_id
        return True
