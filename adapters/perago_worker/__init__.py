"""The driving side: tasks people write, the worker that runs them, configuration and the command line.

What task authors need is here, by its short name; everything else is imported from its own module.
"""

from perago_worker.api.errors import GuardrailViolationError, TaskDefinitionError, TaskTerminalError
from perago_worker.api.guardrails import Guardrail, forbid_glob, require_dir, require_file, require_glob
from perago_worker.api.progress import progress
from perago_worker.api.task import Workspace, task

__all__ = [
    "Guardrail",
    "GuardrailViolationError",
    "TaskDefinitionError",
    "TaskTerminalError",
    "Workspace",
    "forbid_glob",
    "progress",
    "require_dir",
    "require_file",
    "require_glob",
    "task",
]
