"""Retention at work: ``perago gc`` goes through the whole ledger, a worker now and then through a part of it."""

from __future__ import annotations

import secrets
from threading import Lock
from typing import Final

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.ledger.records import AUDITS
from perago_core.ledger.retention import Collected, Retention, collect
from perago_worker.logger import log
from perago_worker.stack import Stack

#: How many audit records are looked at in one go.
PART: Final = 200
#: Seconds a worker lets pass between two parts: some thirty thousand records a day.
EVERY: Final = 600.0


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


class LedgerCollector:
    """What a worker does about the ledger's growth, between two tasks: one part, and then nothing for a while.

    Keys are random, so a worker that begins anywhere and goes round meets them all, however short it lives.
    """

    def __init__(self, stack: Stack, retention: Retention) -> None:
        self._stack = stack
        self._retention = retention
        self._after = AUDITS + secrets.token_hex(2)
        self._next = stack.clock.now()
        self._busy = Lock()

    def collect_now_and_then(self) -> None:
        """Collect the next part if it is time. Trouble is logged and nothing else: the next part may do better."""
        if self._stack.coordination is None or not self._busy.acquire(blocking=False):
            return
        try:
            if self._stack.clock.now() >= self._next:
                self._next = self._stack.clock.now() + EVERY
                self._collect()
        finally:
            self._busy.release()

    def _collect(self) -> None:
        part = run(collect(self._retention, after=self._after, limit=PART), self._stack.ports())
        if not isinstance(part, Done):
            log.warning("old records stay in the ledger for now: %s", part.reason)
            return
        self._after = part.value.after
        if part.value.removed:
            log.info("removed %d record(s) from the ledger whose time is over", part.value.removed)
