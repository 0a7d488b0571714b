"""Pipelines as people see them: start one, watch it, say how it ended. The same words for every orchestrator.

What an orchestrator offers beyond its port differs; each gets one small class here that speaks these words.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from perago_core.answers import Done
from perago_core.garbage import Living
from perago_core.values import CommitRef, Target, TaskStatus
from perago_worker.settings import PipelineSettings
from perago_worker.stack import Stack, StackError
from perago_worker.task import TaskDefinition

if TYPE_CHECKING:
    from perago_local.orchestrator import SqliteOrchestrator


@frozen
class AttemptView:
    """One attempt of one step."""

    task_id: str
    step: str
    number: int
    status: TaskStatus
    worker_id: str = ""
    reason: str = ""
    ref: str | None = None
    started_at: int = 0
    ended_at: int = 0


@frozen
class PipelineView:
    """A running or finished pipeline. ``output`` is what each finished step gave, by step name."""

    workflow_id: str
    name: str
    status: str
    reason: str = ""
    attempts: tuple[AttemptView, ...] = ()
    output: Mapping[str, Any] = field(factory=dict[str, Any])

    @property
    def running(self) -> bool:
        """Say whether it is still under way."""
        return self.status == "RUNNING"

    @property
    def succeeded(self) -> bool:
        """Say whether every step was accepted."""
        return self.status == "COMPLETED"


@frozen
class TaskPlace:
    """Where an attempt belongs. ``accepted`` is the number of the attempt of its task whose result was taken."""

    workflow_id: str
    logical_task: str
    target: Target
    accepted: int | None = None


class Pipelines(Protocol):
    """What a person does with an orchestrator."""

    def register(self, tasks: Iterable[TaskDefinition]) -> None:
        """Make the tasks known."""
        ...

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        """Give what is registered, by name, in the fields the orchestrator keeps (see ``taskdefs``)."""
        ...

    def start(
        self, name: str, pipeline: PipelineSettings, ref: CommitRef | None, params: Mapping[str, Any] | None = None
    ) -> str:
        """Start a pipeline at a commit (``None``: it has no workspace) and give the workflow's id."""
        ...

    def view(self, workflow_id: str) -> PipelineView | None:
        """Look at one."""
        ...

    def running(self) -> tuple[PipelineView, ...]:
        """Look at all that run."""
        ...

    def everything(self) -> tuple[PipelineView, ...]:
        """Look at all that run or have ended."""
        ...

    def find(self, task_id: str) -> TaskPlace | None:
        """Say where an attempt belongs."""
        ...

    def living(self) -> tuple[Living, ...]:
        """Give every attempt that is open."""
        ...

    def settled(self, logical_tasks: Collection[str], older_than: float) -> frozenset[str]:
        """Give those of these tasks whose workflow has ended, and so many seconds ago."""
        ...

    def log(self, task_id: str) -> tuple[str, ...]:
        """Give what was written about an attempt."""
        ...

    def stop(self, workflow_id: str, reason: str) -> None:
        """End one; attempts that run are refused from now on."""
        ...


def pipelines_of(stack: Stack) -> Pipelines:
    """Give the words for this stack's orchestrator."""
    from perago_local.orchestrator import SqliteOrchestrator  # noqa: PLC0415  adapters are imported when they are used

    if isinstance(stack.orchestrator, SqliteOrchestrator):
        return EmbeddedPipelines(stack.orchestrator)
    raise StackError(f"pipelines cannot be started on {type(stack.orchestrator).__name__} yet")


def head_of(stack: Stack, target: Target) -> CommitRef:
    """Give the commit a pipeline starts from: the head of its target."""
    found = stack.store.head(target)
    if isinstance(found, Done) and found.value is not None:
        return found.value.commit.ref
    reason = "there is no such branch" if isinstance(found, Done) else found.reason
    raise StackError(f"{target} cannot be read: {reason}. Create it in the store, then try again")


class EmbeddedPipelines:
    """Pipelines on the embedded orchestrator."""

    def __init__(self, orchestrator: SqliteOrchestrator) -> None:
        self._orchestrator = orchestrator

    def register(self, tasks: Iterable[TaskDefinition]) -> None:
        """Make the tasks known."""
        from perago_local.workflow import TaskDefinition as Registered  # noqa: PLC0415  only who runs on it needs it

        for each in tasks:
            self._orchestrator.register(
                Registered(
                    name=each.name,
                    retry_count=each.retries,
                    retry_delay=each.retry_delay,
                    response_timeout=each.response_timeout,
                ),
            )

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        """Give what is registered, by name, in the fields this orchestrator keeps."""
        return {
            each.name: {
                "retryCount": each.retry_count,
                "retryDelaySeconds": each.retry_delay,
                "responseTimeoutSeconds": each.response_timeout,
            }
            for each in self._orchestrator.definitions()
        }

    def start(
        self, name: str, pipeline: PipelineSettings, ref: CommitRef | None, params: Mapping[str, Any] | None = None
    ) -> str:
        """Start a pipeline at a commit."""
        from perago_local.workflow import Step  # noqa: PLC0415  as above

        steps = tuple(Step(each.name or each.task, each.task, each.params) for each in pipeline.steps)
        target = None if ref is None else Target(pipeline.repository, pipeline.branch)
        return self._orchestrator.start_workflow(name, steps, params or {}, target=target, ref=ref)

    def view(self, workflow_id: str) -> PipelineView | None:
        """Look at one."""
        found = self._orchestrator.workflow(workflow_id)
        if found is None:
            return None
        attempts = tuple(
            AttemptView(
                each.task_id,
                each.step,
                each.number,
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
        )

    def running(self) -> tuple[PipelineView, ...]:
        """Look at all that run."""
        found = (self.view(each.workflow_id) for each in self._orchestrator.workflows())
        return tuple(each for each in found if each is not None)

    def everything(self) -> tuple[PipelineView, ...]:
        """Look at all that run or have ended."""
        found = (self.view(each.workflow_id) for each in self._orchestrator.workflows(None))
        return tuple(each for each in found if each is not None)

    def find(self, task_id: str) -> TaskPlace | None:
        """Say where an attempt belongs."""
        found = self._orchestrator.task(task_id)
        if found is None:
            return None
        given = json.loads(found.input).get("workspace", {})
        target = Target(given.get("repository", "-"), given.get("branch", "-"))
        done = [
            each.number
            for each in self._orchestrator.tasks(found.workflow_id)
            if each.logical_task == found.logical_task and each.status is TaskStatus.COMPLETED
        ]
        return TaskPlace(found.workflow_id, found.logical_task, target, done[0] if done else None)

    def living(self) -> tuple[Living, ...]:
        """Give every attempt that is open."""
        return tuple(Living(each.logical_task, each.number) for each in self._orchestrator.open_tasks())

    def settled(self, logical_tasks: Collection[str], older_than: float) -> frozenset[str]:
        """Give those of these tasks whose workflow has ended, and so many seconds ago."""
        latest = time.time() * 1000 - older_than * 1000
        ended = {
            each.workflow_id
            for each in self._orchestrator.workflows(None)
            if each.status.value != "RUNNING" and each.ended_at <= latest
        }
        return frozenset(task for task in logical_tasks if task.partition("/")[0] in ended)

    def log(self, task_id: str) -> tuple[str, ...]:
        """Give what was written about an attempt."""
        return tuple(each.line for each in self._orchestrator.logs(task_id))

    def stop(self, workflow_id: str, reason: str) -> None:
        """End one."""
        self._orchestrator.terminate(workflow_id, reason)
