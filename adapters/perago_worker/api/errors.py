"""What can be wrong with a task, said so that the reader knows what to change.

Three of these are for task authors: one to raise, one to meet while the module is imported, one to raise in a check.
"""

from __future__ import annotations

from perago_core.errors import ExplainedError
from perago_worker.extras import how_to_install


class UserError(Exception):
    """What was asked for cannot be done; the message says why and what to do. Commands show it as one line."""


class TaskTerminalError(Exception):
    """Raise it in a body to say that trying again cannot help: the task fails terminally, without retries."""


class TaskDefinitionError(UserError, TypeError):
    """A task is declared in a way that cannot run. Raised where it is declared, before anything is polled."""


class GuardrailViolationError(Exception):
    """A workspace is not as a guardrail wants it. Raised by guardrails; a check of your own may raise anything."""


class InputError(ExplainedError, ValueError):
    """A task's input does not follow the contract. Trying again cannot mend it, so the task fails terminally."""

    def __str__(self) -> str:
        return f"bad input: {super().__str__()}"


def said(error: BaseException) -> str:
    """Name an exception as people write it: its type and, if it says anything, its words, or the extra it misses."""
    advice = how_to_install(error) if isinstance(error, ImportError) else None
    message = advice or str(error).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
