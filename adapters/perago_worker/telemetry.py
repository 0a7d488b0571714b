"""What a run tells the outside: a trace for machines, one line for people, counters and spans for dashboards.

Everything here watches. Nothing it does, and no failure of it, changes a result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from perago_core.attempt.events import HeadSeen
from perago_core.attempt.known import AttemptState, Known
from perago_core.results import Completed, Outcome
from perago_core.rows import Event, Fired
from perago_core.values import Attempt

log = logging.getLogger("perago")


class Instruments(Protocol):
    """Counters and spans. OpenTelemetry behind its extra; nothing at all without it."""

    def count(self, name: str, attributes: Mapping[str, str]) -> None:
        """Add one."""
        ...

    def span(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:
        """Time what happens inside."""
        ...


class Silence:
    """No instruments."""

    def count(self, name: str, attributes: Mapping[str, str]) -> None:
        """Do nothing."""

    def span(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:  # noqa: ARG002
        """Do nothing."""
        return nullcontext()


class OpenTelemetry:
    """Counters ``perago.*`` and one span for each attempt, through whatever exporter the process has set up."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace  # noqa: PLC0415  only with the extra

        self._meter = metrics.get_meter("perago")
        self._tracer = trace.get_tracer("perago")
        self._counters: dict[str, Any] = {}

    def count(self, name: str, attributes: Mapping[str, str]) -> None:
        """Add one."""
        if name not in self._counters:
            self._counters[name] = self._meter.create_counter(f"perago.{name}")
        self._counters[name].add(1, dict(attributes))

    def span(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:
        """Time what happens inside."""
        return self._tracer.start_as_current_span(name, attributes=dict(attributes))


def instruments() -> Instruments:
    """Give OpenTelemetry if it is installed."""
    try:
        return OpenTelemetry()
    except ImportError:
        return Silence()


def count_step(
    instruments: Instruments,
    names: Mapping[str, str],
    before: AttemptState,
    event: Event,
    fired: Fired[Attempt, Known],
) -> None:
    """Count each step by row, each verdict of the fence, and each answer nobody knows."""
    happened = type(event)
    instruments.count("steps", {**names, "row": fired.row.id})
    decision = fired.state.known.decision
    if happened is HeadSeen and decision is not before.known.decision and decision is not None:
        instruments.count("fence", {**names, "verdict": decision.verdict})
    for command in before.pending:
        if happened in command.answers.unknown:
            instruments.count("unknowns", {**names, "command": type(command).__name__})


def count_outcome(instruments: Instruments, names: Mapping[str, str], outcome: Outcome) -> None:
    """Count how an attempt ended, why if it was refused, and what it left behind."""
    result = outcome.result
    refusal = outcome.silence if result is None or isinstance(result, Completed) else result.refusal
    ended = {
        "result": "silent" if result is None else type(result).__name__.lower(),
        "why": "none" if refusal is None else refusal.classification.value,
        "taken": outcome.acceptance.value,
    }
    instruments.count("outcomes", {**names, **ended})
    for _ in outcome.left_behind:
        instruments.count("leaks", names)


def summary(attempt: Attempt, outcome: Outcome) -> str:
    """Say in one line what became of an attempt, for the log of the task."""
    who = f"attempt {attempt.number} ({attempt.execution}) of {attempt.logical_task} on {attempt.target}"
    result = outcome.result
    if isinstance(result, Completed):
        return f"{who}: completed with {result.ref}, {outcome.acceptance.value} [{outcome.backing.value}]"
    if result is not None:
        return f"{who}: failed, {result.refusal}"
    return f"{who}: silent, {outcome.silence}"


def trace_file(folder: Path, attempt: Attempt) -> Path:
    """Name the trace of one execution; the name sorts by task, then attempt."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in attempt.logical_task)
    return folder / f"{safe}-{attempt.number:03d}-{attempt.execution}.jsonl"


def line_writer(path: Path) -> Callable[[str], object]:
    """Give a writer of lines that are on disk, as far as the process is concerned, when it returns."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(line: str) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    return write
