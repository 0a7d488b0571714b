"""Errors of data sets and of Spark: what was expected, what was found, what to do."""

from __future__ import annotations

from typing import Any

from perago_core.answers import Answer, Done
from perago_core.errors import ExplainedError


class DatasetError(ExplainedError):
    """A data set cannot be read or written as asked."""

    def __str__(self) -> str:
        return f"{super().__str__()}."


class SparkUnavailableError(Exception):
    """Spark cannot run here; the message says what to install or set."""


class WorkerError(Exception):
    """A user's function raised in a Python worker of Spark; the message is its own, without Java's stack trace."""


class StoppedError(Exception):
    """The attempt was cancelled: the body must end, and nothing it writes counts."""


def value_or_raise(answer: Answer[Any]) -> Any:  # noqa: ANN401  whatever the port gives
    """Unpack a port's answer; raise ``DatasetError`` unless it is done. Inside Spark only an exception says no."""
    if isinstance(answer, Done):
        return answer.value
    raise DatasetError("an answer of the store", answer.reason, "See the store's own log; the task can be tried again")
