"""What a run tells the outside: a trace for machines, one line for people, counters and spans for dashboards.

Everything here watches. Nothing it does, and no failure of it, changes a result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from perago_core.answers import Event
from perago_core.attempt.messages import HeadSeen, Publish, Published
from perago_core.attempt.state import AttemptState, Known
from perago_core.machine.rows import Fired
from perago_core.measured import BOUNDS, Measured
from perago_core.plan import PlanKind
from perago_core.results import Completed, Outcome
from perago_core.values import Attempt, Backing, Between, Target
from perago_worker.logger import log

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


#: What is counted, as ``perago.NAME``, each by task and backing; and what else tells one count from another.
COUNTERS: Mapping[str, str] = {
    "steps": "steps of attempts, by the row that fired",
    "fence": "verdicts of the publish fence",
    "replacements": "publications that took the place of an abandoned one",
    "refusals": "attempts that did not publish, by why",
    "unknowns": "answers that never came, by the command that was asked",
    "outcomes": "attempts that ended, by result and by whether it was taken",
    "adoptions": "attempts that reported what an earlier attempt had published",
    "retries": "attempts that are not the first of their task",
    "failovers": "attempts of silent workers that were given up after a nudge",
    "leaks": "things an attempt left behind",
    "undelivered": "OpenLineage events that were dropped",
    "lost": "accepted results that a sweep found missing from their branch, by target",
}


#: What is measured, as ``perago.NAME``, by task and backing: its unit, and what it is.
HISTOGRAMS: Mapping[str, tuple[str, str]] = {
    "call.seconds": ("s", "calls of the ports, by call and by the class they are charged to"),
    "publication.seconds": ("s", "from the attempt fence before publishing to the answer to the report"),
    "attempt.operations": ("1", "requests of outside systems that one attempt took, by class"),
}

#: What is as it is now, as ``perago.NAME``: its unit, and what it is.
GAUGES: Mapping[str, tuple[str, str]] = {
    "worker": ("1", "1 for a worker that polls, by backing and epoch"),
    "budget.publish_p99.seconds": ("s", "what budget.publish_p99 says"),
    "observed.publish_p99.seconds": ("s", "within what 99 of 100 calls that publish were answered"),
    "budget.short": ("1", "1 if the budget is shorter than what was observed asks for"),
}

#: The ends of the buckets, the same as in traces for seconds.
_ENDS = {"s": BOUNDS[:-1], "1": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)}


class Instruments(Protocol):
    """Counters, histograms, gauges and spans. OpenTelemetry behind its extra; nothing at all without it."""

    def count(self, name: str, attributes: Mapping[str, str], by: int = 1) -> None:
        """Add one; by 0 a counter is shown before there is anything to count, so that its first one is a rise."""
        ...

    def show(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Set a gauge."""
        ...

    def record(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Add one measurement to a histogram."""
        ...

    def span(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:
        """Time what happens inside."""
        ...

    def note(self, name: str, attributes: Mapping[str, str]) -> None:
        """Mark a moment inside the span that is being timed."""
        ...


class Silence:
    """No instruments."""

    def count(self, name: str, attributes: Mapping[str, str], by: int = 1) -> None:
        """Do nothing."""

    def show(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Do nothing."""

    def record(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Do nothing."""

    def span(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:  # noqa: ARG002
        """Do nothing."""
        return nullcontext()

    def note(self, name: str, attributes: Mapping[str, str]) -> None:
        """Do nothing."""


class OpenTelemetry:
    """Counters, histograms and gauges ``perago.*``, and a span for each attempt with an event for each step.

    Where they go is for the process to set up; a provider given here is used instead.
    """

    def __init__(self, meters: MeterProvider | None = None, tracers: TracerProvider | None = None) -> None:
        from opentelemetry import metrics, trace  # noqa: PLC0415  only with the extra

        meter = metrics.get_meter("perago", meter_provider=meters)
        self._counters = {
            name: meter.create_counter(f"perago.{name}", description=says) for name, says in COUNTERS.items()
        }
        self._histograms = {
            name: meter.create_histogram(f"perago.{name}", unit, says, explicit_bucket_boundaries_advisory=_ENDS[unit])
            for name, (unit, says) in HISTOGRAMS.items()
        }
        self._gauges = {name: meter.create_gauge(f"perago.{name}", unit, says) for name, (unit, says) in GAUGES.items()}
        self._tracer = trace.get_tracer("perago", tracer_provider=tracers)
        self._current_span = trace.get_current_span

    def count(self, name: str, attributes: Mapping[str, str], by: int = 1) -> None:
        """Add one."""
        self._counters[name].add(by, dict(attributes))

    def show(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Set a gauge."""
        self._gauges[name].set(value, dict(attributes))

    def record(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Add one measurement to a histogram."""
        self._histograms[name].record(value, dict(attributes))

    def span(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:
        """Time what happens inside."""
        return self._tracer.start_as_current_span(name, attributes=dict(attributes))

    def note(self, name: str, attributes: Mapping[str, str]) -> None:
        """Mark a moment inside the span that is being timed."""
        self._current_span().add_event(name, dict(attributes))


def instruments() -> Instruments:
    """Give OpenTelemetry if it is installed."""
    try:
        return OpenTelemetry()
    except ImportError:
        return Silence()


def show_worker(instruments: Instruments, backing: Backing, epoch: int, targets: Iterable[Target]) -> None:
    """Show that a worker is there, and counters of what is rare, so that the first time is seen to be one."""
    try:
        instruments.show("worker", 1, {"backing": backing.value, "epoch": str(epoch)})
        for target in targets:
            instruments.count("lost", {"target": str(target)}, 0)
    except Exception as error:  # noqa: BLE001  whatever an instrument's trouble is, it is not the worker's
        log.warning("the worker is not shown: %s", error)


def count_step(
    instruments: Instruments,
    names: Mapping[str, str],
    before: AttemptState,
    event: Event,
    fired: Fired[Attempt, Known],
) -> None:
    """Count each step by row, each verdict of the fence, each replacement, and each answer nobody knows."""
    happened = type(event)
    instruments.count("steps", {**names, "row": fired.row.id})
    instruments.note(happened.__name__, {"row": fired.row.id, "next": fired.state.phase.name})
    decision = fired.state.known.decision
    if happened is HeadSeen and decision is not before.known.decision and decision is not None:
        instruments.count("fence", {**names, "verdict": decision.verdict})
    for command in before.pending:
        if isinstance(command, Publish) and happened is Published and command.plan.kind is not PlanKind.MERGE:
            instruments.count("replacements", {**names, "kind": command.plan.kind.value})
        if happened in command.answers.unknown:
            instruments.count("unknowns", {**names, "command": type(command).__name__})


def count_outcome(instruments: Instruments, names: Mapping[str, str], attempt: Attempt, outcome: Outcome) -> None:
    """Count how an attempt ended, why if it was refused, and what it left behind. Never raises: it is over."""
    try:
        _count_outcome(instruments, names, outcome)
        if attempt.number > 1:
            instruments.count("retries", names)
    except Exception as error:  # noqa: BLE001  whatever an instrument's trouble is, it is not the attempt's
        log.warning("the end of an attempt was not counted: %s", error)


def _count_outcome(instruments: Instruments, names: Mapping[str, str], outcome: Outcome) -> None:
    result = outcome.result
    refusal = outcome.silence if result is None or isinstance(result, Completed) else result.refusal
    ended = {
        "result": "silent" if result is None else type(result).__name__.lower(),
        "why": "none" if refusal is None else refusal.classification.value,
        "taken": outcome.acceptance.value,
    }
    instruments.count("outcomes", {**names, **ended})
    if refusal is not None:
        instruments.count("refusals", {**names, "why": refusal.classification.value})
    if outcome.adopted:
        instruments.count("adoptions", names)
    for _ in outcome.left_behind:
        instruments.count("leaks", names)


def count_operations(instruments: Instruments, names: Mapping[str, str], measured: Measured) -> None:
    """Record what one attempt took: requests by class, and how long its publication was. Never raises: it is over."""
    try:
        for charge, operations in measured.operations:
            instruments.record("attempt.operations", operations, {**names, "class": charge})
        if measured.publication is not None:
            instruments.record("publication.seconds", measured.publication, names)
    except Exception as error:  # noqa: BLE001  as above
        log.warning("what an attempt took was not recorded: %s", error)


def summary(attempt: Attempt, outcome: Outcome) -> str:
    """Say in one line what became of an attempt, for the log of the task, and what went wrong in a port on the way."""
    faults = "".join(f" On the way {fault}; see the worker's log." for fault in outcome.faults)
    return f"{_ending(attempt, outcome)}{faults}"


def _ending(attempt: Attempt, outcome: Outcome) -> str:
    who = f"attempt {attempt.number} ({attempt.execution}) of {attempt.logical_task} on {attempt.target}"
    result = outcome.result
    if isinstance(result, Completed):
        adopted = " of an earlier attempt" if outcome.adopted else ""
        return f"{who}: completed with {result.ref}{adopted}, {outcome.acceptance.value} [{outcome.backing.value}]"
    if result is not None:
        return f"{who}: failed, {result.refusal}"
    return f"{who}: silent, {outcome.silence}"


def joined(ref: str, between: Between) -> str:
    """Say onto what an attempt that shares its branch was published, and for whom it waited."""
    commits = between.commits or ()
    onto = commits[0].commit.ref if commits else "its input"
    waited = f", waited {between.waited:.1f} s for {between.waited_for}" if between.waited_for else ""
    above = f", above {' and '.join(between.over)}, which nobody has accepted yet" if between.over else ""
    return f"published {ref} onto {onto} over {len(commits)} commit(s) of others{above}{waited}"


def trace_file(folder: Path, attempt: Attempt) -> Path:
    """Name the trace of one execution; the name sorts by task, then attempt."""
    return folder / f"{trace_prefix(attempt.logical_task)}-{attempt.number:03d}-{attempt.execution}.jsonl"


def trace_prefix(name: str) -> str:
    """Return what the traces of a logical task are called; of a workflow, whose tasks' names begin with its own."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def line_writer(path: Path) -> Callable[[str], object]:
    """Return a writer of lines that are on disk, as far as the process is concerned, when it returns.

    Nothing is made before the first line: a folder that cannot be made is then trouble of the observer, not of the run.
    Results are in it, so the file is its owner's, as the databases are.
    """

    def write(line: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", opener=_for_its_owner) as file:
            file.write(f"{line}\n")

    return write
