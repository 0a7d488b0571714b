"""Pipelines on Conductor: what is declared here as its documents, and what it shows as our views."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from perago_conductor.documents import RECOVERY_SUFFIX, Document, Pipeline, Step, documents, unlike
from perago_conductor.pipelines import OrchestratorError, TaskSeen, Workflows, WorkflowSeen, target_of
from perago_conductor.transport import Transport
from perago_core.budget import PublishBudget
from perago_core.contract import NOWHERE, REF, WORKSPACE, workspace_document
from perago_core.values import CommitRef, Target, TaskStatus
from perago_worker.api.task import TaskDefinition
from perago_worker.config.settings import PipelineSettings, recovery_task_name
from perago_worker.pipelines.checks import quoted
from perago_worker.pipelines.protocol import AttemptView, Delivery, PipelineView, TaskPlace
from perago_worker.pipelines.taskdefs import document

#: How many are shown of all workflows that ever ran.
_NEWEST = 50
#: Workers ask every few seconds; who has not for so long is no worker any more.
_LATELY = 30_000
_SCHEMAS = ("inputSchema", "outputSchema")


class OnConductor(Protocol):
    """An orchestrator on Conductor."""

    @property
    def transport(self) -> Transport:
        """Return the way to the server."""
        ...

    @property
    def domain(self) -> str:
        """Return whose tasks it takes; blank for everybody's."""
        ...


class ConductorPipelines:
    """Pipelines on one Conductor server."""

    #: Anybody may define tasks and workflows there.
    shared = True

    def __init__(self, workflows: Workflows, budget: PublishBudget) -> None:
        self._workflows = workflows
        self._budget = budget

    # ---- definitions

    def register(self, tasks: Iterable[TaskDefinition]) -> None:
        """Make the tasks known, over whatever was there."""
        self._workflows.register_tasks(document(each, self._budget) for each in tasks)

    def described(self, task: TaskDefinition) -> Mapping[str, Any]:
        """Describe a task as it is registered."""
        return document(task, self._budget)

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is registered, by name, without what the server adds to a schema."""
        return {name: _without_times(each) for name, each in self._workflows.task_definitions().items()}

    def define(self, name: str, pipeline: PipelineSettings) -> None:
        """Register a pipeline's workflow, and the one that settles what a failed run has left open."""
        self._workflows.register_pipeline(_declared(name, pipeline))

    def unlike(self, name: str, pipeline: PipelineSettings) -> tuple[str, ...] | None:
        """Name the fields of its workflows that are defined otherwise; ``None``: one is not defined at all."""
        found: list[str] = []
        for wanted in documents(_declared(name, pipeline)):
            known = self._workflows.pipeline_definition(wanted["name"])
            if known is None:
                return None
            found += [f"{wanted['name']}.{each}" for each in unlike(wanted, known)]
        return tuple(found)

    # ---- workflows

    def start(
        self, name: str, pipeline: PipelineSettings, ref: CommitRef | None, params: Mapping[str, Any] | None = None
    ) -> str:
        """Start a pipeline: by its name if it is defined as declared, else from its declaration if it is not at all."""
        given: Document = {"params": dict(params or {})}
        _check_params(name, pipeline, given["params"])
        self._check_tasks(name, pipeline)
        if ref is not None:
            given[WORKSPACE] = workspace_document(Target(pipeline.repository, pipeline.branch), ref)
        declared = _declared(name, pipeline, has_target=ref is not None)
        return self._workflows.start(declared, given, registered=self.unlike(name, pipeline) is not None)

    def rivals(self, target: Target, names: Iterable[str]) -> tuple[str, ...]:
        """Return the workflows that may write to this target now.

        Those of pipelines whose names are known are read from the execution store, and none is missed. Those of other
        projects are found by their correlation id, the target, in the search index, which may lag behind.
        """
        known = [each for name in names for each in self._workflows.running(name)]
        query = f'correlationId = "{target}" AND status IN (RUNNING,PAUSED)'
        found = (self._workflows.workflow(each) for each in dict.fromkeys((*known, *self._workflows.search(query))))
        return tuple(
            each.workflow_id
            for each in found
            if each is not None
            and each.active
            and target_of(each.input) == target
            and not each.name.endswith(RECOVERY_SUFFIX)
        )

    def unattended(self, view: PipelineView) -> tuple[str, ...]:
        """Name the tasks it waits for that no worker has asked for lately."""
        seen = self._workflows.workflow(view.workflow_id)
        waiting = {
            each.assignment.task_name
            for each in (() if seen is None else seen.tasks)
            if each.assignment.snapshot.status is TaskStatus.SCHEDULED
        }
        now = time.time() * 1000
        return tuple(sorted(task for task in waiting if self._workflows.last_poll(task) < now - _LATELY))

    def view(self, workflow_id: str) -> PipelineView | None:
        """Look at one."""
        found = self._workflows.workflow(workflow_id)
        return None if found is None else _view(found)

    def running(self) -> tuple[PipelineView, ...]:
        """Look at all that run."""
        return self._views(self._workflows.active())

    def everything(self) -> tuple[PipelineView, ...]:
        """Look at the newest of all that run or have ended."""
        return self._views(self._workflows.search(limit=_NEWEST))

    def find(self, task_id: str) -> TaskPlace | None:
        """Say where an attempt belongs."""
        task = self._workflows.task(task_id)
        if task is None:
            return None
        assignment = task.assignment
        workflow = self._workflows.workflow(assignment.snapshot.workflow_id)
        attempts = () if workflow is None else _numbered(workflow.tasks)
        accepted = [
            number
            for number, each in attempts
            if each.step == task.step and each.assignment.snapshot.status is TaskStatus.COMPLETED
        ]
        return TaskPlace(
            assignment.snapshot.workflow_id,
            assignment.logical_task,
            target_of(task.input) or NOWHERE,
            accepted[0] if accepted else None,
        )

    def delivery(self, task_id: str) -> Delivery | None:
        """Say whose task this is and whether it is open."""
        found = self._workflows.task(task_id)
        if found is None:
            return None
        assignment = found.assignment
        return Delivery(assignment.logical_task, assignment.number, assignment.snapshot.status.is_open)

    def settled(self, logical_tasks: Collection[str], older_than: float, *, unknown: bool = False) -> frozenset[str]:
        """Return the tasks whose workflow was completed so long ago; with ``unknown`` also those of no workflow here.

        A workflow that failed, timed out or was terminated can be retried or rerun as long as Conductor keeps it, and
        then its claims say who may replace what: they stay. One that is not here may have been removed, and may as well
        be another Conductor's.
        """
        latest = time.time() * 1000 - older_than * 1000
        over: dict[str, bool] = {}
        for workflow_id in {task.partition("/")[0] for task in logical_tasks}:
            found = self._workflows.workflow(workflow_id)
            over[workflow_id] = unknown if found is None else found.status == "COMPLETED" and found.ended_at <= latest
        return frozenset(task for task in logical_tasks if over[task.partition("/")[0]])

    def log(self, task_id: str) -> tuple[str, ...]:
        """Return what was written about an attempt."""
        return self._workflows.log(task_id)

    def stop(self, workflow_id: str, reason: str) -> None:
        """End one; attempts that run are refused from now on."""
        self._workflows.stop(workflow_id, reason)

    def _check_tasks(self, name: str, pipeline: PipelineSettings) -> None:
        """Conductor starts a workflow with tasks it does not know, and waits an hour for each dead worker."""
        missing = sorted({step.task for step in pipeline.all_steps} - set(self._workflows.task_definitions()))
        if missing:
            raise OrchestratorError(f"pipeline {name}: not registered: {', '.join(missing)}. Run `perago register`")

    def _views(self, ids: Iterable[str]) -> tuple[PipelineView, ...]:
        found = (self.view(each) for each in ids)
        return tuple(each for each in found if each is not None)


