"""The JSON Schemas of a task: of the input it wants and of the output it shows."""

from __future__ import annotations

from typing import Any

from perago_core.contract import PARAMS, RESULT, WORKSPACE, workspace_schema
from perago_worker.api.task import TaskDefinition

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def input_schema(definition: TaskDefinition) -> dict[str, Any]:
    """Describe the input. Further keys beside ``params`` and ``workspace`` are allowed."""
    parts: dict[str, Any] = {}
    if definition.signature.params is not None:
        parts[PARAMS] = definition.signature.params.json_schema(mode="validation")
    return _document(definition, parts, made=False)


def output_schema(definition: TaskDefinition) -> dict[str, Any]:
    """Describe the output."""
    return _document(definition, {RESULT: definition.signature.result.json_schema(mode="serialization")}, made=True)


def _document(definition: TaskDefinition, parts: dict[str, Any], *, made: bool) -> dict[str, Any]:
    """Put the parts together, with the models they share in the one place JSON pointers look for them."""
    definitions: dict[str, Any] = {}
    for part in parts.values():
        definitions.update(part.pop("$defs", {}))
    if definition.workspace is not None:
        parts[WORKSPACE] = workspace_schema(made=made)
    document: dict[str, Any] = {
        "$schema": _DRAFT,
        "type": "object",
        "required": list(parts),
        "properties": parts,
    }
    if definitions:
        document["$defs"] = definitions
    return document
