"""Your own store in thirty lines: one with fencing tokens, but without names that can be revoked.

    cd simulation/examples
    perago ladder  --store fenced_store:FencedStore --backing conditional
    perago explore --store fenced_store:FencedStore --backing conditional --store-can conditional_merge

The first prints its row of the ladder. Accepted results are as safe as on the store `conditional` asks for. But a token
stops only older attempts; a name can be deleted by whoever made it, to be sure that a request whose answer was lost
does not land any more. Here it does, after its attempt has reported a failure (C8) or the collector has come (S-17).

The second takes the barrier away: the token is checked when an update begins, so one that had begun before the newer
attempt came still lands after it (S-02b).
"""

# ruff: noqa: INP001  an example, not a package
from __future__ import annotations

from typing import ClassVar

from perago_simulation.world.capabilities import Capabilities
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import Request, World
from perago_simulation.world.store import Store


class FencedStore(Store):
    """Refuses a publication of an attempt that is older than the newest one it has seen a claim of."""

    can: ClassVar[Capabilities | None] = Capabilities(conditional_merge=True, barrier=True)

    def refusal(self, setting: Setting, world: World, request: Request) -> str | None:
        """Look at the token, then at whatever every store looks at."""
        task = world.tasks[world.runs[request.run].task]
        claims = [each for each in world.claims if each.logical_task == f"wf/step{task.step}"]
        if any(each.number > task.number for each in claims):
            return "a newer attempt has claimed"
        return super().refusal(setting, world, request)
