"""Task definitions as documents: what an orchestrator is told about a task, in the spelling Conductor uses.

``extract`` writes them, ``register`` sends them, ``diff`` finds where what is registered is not what is declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from perago_worker.schema import input_schema, output_schema
from perago_worker.task import TaskDefinition


def document(task: TaskDefinition) -> dict[str, Any]:
    """Describe one task. No timeout beyond the response timeout: the worker ends the body itself, at ``timeout``."""
    return {
        "name": task.name,
        "description": task.description or task.name,
        "ownerEmail": task.owner_email,
        "retryCount": task.retries,
        "retryLogic": "FIXED",
        "retryDelaySeconds": task.retry_delay,
        "responseTimeoutSeconds": task.response_timeout,
        "timeoutSeconds": 0,
        "timeoutPolicy": "RETRY",
        "inputSchema": {"name": f"{task.name}-input", "version": 1, "type": "JSON", "data": input_schema(task)},
        "outputSchema": {"name": f"{task.name}-output", "version": 1, "type": "JSON", "data": output_schema(task)},
    }


@frozen
class Difference:
    """One field of one task that is not registered as it is declared. ``None``: the task is not registered at all."""

    task: str
    field: str
    declared: Any
    registered: Any

    def __str__(self) -> str:
        if not self.field:
            return f"{self.task}: declared, and not registered"
        return f"{self.task}.{self.field}: declared {self.declared!r}, registered {self.registered!r}"


def differences(
    declared: Iterable[TaskDefinition],
    registered: Mapping[str, Mapping[str, Any]],
) -> tuple[Difference, ...]:
    """Compare what is declared with what is registered, in the fields that the orchestrator keeps."""
    found: list[Difference] = []
    for task in declared:
        known = registered.get(task.name)
        if known is None:
            found.append(Difference(task.name, "", None, None))
            continue
        wanted = document(task)
        found += [
            Difference(task.name, key, wanted[key], known[key])
            for key in wanted
            if key in known and wanted[key] != known[key]
        ]
    return tuple(found)
