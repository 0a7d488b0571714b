"""What can be wrong with a data set, said so that the reader knows what to change."""

from __future__ import annotations

from typing import Any

from perago_core.answers import Answer, Done


class DatasetError(Exception):
    """A data set cannot be read or written as asked."""

    def __init__(self, expected: str, found: str, fix: str) -> None:
        super().__init__(expected, found, fix)
        self.expected = expected
        self.found = found
        self.fix = fix

    def __str__(self) -> str:
        return f"expected {self.expected}; found {self.found}. {self.fix}."


class SparkUnavailableError(Exception):
    """Spark cannot run here; the message says what to install or set."""


class WorkerError(Exception):
    """A function that Spark ran in one of its workers raised this."""


class StoppedError(Exception):
    """The body was told to stop and nothing is written any more."""


def one_line(text: str, limit: int = 500) -> str:
    """Make a reason short enough to read in a list of tasks."""
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else f"{joined[: limit - 1]}…"


def value_or_raise(answer: Answer[Any]) -> Any:  # noqa: ANN401  whatever the port gives
    """Unpack a port's answer; raise ``DatasetError`` unless it is done. Inside Spark only an exception says no."""
    if isinstance(answer, Done):
        return answer.value
    raise DatasetError("an answer of the store", answer.reason, "See the store's own log; the task can be tried again")
