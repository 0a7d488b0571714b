"""Pipelines on Conductor: define, start, look, stop. Asks its REST API and gives values; decides nothing.

Which reads can be trusted (tried on 3.32.3): a workflow, a task, and ``running/NAME`` come from the execution store
and are always current, paused and ad-hoc workflows included. ``search`` comes from an index that may lag on other
backends than SQL. ``correlated`` leaves paused workflows out, so it is not used.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from attrs import frozen

from perago_conductor.documents import (
    RECOVERY_SUFFIX,
    VERSION,
    Document,
    Json,
    assignment_of,
    documents,
    task_document,
    unlike,
    workflow_document,
)
from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conductor.transport import Gone
from perago_core.answers import Answer, Done
from perago_core.budget import PublishBudget
from perago_core.contract import NOWHERE, PARAMS, REF, WORKSPACE, is_object, workspace_document
from perago_core.pipelines import (
    AttemptView,
    DeclaredPipeline,
    DeclaredTask,
    Delivery,
    OrchestratorError,
    Pipelines,
    PipelineView,
    RunLine,
    TaskName,
    TaskPlace,
    quoted,
    steps_of,
)
from perago_core.ports import Assignment
from perago_core.values import CommitRef, Target, TaskStatus

#: Statuses of a workflow in which its tasks may still run.
ACTIVE = frozenset({"RUNNING", "PAUSED"})
#: How many workflows one page of a search shows.
_PAGE = 100
#: How many are shown of all workflows that ever ran.
_NEWEST = 50
#: Workers ask every few seconds; who has not for so long, in milliseconds, is no worker any more.
_LATELY = 30_000
_SCHEMAS = ("inputSchema", "outputSchema")


@frozen
class TaskSeen:
    """One attempt of one step as the server shows it. Times are milliseconds since the epoch, 0 for not yet."""

    assignment: Assignment
    step: str
    reason: str
    started_at: int
    ended_at: int
    input: Mapping[str, Any]
    output: Mapping[str, Any]


@frozen
class WorkflowSeen:
    """A workflow as the server shows it, with the attempts of its steps in the order in which they were scheduled."""

    workflow_id: str
    name: str
    status: str
    reason: str
    started_at: int
    ended_at: int
    input: Mapping[str, Any]
    output: Mapping[str, Any]
    tasks: tuple[TaskSeen, ...]

    @property
    def active(self) -> bool:
        """Return whether its tasks may still run."""
        return self.status in ACTIVE


class ConductorPipelines(Pipelines):
    """Pipelines on one Conductor server. What is registered there is made to fit the publish budget."""

    def __init__(self, orchestrator: ConductorOrchestrator, budget: PublishBudget) -> None:
        transport = orchestrator.transport
        self._transport = transport
        self._metadata, self._workflows, self._tasks = transport.metadata, transport.workflows, transport.tasks
        self._domain = orchestrator.domain
        self._budget = budget

    # ---- definitions

    @property
    def shared(self) -> bool:
        """Return true: anybody may define tasks and workflows there."""
        return True

    def register(self, tasks: Iterable[DeclaredTask]) -> None:
        """Register the tasks, over whatever was there. Workflows that run keep the old definitions."""
        for each in tasks:
            self._ask(self._metadata.register_task_def, [self.described(each)])

    def described(self, task: DeclaredTask) -> Document:
        """Describe a task as it is registered."""
        return task_document(task, self._budget)

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is registered, by name, without what the server adds to a schema."""
        return {each["name"]: _without_times(each) for each in self._find(self._metadata.get_task_defs) or ()}

    def define(self, name: str, pipeline: DeclaredPipeline) -> None:
        """Register a pipeline's workflow, and the one that settles what a failed run has left open."""
        answer = self._ask(self._metadata.update1, list(documents(name, pipeline)))
        refused: dict[str, str] = answer["bulkErrorResults"]
        if refused:
            reasons = "; ".join(f"{each}: {why}" for each, why in refused.items())
            raise OrchestratorError(f"Conductor did not take the definition of {reasons}")

    def unlike(self, name: str, pipeline: DeclaredPipeline) -> tuple[str, ...] | None:
        """Name the fields of its workflows that are defined otherwise; ``None``: one is not defined at all."""
        found: list[str] = []
        for wanted in documents(name, pipeline):
            known: Document | None = self._find(self._metadata.get, wanted["name"], version=VERSION)
            if known is None:
                return None
            found += [f"{wanted['name']}.{each}" for each in unlike(wanted, known)]
        return tuple(found)

    # ---- workflows

    def start(
        self, name: str, pipeline: DeclaredPipeline, ref: CommitRef | None, params: Mapping[str, Any] | None = None
    ) -> str:
        """Start a pipeline: by its name if it is defined as declared, else from its declaration if it is not at all."""
        given: Document = {"params": dict(params or {})}
        _check_params(name, pipeline, given["params"])
        self._check_tasks(name, pipeline)
        request: Document = {"name": name, "version": VERSION, "input": given}
        if ref is not None:
            target = Target(pipeline.repository, pipeline.branch)
            given[WORKSPACE] = workspace_document(target, ref)
            request["correlationId"] = str(target)
        if self._domain:
            request["taskToDomain"] = {"*": self._domain}
        if self.unlike(name, pipeline) is None:
            request["workflowDef"] = workflow_document(name, pipeline, has_target=ref is not None)
        return str(self._ask(self._workflows.start_workflow, request))

    def rivals(self, target: Target, names: Iterable[str]) -> tuple[str, ...]:
        """Return the workflows that may write to this target now.

        Those of pipelines whose names are known are read from the execution store, and none is missed. Those of other
        projects are found by their correlation id, the target, in the search index, which may lag behind.
        """
        known = [each for name in names for each in self._running(name)]
        query = f'correlationId = "{target}" AND status IN (RUNNING,PAUSED)'
        found = (self._workflow(each) for each in dict.fromkeys((*known, *self._search(query))))
        return tuple(
            each.workflow_id
            for each in found
            if each is not None
            and each.active
            and _target_of(each.input) == target
            and not each.name.endswith(RECOVERY_SUFFIX)
        )

    def unattended(self, view: PipelineView) -> tuple[str, ...]:
        """Name the tasks it waits for that no worker has asked for lately."""
        seen = self._workflow(view.workflow_id)
        waiting = {
            each.assignment.task_name
            for each in (() if seen is None else seen.tasks)
            if each.assignment.snapshot.status is TaskStatus.SCHEDULED
        }
        now = time.time() * 1000
        return tuple(sorted(task for task in waiting if self._last_poll(task) < now - _LATELY))

    def view(self, workflow_id: str) -> PipelineView | None:
        """Return a workflow and its attempts."""
        found = self._workflow(workflow_id)
        return None if found is None else _view(found)

    def running(self) -> tuple[PipelineView, ...]:
        """Return every workflow that has not ended: of every registered name, and what the index shows."""
        names: list[str] = self._find(self._transport.get, "/metadata/workflow/names") or []
        known = [each for name in names for each in self._running(name)]
        return self._views(dict.fromkeys((*known, *self._search("status IN (RUNNING,PAUSED)"))))

    def everything(self) -> tuple[PipelineView, ...]:
        """Return the newest of all that run or have ended."""
        return self._views(self._search(limit=_NEWEST))

    def newest(self, limit: int, skip: int = 0, *, name: str = "", states: Collection[str] = ()) -> tuple[RunLine, ...]:
        """List so many runs, newest first: what runs is always current, what has ended is as the index knows it."""
        if '"' in name:
            return ()  # no workflow can be called so, and a query must not be
        wanted = [f'workflowType = "{name}"'] * bool(name) + [f"status IN ({','.join(sorted(states))})"] * bool(states)
        under_way = {
            each.workflow_id: each
            for each in self.running()
            if name in {"", each.name} and (not states or each.status in states)
        }
        starts = {each.workflow_id: each.started_at for each in under_way.values()}
        for each in self._summaries(" AND ".join(wanted), skip + limit):
            starts.setdefault(each["workflowId"], _milliseconds(each.get("startTime")))
        chosen = sorted(starts, key=lambda each: starts[each], reverse=True)[skip : skip + limit]
        views = (under_way.get(each) or self.view(each) for each in chosen)
        return tuple(
            RunLine(each.workflow_id, each.name, each.status, each.started_at, each.ended_at, len(each.output))
            for each in views
            if each is not None and (not states or each.status in states)
        )

    def tasks_like(self, beginning: str) -> tuple[TaskName, ...]:
        """Name the attempts of the newest runs whose id begins like this."""
        return tuple(
            TaskName(each.task_id, view.workflow_id, each.step)
            for view in self.everything()
            for each in view.attempts
            if each.task_id.startswith(beginning)
        )

    def find(self, task_id: str) -> TaskPlace | None:
        """Return where an attempt belongs."""
        task = self._task(task_id)
        if task is None:
            return None
        assignment = task.assignment
        workflow = self._workflow(assignment.snapshot.workflow_id)
        attempts = () if workflow is None else _numbered(workflow.tasks)
        accepted = [
            number
            for number, each in attempts
            if each.step == task.step and each.assignment.snapshot.status is TaskStatus.COMPLETED
        ]
        return TaskPlace(
            assignment.snapshot.workflow_id,
            assignment.logical_task,
            _target_of(task.input) or NOWHERE,
            accepted[0] if accepted else None,
            given if is_object(given := task.input.get(PARAMS)) else {},
            _begun_at(task.input),
        )

    def delivery(self, task_id: str) -> Delivery | None:
        """Return whose task this is and whether it is open."""
        found = self._task(task_id)
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
            found = self._workflow(workflow_id)
            over[workflow_id] = unknown if found is None else found.status == "COMPLETED" and found.ended_at <= latest
        return frozenset(task for task in logical_tasks if over[task.partition("/")[0]])

    def log(self, task_id: str) -> tuple[str, ...]:
        """Return what was written about an attempt, oldest first."""
        lines = self._find(self._tasks.get_task_logs, task_id) or ()
        return tuple(each["log"] for each in sorted(lines, key=lambda line: line.get("createdTime", 0)))

    def stop(self, workflow_id: str, reason: str) -> None:
        """Terminate a workflow; attempts that run are refused from now on. Done also when it has ended."""
        self._ask(self._workflows.terminate, workflow_id, reason=reason)

    def retry(self, workflow_id: str) -> None:
        """Let an ended workflow go on from the task that failed; refused if there is none."""
        self._ask(self._workflows.retry, workflow_id)

    def remove(self, workflow_id: str) -> None:
        """Forget an ended workflow. The server would remove a running one as well, and nobody could stop its tasks."""
        found = self._workflow(workflow_id)
        if found is not None and found.active:
            raise OrchestratorError(f"expected an ended workflow to remove, found {workflow_id} running: cancel it")
        self._ask(self._workflows.delete, workflow_id, archive_workflow=False)

    def work_only_on(self, workflow_id: str) -> bool:
        """Say no: a poll names tasks and a domain, and a domain nobody polls any more would keep what it holds."""
        del workflow_id
        return False

    # ---- what the server shows

    def _check_tasks(self, name: str, pipeline: DeclaredPipeline) -> None:
        """Conductor starts a workflow with tasks it does not know, and waits an hour for each dead worker."""
        missing = sorted({step.task for step in steps_of(name, pipeline)} - set(self.registered()))
        if missing:
            raise OrchestratorError(f"pipeline {name}: not registered: {', '.join(missing)}. Run `perago register`")

    def _views(self, ids: Iterable[str]) -> tuple[PipelineView, ...]:
        found = (self.view(each) for each in ids)
        return tuple(each for each in found if each is not None)

    def _workflow(self, workflow_id: str) -> WorkflowSeen | None:
        found = self._find(self._workflows.get_execution_status, workflow_id, include_tasks="true")
        return None if found is None else _workflow(found)

    def _task(self, task_id: str) -> TaskSeen | None:
        found = self._find(self._tasks.get_task, task_id)
        return None if found is None else _task(found)

    def _running(self, name: str) -> tuple[str, ...]:
        """Return the ids of the workflows of this name that have not ended; always current."""
        return tuple(self._find(self._workflows.get_running_workflow, name) or ())

    def _search(self, query: str = "", limit: int = 10_000) -> tuple[str, ...]:
        """Return the ids of workflows in the index, newest first."""
        return tuple(each["workflowId"] for each in self._summaries(query, limit))

    def _summaries(self, query: str, limit: int) -> list[Document]:
        """Return what the index says of workflows, newest first."""
        found: list[Document] = []
        while len(found) < limit:
            page = self._ask(
                self._transport.get,  # the library's search cannot be told an order
                "/workflow/search",
                query={"query": query, "start": len(found), "size": min(_PAGE, limit), "sort": "startTime:DESC"},
            )
            results: list[Document] = page["results"]
            found += results
            if not results or len(found) >= page["totalHits"]:
                break
        return found[:limit]

    def _last_poll(self, task: str) -> int:
        """Return when a worker last asked for tasks of this name, in milliseconds since the epoch; 0 for never."""
        polls: list[Document] = self._find(self._tasks.get_poll_data, task) or []
        ours = [each["lastPollTime"] for each in polls if (each.get("domain") or "") == self._domain]
        return max(ours, default=0)

    def _find(self, call: Callable[..., Json], *given: object, **named: Json) -> Json:
        """Ask for something and return it, ``None`` if it is not there."""
        answer = self._transport.ask(call, *given, **named)
        return None if isinstance(answer, Gone) else _value(answer)

    def _ask(self, call: Callable[..., Json], *given: object, **named: Json) -> Json:
        """Send a request once and return its answer; raise if it was refused or nobody knows."""
        return _value(self._transport.ask(call, *given, **named))