def pipelines_on(orchestrator: OnConductor, budget: PublishBudget) -> ConductorPipelines:
    """Speak for one."""
    return ConductorPipelines(Workflows(orchestrator.transport, orchestrator.domain), budget)


def _declared(name: str, pipeline: PipelineSettings, *, has_target: bool = True) -> Pipeline:
    stages = tuple(tuple(Step(each.label, each.task, each.params) for each in stage) for stage in pipeline.stages)
    target = Target(pipeline.repository, pipeline.branch) if has_target else None
    return Pipeline(name, stages, target, recovery_task_name(name) if pipeline.recovery and has_target else "")


def _check_params(name: str, pipeline: PipelineSettings, params: Mapping[str, Any]) -> None:
    """Conductor would put null for what was not given, and the mistake would show in the middle of the pipeline."""
    asked = {path.split(".")[1] for step in pipeline.all_steps for path in quoted(step.params) if path[:7] == "params."}
    missing = sorted(asked - set(params))
    if missing:
        first = missing[0]
        raise OrchestratorError(
            f"pipeline {name} quotes parameters that are not given: {', '.join(missing)}; add --param {first}=VALUE"
        )


def _view(workflow: WorkflowSeen) -> PipelineView:
    tasks = _numbered(workflow.tasks)
    return PipelineView(
        workflow.workflow_id,
        workflow.name,
        workflow.status,
        workflow.reason,
        tuple(_attempt(number, task) for number, task in tasks),
        {task.step: task.output for task in workflow.tasks if _is_done(task)},
    )


def _attempt(number: int, task: TaskSeen) -> AttemptView:
    snapshot = task.assignment.snapshot
    return AttemptView(
        snapshot.task_id,
        task.step,
        number,
        snapshot.status,
        snapshot.worker_id,
        task.reason,
        task.output.get(WORKSPACE, {}).get(REF) if _is_done(task) else None,
        task.started_at,
        task.ended_at,
    )


def _is_done(task: TaskSeen) -> bool:
    return task.assignment.snapshot.status is TaskStatus.COMPLETED


def _numbered(tasks: Iterable[TaskSeen]) -> tuple[tuple[int, TaskSeen], ...]:
    """Count the attempts of each step from one, as people do; the port's own numbers are made of times."""
    counted: Counter[str] = Counter()
    numbered: list[tuple[int, TaskSeen]] = []
    for each in tasks:
        counted[each.step] += 1
        numbered.append((counted[each.step], each))
    return tuple(numbered)


def _without_times(definition: Document) -> Document:
    schemas: Document = {
        key: {name: value for name, value in definition[key].items() if name not in {"createTime", "updateTime"}}
        for key in _SCHEMAS
        if definition.get(key)
    }
    return {**definition, **schemas}
