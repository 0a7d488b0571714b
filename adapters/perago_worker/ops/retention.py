"""Retention at work: ``perago gc`` goes through all there is, a worker now and then through a part of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import cycle
from typing import Final

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.ledger.records import AUDITS
from perago_core.ledger.retention import Collected, Retention, collect
from perago_core.pipelines import OrchestratorError
from perago_core.values import Target
from perago_worker.logger import log
from perago_worker.ops.collector import Collector
from perago_worker.ops.gc import CollectError, collect_claims
from perago_worker.stack import Stack, pipelines_of

#: How many audit records, or tasks with claims, are looked at in one go.
PART: Final = 200
#: Seconds a worker lets pass between two parts: some thirty thousand records, or tasks, a day.
EVERY: Final = 600.0
#: Seconds a run must be over before its claims go; as ``perago gc`` has it where nobody says otherwise.
DAY: Final = 24 * 3600.0


def collect_ledger(stack: Stack, retention: Retention, *, dry_run: bool = False) -> Answer[Collected]:
    """Remove everything in the ledger whose time is over, part by part; without a ledger there is nothing."""
    total = Collected()
    while stack.coordination is not None:
        part = run(collect(retention, after=total.after, limit=PART, dry_run=dry_run), stack.ports())
        if not isinstance(part, Done):
            return part
        total += part.value
        if not total.after:
            break
    return Done(total)


class LedgerCollector(Collector):
    """Removes records whose time is over.

    Keys are random, so a worker that begins anywhere and goes round meets them all, however short it lives.
    """

    def __init__(self, stack: Stack, retention: Retention) -> None:
        super().__init__(stack, EVERY)
        self._retention = retention
        self._after = AUDITS + secrets.token_hex(2)

    def _collect(self) -> None:
        if self._stack.coordination is None:
            return
        part = run(collect(self._retention, after=self._after, limit=PART), self._stack.ports())
        if not isinstance(part, Done):
            log.warning("old records stay in the ledger for now: %s", part.reason)
            return
        self._after = part.value.after
        if part.value.removed:
            log.info("removed %d record(s) from the ledger whose time is over", part.value.removed)


class ClaimCollector(Collector):
    """Removes the claims of tasks whose run is long over, one repository at a time: what ``perago gc`` does as well.

    A part is drawn, so that a worker that lives for one task only does its share.
    """

    def __init__(self, stack: Stack, targets: Iterable[Target]) -> None:
        super().__init__(stack, EVERY)
        self._targets = cycle({each.repository: each for each in targets}.values())

    def _collect(self) -> None:
        target = next(self._targets, None)
        if target is None:
            return
        try:
            removed = collect_claims(self._stack, pipelines_of(self._stack), target, DAY, most=PART)
        except (CollectError, OrchestratorError) as error:
            log.warning("claims of runs that are over stay in %s for now: %s", target.repository, error)
            return
        if removed:
            log.info("removed the claims of %d task(s) that are over from %s", len(removed), target.repository)
