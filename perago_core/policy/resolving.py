"""A node finds out its backing: the policy machine together with the conversations that carry out what it asks for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from perago_core.answers import Answer
from perago_core.calls import Call
from perago_core.policy.calls import perform
from perago_core.policy.known import PolicySettings
from perago_core.policy.outcomes import PolicyFailed, Resolved, outcome
from perago_core.policy.table import start, step


def resolve(settings: PolicySettings) -> Generator[Call, Answer[Any], Resolved | PolicyFailed]:
    """Carry a node from its settings to the cluster's decision, or to the reason why there is none."""
    state, commands = start(settings)
    while commands:
        (command,) = commands
        state, commands = step(state, (yield from perform(command, settings)))
    ended = outcome(state)
    assert ended is not None
    return ended
