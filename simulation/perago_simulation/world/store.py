"""How a store carries out a publication, by what it can do.

A store begins an update: it looks up the source and the head, checks what it can check, and computes the new head. It
installs it only if the branch record has not changed since; otherwise it begins again. To ask what *your* store gives,
subclass ``Store`` and hand it to ``Model``.
"""

from __future__ import annotations

from typing import ClassVar

from perago_core.plan import Condition, PlanKind
from perago_simulation.world.capabilities import Capabilities
from perago_simulation.world.history import merged
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import DIRTY, MISSING, Request, World, branch_of


class Store:
    """A store with the capabilities of the setting. A store of your own may say itself what it ``can`` do."""

    can: ClassVar[Capabilities | None] = None

    def refusal(self, setting: Setting, world: World, request: Request) -> str | None:
        """Judge a publication when it begins: by what the store can check, and by nothing else."""
        plan, able, branch = request.plan, setting.store, branch_of(world)
        # A relocation does not look for uncommitted objects, and carries them on to the new head (T-F5).
        if branch is MISSING or (branch is DIRTY and plan.kind is PlanKind.MERGE):
            return f"the branch is {branch}"
        if able.revocable_names and plan.name is not None and request.run not in dict(world.names):
            return "no such name"
        can_check = able.conditional_merge if plan.kind is PlanKind.MERGE else able.conditional_relocate
        checked = can_check and plan.condition is not Condition.NONE
        if checked and world.head != plan.expected:
            return "unexpected head"
        if not checked and not able.blind:
            return "no move without a condition"
        if able.conditional_claim and plan.condition is Condition.HEAD_AND_CLAIM:
            at = world.tasks[world.runs[request.run].task].step
            if world.raised[at] != request.run:
                return "another claim stands"
        return None

    def installed(self, _setting: Setting, world: World, request: Request) -> str:
        """Return the new head a publication installs."""
        plan = request.plan
        if plan.kind is not PlanKind.MERGE:
            return plan.commit
        return merged(plan.commit, world.head, joins=plan.joins, over=plan.over)
