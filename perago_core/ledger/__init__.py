"""The ledger: what an execution is about to do, what became of it, and the lasting evidence of both.

``arm`` an intent before the effect, ``confirm`` it after, ``settle`` it at the end. What nobody finished is found by
``list_open`` and finished by the recovery machine. The ledger changes no safety verdict; it adds the proof.
"""

from __future__ import annotations

from perago_core.ledger.calls import (
    MAINTAINED_LIMIT,
    arm,
    confirm,
    forget,
    list_intents,
    list_open,
    maintained,
    newest_maintained,
    read_epoch,
    settle,
)
from perago_core.ledger.records import (
    Audit,
    Intent,
    IntentState,
    Movement,
    Prepared,
    Settlement,
    SettlementKind,
    TargetIntent,
    Unreadable,
)

__all__ = [
    "MAINTAINED_LIMIT",
    "Audit",
    "Intent",
    "IntentState",
    "Movement",
    "Prepared",
    "Settlement",
    "SettlementKind",
    "TargetIntent",
    "Unreadable",
    "arm",
    "confirm",
    "forget",
    "list_intents",
    "list_open",
    "maintained",
    "newest_maintained",
    "read_epoch",
    "settle",
]
