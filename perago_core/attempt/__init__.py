"""The attempt machine: what does one attempt do next, given what just happened."""

from __future__ import annotations

from perago_core.attempt import commands, events, failures
from perago_core.attempt.known import AttemptState, Known
from perago_core.attempt.machine import ATTEMPT, outcome, start, step
from perago_core.attempt.phases import Phase

__all__ = [
    "ATTEMPT",
    "AttemptState",
    "Known",
    "Phase",
    "commands",
    "events",
    "failures",
    "outcome",
    "start",
    "step",
]
