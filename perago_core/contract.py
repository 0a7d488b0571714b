"""The outer contract: the JSON documents every orchestrator hands to a task and keeps as its result.

    input   {"params": {...}, "workspace": {"repository": "lake", "branch": "main", "refType": "commit", "ref": "..."}}
    output  {"result": ..., "workspace": {"repository": "lake", "branch": "main", "refType": "commit", "ref": "...",
                                          "task": "...", "execution": "..."}}

A workflow hands the ``workspace`` of one step's output to the next step whole. It names the task and the execution that
made it, so that whoever asks later can tell whose result the workflow went on with. Every adapter writes these
documents with the functions below, and the published JSON Schemas are made of the same keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from perago_core.values import CommitRef, Target

PARAMS: Final = "params"
WORKSPACE: Final = "workspace"
RESULT: Final = "result"

REPOSITORY: Final = "repository"
BRANCH: Final = "branch"
REF_TYPE: Final = "refType"
COMMIT: Final = "commit"
REF: Final = "ref"
TASK: Final = "task"
EXECUTION: Final = "execution"

#: Where a task works that has no workspace, in a workflow that has none. Nothing is ever read from or written to it.
NOWHERE: Final = Target("-", "-")
NO_COMMIT: Final = CommitRef("-")


def workspace_document(target: Target, ref: CommitRef | None) -> dict[str, Any]:
    """Name a commit of a branch, as a task is handed it."""
    return {REPOSITORY: target.repository, BRANCH: target.branch, REF_TYPE: COMMIT, REF: ref}


def output_document(target: Target, ref: CommitRef, output: str, task_id: str, execution: str) -> dict[str, Any]:
    """Write a completed task's result. What a body returned is JSON; text that is not is shown as it is."""
    try:
        result: Any = json.loads(output)
    except ValueError:
        result = output
    return {RESULT: result, WORKSPACE: {**workspace_document(target, ref), TASK: task_id, EXECUTION: execution}}


def workspace_schema(*, made: bool) -> Mapping[str, Any]:
    """Describe a workspace as JSON Schema: one that is handed in, or one that a task has ``made``."""
    text = {"type": "string"}
    properties: dict[str, Any] = {
        REPOSITORY: text,
        BRANCH: text,
        REF_TYPE: {"const": COMMIT},
        REF: {"type": "string", "description": "a commit id"},
    }
    if made:
        properties |= {TASK: text, EXECUTION: text}
    return {
        "type": "object",
        # A workflow's author may leave the kind of ref out: there is only one.
        "required": [key for key in properties if made or key != REF_TYPE],
        "properties": properties,
    }


def is_object(document: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a document read from JSON is an object, so that type checkers know it too."""
    return isinstance(document, Mapping)


def is_list(document: object) -> TypeGuard[list[Any]]:
    """Return whether a document read from JSON is an array."""
    return isinstance(document, list)
