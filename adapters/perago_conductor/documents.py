"""Conductor's documents: what it shows, read as values of the core; tasks, results and pipelines, written for it.

A result names its execution twice over: in the task's output, and inside ``workspace``, which every next step and the
workflow's own output take over whole. So whoever asks later can tell whose result the workflow went on with. The two
can differ: of two results that arrive together Conductor keeps one in the task and may hand the other on (in 39 of 60
races). What the workflow goes on with is what counts.

A pipeline is a workflow definition. A stage is one step, or several side by side. Every step of a stage is given the
workspace that the last step of the stage before it left; the first ones that of the workflow's input. Parameters quote
what came before:

    ``${params.day}``            becomes ``${workflow.input.params.day}``
    ``${clean.result.rows}``     becomes ``${clean.output.result.rows}``
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from perago_core.budget import PublishBudget
from perago_core.contract import (
    EXECUTION,
    REF,
    REPOSITORY,
    RESULT,
    TASK,
    is_list,
    is_object,
    output_document,
    workspace_document,
)
from perago_core.names import RUNS
from perago_core.pipelines import (
    QUOTATION,
    DeclaredPipeline,
    DeclaredTask,
    Place,
    Step,
    recovery_task_name,
    stages_of,
    steps_of,
)
from perago_core.ports import Assignment
from perago_core.results import Completed
from perago_core.values import Attempt, CommitRef, Target, TaskSnapshot, TaskStatus

Json: TypeAlias = Any
Document: TypeAlias = dict[str, Any]

#: A pipeline is defined anew under the same version: workflows that run keep the definition they were started with.
VERSION = 1
RECOVERY_SUFFIX = "-recovery"
#: Where a workflow was started.
_START = "${workflow.input.workspace}"
#: Documents in which a key more is a difference too. Elsewhere the server adds its defaults to what it was given.
_EXACT = frozenset({"data", "inputParameters", "outputParameters"})
#: Ended, and not as ours would: an optional task that failed for good; a task an operator skipped.
_OTHER_ENDS: Mapping[str, TaskStatus] = {
    "COMPLETED_WITH_ERRORS": TaskStatus.FAILED,
    "SKIPPED": TaskStatus.CANCELED,
}
_ENDED = frozenset({"COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED"})
#: A paused workflow still takes results of what was handed out.
_RUNNING = frozenset({"RUNNING", "PAUSED"})
#: Deliveries of one task within one start time that can be told apart; more than anybody requeues.
_DELIVERIES = 1024


def assignment_of(task: Mapping[str, Json]) -> Assignment:
    """Read a polled task. Whatever polled it just now, its workflow was running."""
    given: Json = {} if task.get("inputData") is None else task["inputData"]
    step: Json = task["referenceTaskName"]
    patience: Json = task.get("responseTimeoutSeconds")
    if not (is_object(given) and isinstance(step, str) and isinstance(patience, int | None)):
        raise TypeError("expected an object as input, a text as reference name, whole seconds as response time-out")
    return Assignment(
        snapshot=_snapshot(task, running=True, execution=None, ref=None),
        task_name=task["taskType"],
        # The reference name carries the iteration of a loop, so this is one step of one workflow, across its retries.
        logical_task=f"{task['workflowInstanceId']}/{step}",
        number=number_of(task),
        input=json.dumps(given, ensure_ascii=False),
        response_timeout=patience or None,  # 0: Conductor waits for ever
    )


def snapshot_of(task: Mapping[str, Json], workflow: Mapping[str, Json]) -> TaskSnapshot:
    """Read a task together with its workflow.

    Counterexample: a health page, ``{"status": "UP"}``, is no workflow that has ended; its attempts would be given up.
    """
    if workflow["workflowId"] != task["workflowInstanceId"] or workflow["status"] not in _RUNNING | _ENDED:
        raise ValueError(f"expected workflow {task['workflowInstanceId']}, found another document")
    taken = _taken(task, workflow) or {}
    return _snapshot(
        task,
        running=workflow["status"] in _RUNNING,
        execution=taken.get(EXECUTION),
        ref=taken.get(REF),
    )


def number_of(task: Mapping[str, Json]) -> int:
    """Return the delivery's number: start time first, deliveries within it second (specs/adr/0018).

    Neither suffices: a rerun counts its deliveries from one again, a requeue keeps the start time. The retry count is
    no part of it, because a restart begins with zero again.
    """
    start: int = task["startTime"]
    delivery: int = task["pollCount"]
    return start * _DELIVERIES + min(delivery, _DELIVERIES - 1)


def output_of(attempt: Attempt, result: Completed) -> dict[str, Json]:
    """Write a result as the task's output."""
    return output_document(attempt.target, result.ref, result.output, attempt.task_id, result.execution)


