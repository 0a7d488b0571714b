"""Task definitions as documents: what an orchestrator is told about a task, in the spelling Conductor uses.

``extract`` writes them, ``register`` sends them, ``diff`` finds where what is registered is not what is declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from attrs import frozen

from perago_core.budget import PublishBudget
from perago_worker.api.schema import input_schema, output_schema
from perago_worker.api.task import TaskDefinition
from perago_worker.logger import log
from perago_worker.runtime.bootstrap import StartError

OnDrift: TypeAlias = Literal["fail", "warn", "register"]


class Definitions(Protocol):
    """The part of ``Pipelines`` that is about task definitions."""

    @property
    def shared(self) -> bool:
        """Return whether others register there too."""
        ...

    def register(self, tasks: Iterable[TaskDefinition]) -> None:
        """Make the tasks known."""
        ...

    def described(self, task: TaskDefinition) -> Mapping[str, Any]:
        """Describe a task in the fields the orchestrator keeps."""
        ...

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is registered, by name, in the same fields."""
        ...


def document(task: TaskDefinition, budget: PublishBudget) -> dict[str, Any]:
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
        "inputSchema": {"name": f"{task.name}-input", "version": 1, "type": "JSON", "data": input_schema(task)},
        "outputSchema": {"name": f"{task.name}-output", "version": 1, "type": "JSON", "data": output_schema(task)},
    }


def response_timeout(task: TaskDefinition, budget: PublishBudget) -> int:
    """Return whole seconds, because Conductor cuts the rest off: at 2.5 a worker would trust in half a second too much.

    At least what the budget asks for between the last heartbeat, which must not overlap the result, and the moment the
    result has arrived. The worker itself counts with what the task declares, which is never longer (T-P5), or with what
    the attempt was handed out with if that is less.
    """
    return math.ceil(max(task.response_timeout, budget.heartbeat_interval + budget.completion_reserve))


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


def differences(tasks: Iterable[TaskDefinition], words: Definitions) -> tuple[Difference, ...]:
    """Compare what is declared with what is registered, in the fields that the orchestrator keeps."""
    found: list[Difference] = []
    registered = words.registered()
    for task in tasks:
        known = registered.get(task.name)
        if known is None:
            found.append(Difference(task.name, "", None, None))
            continue
        wanted = words.described(task)
        found += [
            Difference(task.name, key, wanted[key], known.get(key)) for key in wanted if wanted[key] != known.get(key)
        ]
    return tuple(found)


def settle_drift(tasks: Mapping[str, TaskDefinition], words: Definitions, on_drift: OnDrift) -> None:
    """Let a worker start only on definitions that are its own, unless it is told otherwise.

    Where nobody else registers, ours are simply registered. Elsewhere a worker that did that would undo what a newer
    release has registered, each time an old one starts.
    """
    if not words.shared or on_drift == "register":
        words.register(tasks.values())
        return
    found = differences(tasks.values(), words)
    if not found:
        return
    told = "; ".join(map(str, found))
    if on_drift == "fail":
        raise StartError(
            f"what is registered is not what is declared: {told}. Run `perago register` if the declaration is right; "
            "start with --set orchestrator.on_drift=warn if the registration is"
        )
    log.warning("what is registered is not what is declared, and counts: %s", told)