def _value(answer: Answer[Json]) -> Json:
    if isinstance(answer, Done):
        return answer.value
    raise OrchestratorError(answer.reason)


def _milliseconds(moment: str | None) -> int:
    """Read a moment as the index writes it; one it does not know is long ago."""
    try:
        return round(datetime.fromisoformat(moment).timestamp() * 1000) if moment else 0
    except (TypeError, ValueError):
        return 0


def _target_of(given: Mapping[str, Any]) -> Target | None:
    """Read the target out of the input of a workflow or a task."""
    workspace: Any = given.get("workspace")
    try:
        return Target(workspace["repository"], workspace["branch"])
    except (KeyError, TypeError, ValueError):
        return None


def _workflow(document: Document) -> WorkflowSeen:
    tasks: list[Document] = sorted(document.get("tasks") or (), key=lambda each: each.get("seq", 0))
    return WorkflowSeen(
        workflow_id=document["workflowId"],
        name=document["workflowName"],
        status=document["status"],
        reason=document.get("reasonForIncompletion") or "",
        started_at=document.get("createTime") or 0,
        ended_at=document.get("endTime") or 0,
        input=document.get("input") or {},
        output=document.get("output") or {},
        # Forks and joins are Conductor's own tasks; nobody attempts them.
        tasks=tuple(_task(each) for each in tasks if each["workflowTask"]["type"] == "SIMPLE"),
    )


def _task(document: Document) -> TaskSeen:
    return TaskSeen(
        assignment=assignment_of(document),
        step=document["referenceTaskName"],
        reason=document.get("reasonForIncompletion") or "",
        started_at=document.get("startTime") or 0,
        ended_at=document.get("endTime") or 0,
        input=document.get("inputData") or {},
        output=document.get("outputData") or {},
    )


def _check_params(name: str, pipeline: DeclaredPipeline, params: Mapping[str, Any]) -> None:
    """Conductor would put null for what was not given, and the mistake would show in the middle of the pipeline."""
    asked = {
        path.split(".")[1] for step in steps_of(name, pipeline) for path in quoted(step.params) if path[:7] == "params."
    }
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
        workflow.started_at,
        workflow.ended_at,
        _target_of(workflow.input),
        _begun_at(workflow.input),
    )


def _begun_at(given: Mapping[str, Any]) -> CommitRef | None:
    ref = given[WORKSPACE].get(REF) if _target_of(given) is not None else None
    return CommitRef(ref) if isinstance(ref, str) else None


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
