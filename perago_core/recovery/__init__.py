"""The recovery machine: what became of an intent nobody finished, and what may be done about it.

``sweep`` runs it over the open intents of one target. To drive it yourself: ``start`` with a ``Recovery``, ``perform``
each command on the ports, ``step`` with the event it gives, until ``outcome`` says how it ended. The rows are in
``table``, the classifier in ``classify``.
"""

from __future__ import annotations

from perago_core.recovery.classify import WALK_LIMIT, Class
from perago_core.recovery.run import Swept, perform, recover, sweep
from perago_core.recovery.state import (
    Ending,
    Mode,
    Phase,
    Recovery,
    RecoveryKnown,
    RecoveryOutcome,
    RecoveryState,
    Word,
    outcome,
)
from perago_core.recovery.table import RECOVERY, start, step

__all__ = [
    "RECOVERY",
    "WALK_LIMIT",
    "Class",
    "Ending",
    "Mode",
    "Phase",
    "Recovery",
    "RecoveryKnown",
    "RecoveryOutcome",
    "RecoveryState",
    "Swept",
    "Word",
    "outcome",
    "perform",
    "recover",
    "start",
    "step",
    "sweep",
]
