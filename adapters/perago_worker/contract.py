"""The outer contract: the JSON a task is given, and the JSON its result is shown as.

    input   {"params": {...}, "workspace": {"repository": "lake", "branch": "main", "refType": "commit", "ref": "..."}}
    output  {"result": ..., "workspace": {"repository": "lake", "branch": "main", "refType": "commit", "ref": "..."}}

Unknown keys beside these are ignored, because real workflows pass more along; ``ref_type`` is read as ``refType``, so
that both generations of callers can move over. What is inside ``params`` is for the task's own model, which is the
author's code and therefore runs in the body's process, not here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

from perago_core.results import Classification, Refusal
from perago_core.values import CommitRef, Target
from perago_worker.errors import InputError
from perago_worker.task import TaskDefinition

_FIX = "Correct the workflow's input mapping and start it again."


@frozen
class WorkspaceRef:
    """A commit of a branch: what a task starts from, or what it has made."""

    target: Target
    ref: CommitRef

    def document(self) -> dict[str, str]:
        """Give it as it stands in input and output."""
        return {
            "repository": self.target.repository,
            "branch": self.target.branch,
            "refType": "commit",
            "ref": self.ref,
        }


@frozen
class TaskInput:
    """A task's input: its parameters, still as JSON, and the commit it starts from if it has a workspace."""

    params: str
    workspace: WorkspaceRef | None


def read_input(text: str, definition: TaskDefinition) -> TaskInput:
    """Read a task's input, or raise ``InputError`` with what to change."""
    document = _object("a JSON object as input", _parse(text))
    workspace = None
    if definition.workspace is not None:
        workspace = workspace_ref(document)
    if definition.signature.params is None:
        return TaskInput("{}", workspace)
    if "params" not in document:
        raise InputError('a key "params"', f"the keys {_names(document)}", f"Put the parameters under it. {_FIX}")
    params = _object('an object under "params"', document["params"])
    return TaskInput(json.dumps(params, ensure_ascii=False), workspace)


def refusal_of(error: InputError) -> Refusal:
    """Give the refusal to report for an input that cannot be read; it is terminal."""
    return Refusal(Classification.BODY_FAILED, error.expected, f"bad input: {error.found}", error.fix)


def output_document(output: str, workspace: WorkspaceRef | None) -> str:
    """Write what a user of the workflow sees of a completed task."""
    shown: dict[str, Any] = {"result": json.loads(output)}
    if workspace is not None:
        shown["workspace"] = workspace.document()
    return json.dumps(shown, ensure_ascii=False)


def _parse(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        # Says where it stops being JSON and quotes nothing of it: an input may hold a password.
        raise InputError("JSON", str(error) or type(error).__name__, _FIX) from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name}, which is not JSON")


def workspace_ref(document: Mapping[str, object]) -> WorkspaceRef:
    """Read where a document says to work, or raise ``InputError``."""
    if "workspace" not in document:
        raise InputError(
            'a key "workspace"', f"the keys {_names(document)}", f"Pass the previous step's workspace. {_FIX}"
        )
    found = _object('an object under "workspace"', document["workspace"])
    kind = found.get("refType", found.get("ref_type", "commit"))
    if kind != "commit":
        raise InputError('workspace.refType "commit"', repr(kind), f"Pass a commit id: a branch moves. {_FIX}")
    target = Target(_text(found, "repository"), _text(found, "branch"))
    return WorkspaceRef(target, CommitRef(_text(found, "ref")))


def _text(found: Mapping[str, object], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str) or not value.strip() or "\0" in value or value != value.strip():
        raise InputError(f"text in workspace.{key}", repr(value) if key in found else "no such key", _FIX)
    return value


def _object(expected: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InputError(expected, _kind(value), _FIX)
    return cast("Mapping[str, object]", value)


def _kind(value: object) -> str:
    names: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _names(document: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in list(document)[:8]) or "of an empty object"
