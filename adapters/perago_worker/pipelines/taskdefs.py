"""Task definitions that drifted: where what is registered is not what is declared, and who may start then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from attrs import frozen

from perago_core.pipelines import DeclaredTask, TaskDefinitions
from perago_worker.logger import log
from perago_worker.runtime.bootstrap import StartError

OnDrift: TypeAlias = Literal["fail", "warn", "register"]


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


def differences(tasks: Iterable[DeclaredTask], registry: TaskDefinitions) -> tuple[Difference, ...]:
    """Compare what is declared with what is registered, in the fields that the orchestrator keeps."""
    found: list[Difference] = []
    registered = registry.registered()
    for task in tasks:
        known = registered.get(task.name)
        if known is None:
            found.append(Difference(task.name, "", None, None))
            continue
        wanted = registry.described(task)
        found += [
            Difference(task.name, key, wanted[key], known.get(key)) for key in wanted if wanted[key] != known.get(key)
        ]
    return tuple(found)


def settle_drift(tasks: Mapping[str, DeclaredTask], registry: TaskDefinitions, on_drift: OnDrift) -> None:
    """Let a worker start only on definitions that are its own, unless it is told otherwise.

    Where nobody else registers, ours are simply registered. Elsewhere a worker that did that would undo what a newer
    release has registered, each time an old one starts.
    """
    if not registry.shared or on_drift == "register":
        registry.register(tasks.values())
        return
    found = differences(tasks.values(), registry)
    if not found:
        return
    drift = "; ".join(map(str, found))
    if on_drift == "fail":
        raise StartError(
            f"what is registered is not what is declared: {drift}. Run `perago register` if the declaration is right; "
            "start with --set orchestrator.on_drift=warn if the registration is"
        )
    log.warning("what is registered is not what is declared, and counts: %s", drift)
