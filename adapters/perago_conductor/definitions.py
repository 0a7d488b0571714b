"""Pipelines as Conductor's workflow definitions: pure documents, and where one that is registered differs.

A stage is one step, or several side by side. Every step of a stage is given the workspace that the last step of the
stage before it left; the first ones that of the workflow's input. Parameters quote what came before:

    ``${params.day}``            becomes ``${workflow.input.params.day}``
    ``${clean.result.rows}``     becomes ``${clean.output.result.rows}``
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

from attrs import field, frozen

from perago_core.values import Target

Document: TypeAlias = dict[str, Any]

#: A pipeline is defined anew under the same version: workflows that run keep the definition they were started with.
VERSION = 1
RECOVERY_SUFFIX = "-recovery"
_QUOTATION = re.compile(r"\$\{([^{}]*)\}")
#: Documents in which a key more is a difference too. Elsewhere the server adds its defaults to what it was given.
_EXACT = frozenset({"data", "inputParameters", "outputParameters"})


@frozen
class Step:
    """One step: its name in the workflow, the task it runs, and its parameters."""

    name: str
    task: str
    params: Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class Pipeline:
    """Stages of steps over one target. ``recovery``: the task that settles what a failed run left open."""

    name: str
    stages: tuple[tuple[Step, ...], ...]
    target: Target | None = None
    recovery: str = ""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Give every step, one after the other."""
        return tuple(step for stage in self.stages for step in stage)


def workflow_document(pipeline: Pipeline) -> Document:
    """Describe the workflow of a pipeline."""
    tasks: list[Document] = []
    workspace = "${workflow.input.workspace}"
    for number, stage in enumerate(pipeline.stages, 1):
        given = None if pipeline.target is None else workspace
        tasks += _stage(number, [_step(step, given) for step in stage])
        workspace = f"${{{stage[-1].name}.output.workspace}}"
    document = _workflow(pipeline.name, tasks)
    document["inputParameters"] = ["params"] if pipeline.target is None else ["params", "workspace"]
    document["outputParameters"] = _output(pipeline)
    if pipeline.recovery and pipeline.target is not None:
        document["failureWorkflow"] = pipeline.name + RECOVERY_SUFFIX
    return document


def recovery_document(pipeline: Pipeline) -> Document | None:
    """Describe the workflow that Conductor starts when a run of the pipeline has failed; ``None`` if it has none."""
    if not pipeline.recovery or pipeline.target is None:
        return None
    failed = {"workflow": "${workflow.input.workflowId}", "reason": "${workflow.input.reason}"}
    recover = {**_step(Step("recover", pipeline.recovery), None), "inputParameters": {"params": failed}}
    return _workflow(pipeline.name + RECOVERY_SUFFIX, [recover])


def documents(pipeline: Pipeline) -> tuple[Document, ...]:
    """Describe everything that is registered for a pipeline."""
    recovery = recovery_document(pipeline)
    return (workflow_document(pipeline),) if recovery is None else (workflow_document(pipeline), recovery)


def unlike(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the fields of a document that are not registered as they are declared; what the server added counts not."""
    return tuple(key for key, value in wanted.items() if not _covered(key, value, found.get(key)))


def _covered(key: str, wanted: object, found: object) -> bool:
    if key not in _EXACT and _is_object(wanted) and _is_object(found):
        return not unlike(wanted, found)
    if _is_list(wanted) and _is_list(found):
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


def _output(pipeline: Pipeline) -> Document:
    """Give where each step has left the branch, and what the last one gave.

    Not what all gave: four results of 3 MiB are more than Conductor keeps of a workflow, and it would fail for good at
    its very end, with everything published.
    """
    *_, last = pipeline.steps
    shown: Document = {step.name: {"workspace": f"${{{step.name}.output.workspace}}"} for step in pipeline.steps}
    shown[last.name]["result"] = f"${{{last.name}.output.result}}"
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


def _step(step: Step, workspace: str | None) -> Document:
    given: Document = {"params": translated(step.params)}
    if workspace is not None:
        given["workspace"] = workspace
    return {"name": step.task, "taskReferenceName": step.name, "type": "SIMPLE", "inputParameters": given}


def translated(value: Any) -> Any:  # noqa: ANN401  any JSON
    """Write our quotations as Conductor's."""
    if _is_object(value):
        return {key: translated(each) for key, each in value.items()}
    if _is_list(value):
        return [translated(each) for each in value]
    return _QUOTATION.sub(_quotation, value) if isinstance(value, str) else value


def _quotation(match: re.Match[str]) -> str:
    first, dot, rest = match[1].partition(".")
    return f"${{workflow.input.params{dot}{rest}}}" if first == "params" else f"${{{first}.output{dot}{rest}}}"


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