def _snapshot(
    task: Mapping[str, Json],
    *,
    running: bool,
    execution: str | None,
    ref: str | None,
) -> TaskSnapshot:
    status = task["status"]
    return TaskSnapshot(
        workflow_id=task["workflowInstanceId"],
        task_id=task["taskId"],
        retry_count=task["retryCount"],
        status=_OTHER_ENDS.get(status) or TaskStatus(status),
        worker_id="" if task.get("workerId") is None else task["workerId"],
        started_at=task["startTime"],
        poll_count=task["pollCount"],
        workflow_running=running,
        result_execution=execution,
        result_ref=None if ref is None else CommitRef(ref),
    )


def _taken(task: Mapping[str, Json], workflow: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """Give the workspace of this task's result: as the workflow shows it, else as the latest step got it, else its own.

    The input of a step that is tried again is made anew, so the latest one says what the workflow goes on with.
    """
    if task["status"] != TaskStatus.COMPLETED.value:
        return None
    later = sorted(workflow.get("tasks") or (), key=lambda each: each["seq"], reverse=True)
    shown = (workflow.get("output"), *(each.get("inputData") for each in later), task.get("outputData"))
    return next((found for each in shown for found in _results(each) if found.get(TASK) == task["taskId"]), None)


def _results(document: Json) -> Iterator[Mapping[str, Json]]:
    """Find every workspace that some result of ours named, however deep a workflow has put it.

    Not in what bodies returned: that can be large, and says what a body likes.
    """
    if is_object(document):
        if isinstance(document.get(TASK), str) and isinstance(document.get(EXECUTION), str):
            yield document
        for key, each in document.items():
            if key != RESULT:
                yield from _results(each)
    elif is_list(document):
        for each in document:
            yield from _results(each)


def task_document(task: DeclaredTask, budget: PublishBudget) -> Document:
    """Describe one task. No timeout beyond the response timeout: the worker ends the body itself, at ``timeout``."""
    return {
        "name": task.name,
        "description": task.description or task.name,
        "ownerEmail": task.owner_email,
        "retryCount": task.retries,
        "retryLogic": "FIXED",
        "retryDelaySeconds": math.ceil(task.retry_delay),
        "responseTimeoutSeconds": response_timeout(task, budget),
        "timeoutSeconds": 0,
        "timeoutPolicy": "RETRY",
        "inputSchema": {"name": f"{task.name}-input", "version": 1, "type": "JSON", "data": task.input_schema},
        "outputSchema": {"name": f"{task.name}-output", "version": 1, "type": "JSON", "data": task.output_schema},
    }


def response_timeout(task: DeclaredTask, budget: PublishBudget) -> int:
    """Return whole seconds, because Conductor cuts the rest off: at 2.5 a worker would trust in half a second too much.

    At least what the budget asks for between the last heartbeat, which must not overlap the result, and the moment the
    result has arrived. The worker itself counts with what the task declares, which is never longer (T-P5), or with what
    the attempt was handed out with if that is less.
    """
    return math.ceil(max(task.response_timeout, budget.heartbeat_interval + budget.completion_reserve))


def workflow_document(name: str, pipeline: DeclaredPipeline, *, has_target: bool = True) -> Document:
    """Describe the workflow of a pipeline; without a target its steps have no workspace."""
    tasks: list[Document] = []
    workspace = _START
    for number, stage in enumerate(stages_of(name, pipeline), 1):
        tasks += _stage(number, [_step(step, _given(step, workspace) if has_target else None) for step in stage])
        workspace = f"${{{stage[-1].label}.output.workspace}}"
    document = _workflow(name, tasks)
    document["inputParameters"] = ["params", "workspace"] if has_target else ["params"]
    document["outputParameters"] = _output(steps_of(name, pipeline))
    if pipeline.recovery and has_target:
        document["failureWorkflow"] = name + RECOVERY_SUFFIX
    return document


def recovery_document(name: str) -> Document:
    """Describe the workflow that Conductor starts when a run of the pipeline has failed."""
    task = recovery_task_name(name)
    failed = {"workflow": "${workflow.input.workflowId}", "reason": "${workflow.input.reason}"}
    recover = {"name": task, "taskReferenceName": "recover", "type": "SIMPLE", "inputParameters": {"params": failed}}
    return _workflow(name + RECOVERY_SUFFIX, [recover])


def documents(name: str, pipeline: DeclaredPipeline) -> tuple[Document, ...]:
    """Describe everything that is registered for a pipeline."""
    workflow = workflow_document(name, pipeline)
    return (workflow, recovery_document(name)) if pipeline.recovery else (workflow,)


def unlike(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the fields of a document that are not registered as they are declared; what the server added counts not."""
    return tuple(key for key, value in wanted.items() if not _covered(key, value, found.get(key)))


def _covered(key: str, wanted: object, found: object) -> bool:
    if key not in _EXACT and is_object(wanted) and is_object(found):
        return not unlike(wanted, found)
    if is_list(wanted) and is_list(found):
        pairs = zip(wanted, found, strict=False)
        return len(wanted) == len(found) and all(_covered("", one, other) for one, other in pairs)
    return wanted == found


def _workflow(name: str, tasks: list[Document]) -> Document:
    return {
        "name": name,
        "version": VERSION,
        "schemaVersion": 2,
        "ownerEmail": "",
        # No limit of its own: each attempt has one, and a workflow that ends beneath its attempts strands them.
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
        "tasks": tasks,
    }


def _output(declared: tuple[Step, ...]) -> Document:
    """Give where each step has left the branch, and what the last one gave.

    Not what all gave: four results of 3 MiB are more than Conductor keeps of a workflow, and it would fail for good at
    its very end, with everything published.
    """
    steps = [step.label for step in declared]
    shown: Document = {label: {"workspace": f"${{{label}.output.workspace}}"} for label in steps}
    shown[steps[-1]]["result"] = f"${{{steps[-1]}.output.result}}"
    return shown


def _stage(number: int, steps: list[Document]) -> list[Document]:
    if len(steps) == 1:
        return steps
    fork, join = f"perago_fork_{number}", f"perago_join_{number}"
    return [
        {"name": fork, "taskReferenceName": fork, "type": "FORK_JOIN", "forkTasks": [[step] for step in steps]},
        {
            "name": join,
            "taskReferenceName": join,
            "type": "JOIN",
            "joinOn": [step["taskReferenceName"] for step in steps],
        },
    ]


def _given(step: Step, before: str) -> str | Document:
    """Say where a step works; ``before``: what the step before it left."""
    match step.place:
        case Place.BEFORE:
            return before
        case Place.START:
            return _START
        case Place.RUN:
            start = _START.removesuffix("}")
            return workspace_document(
                Target(f"{start}.{REPOSITORY}}}", f"{RUNS}${{workflow.workflowId}}"), CommitRef(f"{start}.{REF}}}")
            )


def _step(step: Step, workspace: str | Document | None) -> Document:
    given: Document = {"params": translated(step.params)}
    if workspace is not None:
        given["workspace"] = workspace
    return {"name": step.task, "taskReferenceName": step.label, "type": "SIMPLE", "inputParameters": given}


def translated(value: Any) -> Any:  # noqa: ANN401  any JSON
    """Write our quotations as Conductor's."""
    if is_object(value):
        return {key: translated(each) for key, each in value.items()}
    if is_list(value):
        return [translated(each) for each in value]
    return QUOTATION.sub(_quotation, value) if isinstance(value, str) else value


def _quotation(match: re.Match[str]) -> str:
    first, dot, rest = match[1].partition(".")
    return f"${{workflow.input.params{dot}{rest}}}" if first == "params" else f"${{{first}.output{dot}{rest}}}"
