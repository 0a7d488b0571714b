"""The JSON Schemas of a task: of the input it wants and of the output it shows."""

from __future__ import annotations

from typing import Any

from perago_worker.task import TaskDefinition

_WORKSPACE: dict[str, Any] = {
    "type": "object",
    "required": ["repository", "branch", "ref"],
    "properties": {
        "repository": {"type": "string"},
        "branch": {"type": "string"},
        "refType": {"const": "commit"},
        "ref": {"type": "string", "description": "a commit id"},
    },
}
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def input_schema(definition: TaskDefinition) -> dict[str, Any]:
    """Describe the input. Further keys beside ``params`` and ``workspace`` are allowed."""
    parts: dict[str, Any] = {}
    if definition.signature.params is not None:
        parts["params"] = definition.signature.params.json_schema(mode="validation")
    return _document(definition, parts)


def output_schema(definition: TaskDefinition) -> dict[str, Any]:
    """Describe the output."""
    return _document(definition, {"result": definition.signature.result.json_schema(mode="serialization")})


def _document(definition: TaskDefinition, parts: dict[str, Any]) -> dict[str, Any]:
    """Put the parts together, with the models they share in the one place JSON pointers look for them."""
    definitions: dict[str, Any] = {}
    for part in parts.values():
        definitions.update(part.pop("$defs", {}))
    if definition.workspace is not None:
        parts["workspace"] = _WORKSPACE
    document: dict[str, Any] = {
        "$schema": _DRAFT,
        "type": "object",
        "required": list(parts),
        "properties": parts,
    }
    if definitions:
        document["$defs"] = definitions
    return document
