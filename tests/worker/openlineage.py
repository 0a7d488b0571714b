"""What OpenLineage 2-0-2 demands of a run event and of the facets we send, as a JSON schema in our own words."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker

_TEXT = {"type": "string"}
_URI = {"type": "string", "format": "uri"}
_RUN: dict[str, Any] = {
    "type": "object",
    "properties": {"runId": {"type": "string", "format": "uuid"}},
    "required": ["runId"],
}
_JOB: dict[str, Any] = {
    "type": "object",
    "properties": {"namespace": _TEXT, "name": _TEXT},
    "required": ["namespace", "name"],
}


def _facet(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  a schema
    """Describe a facet: who says it, by which schema, and the fields it must have."""
    return {
        "type": "object",
        "properties": {"_producer": _URI, "_schemaURL": _URI, **fields},
        "required": ["_producer", "_schemaURL", *fields],
    }


_DATASET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "namespace": _TEXT,
        "name": _TEXT,
        "facets": {
            "type": "object",
            "properties": {"version": _facet(datasetVersion=_TEXT)},
            "additionalProperties": _facet(),
        },
    },
    "required": ["namespace", "name"],
}
RUN_EVENT: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": _URI,
        "schemaURL": {**_URI, "const": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"},
        "run": {
            **_RUN,
            "properties": {
                **_RUN["properties"],
                "facets": {
                    "type": "object",
                    "properties": {
                        "parent": _facet(run=_RUN, job=_JOB),
                        "errorMessage": _facet(message=_TEXT, programmingLanguage=_TEXT),
                    },
                    "additionalProperties": _facet(),
                },
            },
        },
        "job": {
            **_JOB,
            "properties": {
                **_JOB["properties"],
                "facets": {
                    "type": "object",
                    "properties": {"jobType": _facet(processingType=_TEXT, integration=_TEXT)},
                    "additionalProperties": _facet(),
                },
            },
        },
        "inputs": {"type": "array", "items": _DATASET},
        "outputs": {"type": "array", "items": _DATASET},
    },
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    # A facet of our own begins with our name, so that no later one of the standard is taken for it.
    "additionalProperties": False,
}

_FORMATS = FormatChecker(("uuid",))


@_FORMATS.checks("uri")
def _is_uri(value: object) -> bool:
    return bool(urlsplit(str(value)).scheme) and " " not in str(value)


@_FORMATS.checks("date-time", ValueError)
def _is_time(value: object) -> bool:
    return datetime.fromisoformat(str(value)).tzinfo is not None


def check_event(event: Any) -> None:  # noqa: ANN401  JSON
    """Raise if it is no run event."""
    validator: Any = Draft202012Validator(RUN_EVENT, format_checker=_FORMATS)
    validator.validate(event)
