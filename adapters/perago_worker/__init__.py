"""The driving side: tasks people write, the worker that runs them, configuration and the command line.

What task authors need is here, by its short name, imported when it is used: ``perago --help`` needs none of it.
Everything else is imported from its own module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perago_worker.api.dataset import LocalDataset, dataset
    from perago_worker.api.errors import GuardrailViolationError, TaskDefinitionError, TaskTerminalError
    from perago_worker.api.guardrails import Guardrail, forbid_glob, require_dir, require_file, require_glob
    from perago_worker.api.progress import progress
    from perago_worker.api.run import Finished, RunFailedError, run
    from perago_worker.api.task import Workspace, task

__all__ = [
    "Finished",
    "Guardrail",
    "GuardrailViolationError",
    "LocalDataset",
    "RunFailedError",
    "TaskDefinitionError",
    "TaskTerminalError",
    "Workspace",
    "dataset",
    "forbid_glob",
    "progress",
    "require_dir",
    "require_file",
    "require_glob",
    "run",
    "task",
]

_MODULES = {
    "Finished": "run",
    "LocalDataset": "dataset",
    "dataset": "dataset",
    "GuardrailViolationError": "errors",
    "TaskDefinitionError": "errors",
    "TaskTerminalError": "errors",
    "RunFailedError": "run",
    "progress": "progress",
    "run": "run",
    "Workspace": "task",
    "task": "task",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"perago_worker.api.{_MODULES.get(name, 'guardrails')}"), name)
    globals()[name] = found
    return found
