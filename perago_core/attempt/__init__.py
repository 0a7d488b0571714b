"""The attempt machine: what does one attempt do next, given what just happened."""

from __future__ import annotations

from perago_core.attempt import messages
from perago_core.attempt.state import AttemptState, Known, Phase
from perago_core.attempt.table import ATTEMPT, outcome, start, step

__all__ = [
    "ATTEMPT",
    "AttemptState",
    "Known",
    "Phase",
    "messages",
    "outcome",
    "start",
    "step",
]
