"""Judging an execution by what it is about to ask for: a world shows the next command of everybody who lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from perago_core.attempt import AttemptState
from perago_core.machine.rows import Command
from perago_simulation.properties.safety import Judge
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import World

#: Judges one execution by what it is about to ask for: setting, world, its number, its state, the command.
Rule: TypeAlias = Callable[[Setting, World, int, AttemptState, Any], str | None]


def about(*kinds: type[Command]) -> Callable[[Rule], Judge]:
    """Judge every living execution that is about to ask for one of these."""

    def decorate(rule: Rule) -> Judge:
        @wraps(rule)
        def judge(setting: Setting, world: World) -> str | None:
            for index, run in enumerate(world.runs):
                state = run.state
                if state is not None and type(state.pending[0]) in kinds:
                    problem = rule(setting, world, index, state, state.pending[0])
                    if problem is not None:
                        return problem
            return None

        return judge

    return decorate
