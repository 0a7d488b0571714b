"""Tells OpenLineage of each attempt: when it begins, and how it ended. No trouble of it is the attempt's."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from perago_core.ports import Clock
from perago_core.results import Outcome
from perago_core.values import Attempt
from perago_worker.api.task import TaskDefinition
from perago_worker.config.settings import Settings
from perago_worker.logger import log
from perago_worker.runtime.lineage import Lineage
from perago_worker.runtime.lineage_sender import LineageSender, lineage_sender
from perago_worker.runtime.telemetry import Instruments


@frozen
class LineageReporter:
    """Makes events and hands them to the sender."""

    lineage: Lineage
    sender: LineageSender
    clock: Clock

    def begin(self, attempt: Attempt, definition: TaskDefinition, code: str) -> None:
        """Tell that an attempt begins."""
        self._tell(lambda: self.lineage.started(attempt, definition, code, self.clock.wall()))

    def end(self, attempt: Attempt, definition: TaskDefinition, code: str, outcome: Outcome) -> None:
        """Tell how an attempt ended."""
        self._tell(lambda: self.lineage.ended(attempt, definition, code, self.clock.wall(), outcome))

    def _tell(self, event: Callable[[], Mapping[str, Any]]) -> None:
        try:
            self.sender.tell(event())
        except Exception as error:  # noqa: BLE001  it watches, it does not decide
            log.warning("OpenLineage was not told of an attempt: %s", type(error).__name__)


@contextmanager
def lineage_reporter(settings: Settings, instruments: Instruments, clock: Clock) -> Generator[LineageReporter | None]:
    """Report as the settings say; ``None`` if they say nothing. Data is named by the store's address, if it has one."""
    with lineage_sender(settings.telemetry, instruments) as sender:
        if sender is None:
            yield None
            return
        namespace = settings.telemetry.namespace
        yield LineageReporter(Lineage(namespace, settings.store.url or namespace), sender, clock)
