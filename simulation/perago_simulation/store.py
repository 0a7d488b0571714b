"""How a store carries out a publication, by what it can do.

A store begins an update: it looks up the source and the head, checks what it can check, and computes the new head. It
installs it only if the branch record has not changed since; otherwise it begins again. To ask what *your* store gives,
subclass ``Store`` and hand it to ``Model``.
"""

from __future__ import annotations

from perago_core.plan import Condition, PlanKind
from perago_simulation.history import merged
from perago_simulation.settings import Setting
from perago_simulation.world import Request, World


class Store:
    """A store with the capabilities of the setting."""

    def refusal(self, setting: Setting, world: World, request: Request) -> str | None:
        """Judge a publication when it begins: by what the store can check, and by nothing else."""
        plan, able = request.plan, setting.store
        if able.revocable_names and plan.name is not None and request.run not in dict(world.names):
            return "no such name"
        checked = able.conditional_merge if plan.kind is PlanKind.MERGE else able.conditional_relocate
        if checked and plan.condition is not Condition.NONE and world.head != plan.expected:
            return "unexpected head"
        if able.conditional_claim and plan.condition is Condition.HEAD_AND_CLAIM:
            at = world.tasks[world.runs[request.run].task].step
            if world.raised[at] != request.run:
                return "another claim stands"
        return None

    def installed(self, _setting: Setting, world: World, request: Request) -> str:
        """Give the new head a publication installs."""
        plan = request.plan
        return merged(plan.commit, world.head) if plan.kind is PlanKind.MERGE else plan.commit
