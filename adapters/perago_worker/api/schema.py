"""The JSON Schemas of a task: of the input it wants and of the output it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perago_core.contract import PARAMS, RESULT, WORKSPACE, workspace_schema
from perago_worker.api.signature import Signature

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def input_schema(signature: Signature, *, has_workspace: bool) -> dict[str, Any]:
    """Describe the input. Further keys beside ``params`` and ``workspace`` are allowed."""
    parts: dict[str, Any] = {}
    if signature.params is not None:
        parts[PARAMS] = signature.params.json_schema(mode="validation")
    return _document(parts, workspace_schema(made=False) if has_workspace else None)


def output_schema(signature: Signature, *, has_workspace: bool) -> dict[str, Any]:
    """Describe the output."""
    parts: dict[str, Any] = {RESULT: signature.result.json_schema(mode="serialization")}
    return _document(parts, workspace_schema(made=True) if has_workspace else None)


def _document(parts: dict[str, Any], workspace: Mapping[str, Any] | None) -> dict[str, Any]:
    """Put the parts together, with the models they share in the one place JSON pointers look for them."""
    definitions: dict[str, Any] = {}
    for part in parts.values():
        definitions.update(part.pop("$defs", {}))
    if workspace is not None:
        parts[WORKSPACE] = workspace
    document: dict[str, Any] = {
        "$schema": _DRAFT,
        "type": "object",
        "required": list(parts),
        "properties": parts,
    }
    if definitions:
        document["$defs"] = definitions
    return document
