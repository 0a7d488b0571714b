"""What a worker measures of its attempts, and its word when the budget is shorter than that.

Everything here watches. Nothing it does, and no failure of it, changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from attrs import define, fields

from perago_core.attempt.state import AttemptState, Known, Phase
from perago_core.budget import PublishBudget
from perago_core.driver import Meter
from perago_core.machine.rows import Fired
from perago_core.measured import ENOUGH, PUBLISH, CallTimes, Measured, fitted, summed
from perago_core.values import Attempt
from perago_worker.logger import log
from perago_worker.runtime.telemetry import Instruments, Silence


@define
class PublicationTimer:
    """Seconds from the attempt fence before publishing to the answer to the report, if anything was published."""

    now: Callable[[], float]
    began: float | None = None
    sent: bool = False
    seconds: float | None = None

    def observe(self, before: AttemptState, fired: Fired[Attempt, Known]) -> None:
        """Look at one step."""
        if self.began is None and fired.state.phase is Phase.FENCE_2:
            self.began = self.now()
        self.sent = self.sent or fired.state.phase is Phase.PUBLICATION
        if before.phase is Phase.REPORT and self.sent and self.began is not None:
            self.seconds = self.now() - self.began


def measured(meter: Meter, timer: PublicationTimer) -> Measured:
    """Return what one attempt has measured, for the last line of its trace."""
    calls = tuple(meter.times[name] for name in sorted(meter.times))
    return Measured(calls, tuple(sorted(meter.operations.items())), timer.seconds)


class BudgetWatch:
    """Compares the budget with what this worker has seen, and warns when it is too short, once for each new finding.

    Dashboards are shown both, from the first publication on.
    """

    def __init__(self, budget: PublishBudget, instruments: Instruments | None = None) -> None:
        self._budget = budget
        self._instruments = instruments or Silence()
        self._fitted = budget
        self._observed: Mapping[str, CallTimes] = {}
        self._lock = Lock()

    def add(self, found: Measured) -> None:
        """Take one attempt's measurements into account."""
        with self._lock:
            self._observed = summed((*self._observed.values(), *found.calls))
            publications = self._observed.get(PUBLISH)
            if publications is None:
                return
            enough = publications.calls >= ENOUGH
            proposed = fitted(self._budget, self._observed) if enough else self._fitted
            news, self._fitted = proposed != self._fitted, proposed
            self._show(publications)
        if news:
            log.warning(
                "the publish budget is too short for what %d publications took (p99 %s): set %s in [budget]; "
                "`perago doctor` shows what was measured",
                publications.calls,
                shown(publications.quantile(0.99)),
                difference(self._budget, proposed),
            )

    def _show(self, publications: CallTimes) -> None:
        try:
            self._instruments.show("budget.publish_p99.seconds", self._budget.publish_p99, {})
            self._instruments.show("observed.publish_p99.seconds", publications.quantile(0.99), {})
            self._instruments.show("budget.short", float(self._fitted != self._budget), {})
        except Exception as error:  # noqa: BLE001  whatever an instrument's trouble is, it is not the attempt's
            log.warning("the budget is not shown: %s", error)


def difference(budget: PublishBudget, proposed: PublishBudget) -> str:
    """Name what one budget has otherwise than another, as it is written in perago.toml."""
    numbers = {each.name: getattr(proposed, each.name) for each in fields(PublishBudget)}
    return ", ".join(f"{name} = {value:g}" for name, value in numbers.items() if getattr(budget, name) != value)


def shown(seconds: float) -> str:
    """Show a time to people."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
