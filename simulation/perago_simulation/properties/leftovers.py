"""What may be left at rest: nothing of an execution that was not killed; and an attempt that was left alone is done.

Each clause is judged only where its excuse cannot apply: what a lost answer or a stranger explains is no leftover.
"""

from __future__ import annotations

from perago_core.values import Backing
from perago_simulation.properties.safety import Property, When, disturbed, troubled
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import COMPLETED, DEAD, NOBODY, World


def _no_name(setting: Setting, world: World) -> str | None:
    if troubled(setting, world):  # the clean-up itself may be what was lost or refused
        return None
    left = [run for run, _ in world.names if world.runs[run].fate is not DEAD]
    return f"names of executions that ended by themselves are left: {left}" if left else None


def _no_lease(setting: Setting, world: World) -> str | None:
    # After a publication whose fate is not known the lease is kept on purpose: the next holder has to wait.
    if troubled(setting, world) or disturbed(setting, world):
        return None
    holder = world.lease.holder
    if holder == NOBODY or world.runs[holder].fate is DEAD:
        return None
    return f"e{holder} has ended and still holds the lease"


def _no_intent(setting: Setting, world: World) -> str | None:
    """An intent stays open at rest only behind a worker that died or could not find out.

    Or whose result an operator has taken back by a rerun, or refused by ending the workflow, after it was published:
    what nobody accepted stays open until it is rolled back or kept (ADR 29).
    """
    if not setting.ledger or setting.pauses or setting.reruns or setting.terminations:
        return None
    if troubled(setting, world) or disturbed(setting, world):
        return None
    left = [run for run in world.intents if world.runs[run].fate is not DEAD]
    return f"intents of executions that ended by themselves are open: {left}" if left else None


def _left_alone_completes(setting: Setting, world: World) -> str | None:
    """Judged where nothing can be excused: no pauses, no lost answers, no second deliveries, no strangers.

    With a lease only in one workflow of one step: the worker of an accepted step may still hold the lease when the next
    step, or the next workflow, asks for it, and that is refused although nothing went wrong.
    """
    if setting.pauses or setting.losses or setting.duplicates or setting.strangers or world.rare is not None:
        return None
    if setting.abreast:  # the other workflow has moved the branch, and an attempt is rightly refused
        return None
    if setting.backing is Backing.LOCKED and setting.steps * setting.workflows > 1:
        return None
    last = len(world.tasks) - 1
    if world.tasks[last].status is COMPLETED or any(run.task == last and run.fate is DEAD for run in world.runs):
        return None
    # A dead holder's lease that had not run out refuses the next attempt; that is what a lease is for (L-04).
    if not world.lease.clean or (world.lease.holder != NOBODY and world.runs[world.lease.holder].fate is DEAD):
        return None
    return f"nothing went wrong in t{last}, and it is {world.tasks[last].status}"


LEFTOVERS = (
    Property("S-33", "no name is left by an execution that was not killed", When.AT_REST, _no_name),
    Property("S-33b", "no lease is left by an execution that was not killed", When.AT_REST, _no_lease),
    Property("S-33c", "no intent is left by an execution that was not killed", When.AT_REST, _no_intent),
    Property("L-02", "an attempt that is left alone completes", When.AT_REST, _left_alone_completes),
)
