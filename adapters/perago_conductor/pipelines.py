"""What people do with Conductor: define, start, look, stop. Asks its REST API and gives values; decides nothing.

Which reads can be trusted (tried on 3.32.3): a workflow, a task, and ``running/NAME`` come from the execution store
and are always current, paused and ad-hoc workflows included. ``search`` comes from an index that may lag on other
backends than SQL. ``correlated`` leaves paused workflows out, so it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from perago_conductor.documents import (
    VERSION,
    Document,
    Json,
    Pipeline,
    assignment_of,
    documents,
    workflow_document,
)
from perago_conductor.transport import Gone, Transport
from perago_core.answers import Answer, Done
from perago_core.ports import Assignment
from perago_core.values import Target

#: Statuses of a workflow in which its tasks may still run.
ACTIVE = frozenset({"RUNNING", "PAUSED"})
#: How many workflows one page of a search shows.
_PAGE = 100


class OrchestratorError(Exception):
    """What a person asked for was not done, or nobody knows whether it was; the message says which, and why."""


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
        """Say whether its tasks may still run."""
        return self.status in ACTIVE


class Workflows:
    """Definitions and workflows of one server. ``domain``: whose workers do what is started here; blank: anyone's."""

    def __init__(self, transport: Transport, domain: str = "") -> None:
        self._transport = transport
        self._metadata, self._workflows, self._tasks = transport.metadata, transport.workflows, transport.tasks
        self._domain = domain

    # ---- definitions

    def register_tasks(self, definitions: Iterable[Document]) -> None:
        """Register task definitions, over whatever was there. Workflows that run keep the old ones."""
        for each in definitions:
            self._ask(self._metadata.register_task_def, [each])

    def task_definitions(self) -> dict[str, Document]:
        """Give every registered task definition by name."""
        return {each["name"]: each for each in self._find(self._metadata.get_task_defs) or ()}

    def register_pipeline(self, pipeline: Pipeline) -> None:
        """Register a pipeline's workflow and the one that recovers it."""
        answer = self._ask(self._metadata.update1, list(documents(pipeline)))
        refused: dict[str, str] = answer["bulkErrorResults"]
        if refused:
            told = "; ".join(f"{name}: {why}" for name, why in refused.items())
            raise OrchestratorError(f"Conductor did not take the definition of {told}")

    def pipeline_definition(self, name: str) -> Document | None:
        """Give a registered workflow definition."""
        found: Document | None = self._find(self._metadata.get, name, version=VERSION)
        return found

    # ---- workflows

    def start(self, pipeline: Pipeline, given: Mapping[str, Any], *, registered: bool) -> str:
        """Start a pipeline by its registered name, or from the definition itself, and give the workflow's id."""
        request: Document = {"name": pipeline.name, "version": VERSION, "input": dict(given)}
        if pipeline.target is not None:
            request["correlationId"] = str(pipeline.target)
        if self._domain:
            request["taskToDomain"] = {"*": self._domain}
        if not registered:
            request["workflowDef"] = workflow_document(pipeline)
        return str(self._ask(self._workflows.start_workflow, request))

    def workflow(self, workflow_id: str) -> WorkflowSeen | None:
        """Look at a workflow and its tasks."""
        found = self._find(self._workflows.get_execution_status, workflow_id, include_tasks="true")
        return None if found is None else _workflow(found)

    def task(self, task_id: str) -> TaskSeen | None:
        """Look at one attempt."""
        found = self._find(self._tasks.get_task, task_id)
        return None if found is None else _task(found)

    def running(self, name: str) -> tuple[str, ...]:
        """Give the ids of the workflows of this name that have not ended; always current."""
        return tuple(self._find(self._workflows.get_running_workflow, name) or ())

    def active(self) -> tuple[str, ...]:
        """Give the ids of all workflows that have not ended: of every registered name, and what the index shows."""
        names: list[str] = self._find(self._transport.get, "/metadata/workflow/names") or []
        known = [each for name in names for each in self.running(name)]
        return tuple(dict.fromkeys((*known, *self.search("status IN (RUNNING,PAUSED)"))))

    def search(self, query: str = "", limit: int = 10_000) -> tuple[str, ...]:
        """Give the ids of workflows in the index, newest first."""
        found: list[str] = []
        while len(found) < limit:
            page = self._ask(
                self._transport.get,  # the library's search cannot be told an order
                "/workflow/search",
                query={"query": query, "start": len(found), "size": min(_PAGE, limit), "sort": "startTime:DESC"},
            )
            ids: list[str] = [each["workflowId"] for each in page["results"]]
            found += ids
            if not ids or len(found) >= page["totalHits"]:
                break
        return tuple(found)

    def stop(self, workflow_id: str, reason: str) -> None:
        """Terminate a workflow. Done also when it has ended."""
        self._ask(self._workflows.terminate, workflow_id, reason=reason)

    def log(self, task_id: str) -> tuple[str, ...]:
        """Give what was written about an attempt, oldest first."""
        lines = self._find(self._tasks.get_task_logs, task_id) or ()
        return tuple(each["log"] for each in sorted(lines, key=lambda line: line.get("createdTime", 0)))

    def last_poll(self, task: str) -> int:
        """Give when a worker last asked for tasks of this name, in milliseconds since the epoch; 0 for never."""
        polls: list[Document] = self._find(self._tasks.get_poll_data, task) or []
        ours = [each["lastPollTime"] for each in polls if (each.get("domain") or "") == self._domain]
        return max(ours, default=0)

    def _find(self, call: Callable[..., Json], *given: object, **named: Json) -> Json:
        """Ask for something and give it, ``None`` if it is not there."""
        answer = self._transport.ask(call, *given, **named)
        return None if isinstance(answer, Gone) else _value(answer)

    def _ask(self, call: Callable[..., Json], *given: object, **named: Json) -> Json:
        """Send a request once and give its answer; raise if it was refused or nobody knows."""
        return _value(self._transport.ask(call, *given, **named))


def _value(answer: Answer[Json]) -> Json:
    if isinstance(answer, Done):
        return answer.value
    raise OrchestratorError(answer.reason)


def target_of(given: Mapping[str, Any]) -> Target | None:
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
