"""Tells OpenLineage of each attempt: when it begins, and how it ended. No trouble of it is the attempt's."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from attrs import frozen

from perago_core.ports import Clock
from perago_core.results import Outcome
from perago_core.values import Attempt
from perago_worker.api.task import TaskDefinition
from perago_worker.config.settings import Settings
from perago_worker.logger import log
from perago_worker.runtime.lineage import Lineage
from perago_worker.runtime.lineage_sender import LineageSender, lineage_sender
from perago_worker.runtime.lineage_unfinished import Unfinished
from perago_worker.runtime.telemetry import Instruments
from perago_worker.stack import Stack


@frozen
class LineageReporter:
    """Makes events and hands them to the sender."""

    lineage: Lineage
    sender: LineageSender
    clock: Clock
    unfinished: Unfinished | None = None

    def begin(self, attempt: Attempt, definition: TaskDefinition, code: str) -> None:
        """Tell that an attempt begins, and have somebody else tell its end should this worker die."""

        def told() -> None:
            event = self.lineage.started(attempt, definition, code, self.clock.wall())
            self.sender.tell(event)
            if self.unfinished is not None:
                self.unfinished.began(attempt, event)

        self._try(told)

    def end(self, attempt: Attempt, definition: TaskDefinition, code: str, outcome: Outcome) -> None:
        """Tell how an attempt ended."""

        def told() -> None:
            self.sender.tell(self.lineage.ended(attempt, definition, code, self.clock.wall(), outcome))
            if self.unfinished is not None:
                self.unfinished.ended(attempt)

        self._try(told)

    def _try(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as error:  # noqa: BLE001  it watches, it does not decide
            log.warning("OpenLineage was not told of an attempt: %s", type(error).__name__)


@contextmanager
def lineage_reporter(settings: Settings, instruments: Instruments, stack: Stack) -> Generator[LineageReporter | None]:
    """Report as the settings say; ``None`` if they say nothing. Data is named by the store's address, if it has one."""
    with lineage_sender(settings.telemetry, instruments) as sender:
        if sender is None:
            yield None
            return
        namespace, clock = settings.telemetry.namespace, stack.clock
        lineage = Lineage(namespace, settings.store.url or namespace)
        if stack.coordination is None:
            yield LineageReporter(lineage, sender, clock)
            return
        with Unfinished(stack.coordination, stack.orchestrator, sender, clock).open() as unfinished:
            yield LineageReporter(lineage, sender, clock, unfinished)
