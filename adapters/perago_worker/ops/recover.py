"""Sweeps of open intents by the worker, and the alarm when an accepted result is not on its branch.

Every sweep ends here: ``perago recover``, a starting worker and the recovery task call ``recover_target``; the sweep
before a publication happens inside the attempt, and the runtime hands its alarms to ``report_alarms``. That sweep
closes the intent, so nothing raises the alarm a second time; afterwards only the audit record knows (``found_lost``).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from functools import lru_cache

from attrs import evolve, frozen

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.ledger.records import AUDITS, Audit, SettlementKind, Unreadable, decode
from perago_core.ports import Entry
from perago_core.recovery import Ending, Mode, Recovery, RecoveryOutcome, Swept, recover, sweep
from perago_core.values import Target
from perago_worker.logger import log
from perago_worker.runtime.telemetry import Instruments
from perago_worker.stack import Stack

#: Between who settled an intent and why a person decided so; the audit record has no other place for it.
ON_GROUNDS = ", on these grounds: "


def recover_target(
    stack: Stack, target: Target, mode: Mode, actor: str, *, instruments: Instruments, grounds: str = ""
) -> Answer[Swept]:
    """Sweep the open intents of one target and report the alarms."""
    swept = run(sweep(target, mode, actor, grounds, secrets.token_hex(8)), stack.ports())
    if isinstance(swept, Done):
        report_alarms(target, swept.value.alarms, instruments)
    return swept


def tidy_up(stack: Stack, target: Target, actor: str, *, roll_back: bool, instruments: Instruments) -> Answer[Swept]:
    """Settle what is over on one target and, if wanted, take back what failed workflows left unaccepted."""
    mode = Mode.ROLL_BACK_FAILED if roll_back else Mode.SETTLE_ONLY
    grounds = "the workflow has failed, and roll_back_failed is on" if roll_back else ""
    swept = recover_target(stack, target, mode, actor, instruments=instruments, grounds=grounds)
    for each in swept.value.outcomes if isinstance(swept, Done) else ():
        if each.audit is SettlementKind.ROLLED_BACK:
            log.warning("%s: took back what intent %s had published and nobody accepted", target, each.operation_id)
        if each.unaccepted is not None:
            log.warning("%s: %s. %s", target, each.reason, each.next_action)
    return swept


def recover_one(stack: Stack, subject: Recovery, *, instruments: Instruments) -> RecoveryOutcome:
    """Recover one open intent and report the alarm, if there is one."""
    at = stack.clock.wall()
    found = run(recover(evolve(subject, at=at, nonce=secrets.token_hex(8))), stack.ports())
    if found.alarm:
        report_alarms(subject.target, (f"intent {found.operation_id}: {found.reason}",), instruments)
    return found


def report_alarms(target: Target, alarms: Iterable[str], instruments: Instruments) -> None:
    """Log each accepted result that is not on its branch at ERROR, and count it. Instruments that fail stop nothing."""
    for alarm in alarms:
        log.error("ACCEPTED RESULT LOST on %s: %s", target, alarm)
        try:
            instruments.count("lost", {"target": str(target)})
        except Exception as error:  # noqa: BLE001  whatever an instrument's trouble is, it is not the sweep's
            log.warning("the lost result was not counted: %s", error)


def open_intents(stack: Stack, target: Target) -> Answer[Swept]:
    """Look at the open intents of one target, and settle nothing."""
    return run(sweep(target, Mode.PROBE, "look"), stack.ports())


@frozen
class Unaccepted:
    """What is the head of a target although nobody accepted it, and, in words, why that may not be all of it."""

    heads: tuple[RecoveryOutcome, ...] = ()
    unknown: tuple[str, ...] = ()


def unaccepted(stack: Stack, target: Target) -> Unaccepted:
    """Look for a head that nobody accepted. Without a ledger there is nowhere to look, and nothing is said."""
    if stack.coordination is None:
        return Unaccepted()
    looked = open_intents(stack, target)
    if not isinstance(looked, Done):
        return Unaccepted(unknown=(unknown_acceptance(target, f"the ledger cannot be read: {looked.reason}"),))
    # Who only looks defers and refuses what could not be read, and nothing else.
    unread = [each for each in looked.value.outcomes if each.ending in {Ending.DEFERRED, Ending.REFUSED}]
    return Unaccepted(
        looked.value.unaccepted,
        tuple(unknown_acceptance(target, f"intent {each.operation_id}: {each.reason}") for each in unread),
    )


def unknown_acceptance(target: Target, reason: str) -> str:
    """Say that nobody can tell whether a target shows something unaccepted, why, and what to do."""
    return (
        f"whether everything on {target} was accepted: {reason}. Nothing follows from that; `perago doctor` says which "
        "part does not answer, and once it does, look again"
    )


def audits(stack: Stack) -> Answer[tuple[Audit | Unreadable, ...]]:
    """Read every audit record, in the order of their keys; none without a ledger."""
    if stack.coordination is None:
        return Done(())
    found = stack.coordination.list(AUDITS)
    if not isinstance(found, Done):
        return found
    return Done(tuple(_audit(entry) for entry in found.value))


@lru_cache(maxsize=50_000)
def _audit(entry: Entry) -> Audit | Unreadable:
    """Read one record. It never changes, and who looks every few seconds reads each one once."""
    return decode(Audit, entry)


def found_lost(records: Iterable[Audit | Unreadable], target: Target) -> tuple[Audit, ...]:
    """Return the audit records which say that an accepted result was not on this target when it was swept."""
    return tuple(
        each
        for each in records
        if isinstance(each, Audit)
        and each.kind is SettlementKind.ACCEPTED_LOST
        and any(move.target == target for move in each.movements)
    )
