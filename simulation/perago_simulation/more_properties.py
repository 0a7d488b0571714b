"""Properties that mutants showed to be missing. Each is here because a wrong table survived without it.

A world shows what its executions are about to ask, so a property may also say what nobody ever asks for.
"""

from __future__ import annotations

import re
from functools import cache

from perago_core.attempt import commands as c
from perago_core.ledger.records import SettlementKind
from perago_core.plan import PlanKind
from perago_core.results import Classification, Completed, Failed
from perago_core.rows import Command
from perago_core.values import Backing
from perago_simulation.history import ROOT, chain, commit
from perago_simulation.properties import Property, When
from perago_simulation.settings import Setting
from perago_simulation.world import COMPLETED, DEAD, NOBODY, OPEN, RUNNING, Run, World

_MADE = re.compile(r"[CDEM](\d+)")


@cache
def maker(ref: str) -> int:
    """Give the execution that made a commit, or ``NOBODY`` for the root and for a stranger's."""
    made = _MADE.match(ref)
    return int(made[1]) if made else NOBODY


def _asks(run: Run) -> Command | None:
    """Give what a living execution is about to ask for."""
    return run.state.pending[0] if run.fate is RUNNING and run.state is not None else None


def _no_success_from_doubt(_setting: Setting, world: World) -> str | None:
    for index, run in enumerate(world.runs):
        asked = _asks(run)
        if isinstance(asked, c.Report) and isinstance(asked.result, Completed):
            assert run.state is not None
            if run.state.known.uncertain:
                return f"e{index} reports {asked.result.ref} although it does not know whether it was published"
    return None


def _output_is_own(_setting: Setting, world: World) -> str | None:
    for index, task in enumerate(world.tasks):
        if task.status is COMPLETED and task.ref != task.input and maker(task.ref) != task.winner:
            return f"t{index} was completed by e{task.winner} with {task.ref}, which e{task.winner} did not make"
    return None


def _no_change_is_dropped(_setting: Setting, world: World) -> str | None:
    for index, run in enumerate(world.runs):
        asked = _asks(run)
        if isinstance(asked, c.Report) and isinstance(asked.result, Completed):
            assert run.state is not None
            if run.state.known.changed and asked.result.ref == run.state.subject.input:
                return f"e{index} changed something and reports its input"
    return None


def _nothing_alive_is_replaced(_setting: Setting, world: World) -> str | None:
    for request in world.requests:
        plan = request.plan
        if plan.kind is PlanKind.MERGE:
            continue
        owner = maker(plan.expected)
        if owner == NOBODY:
            return f"e{request.run} sends a relocation over {plan.expected}, which no execution made"
        # A status that has ended never changes, so what is open or completed now was so when the request was sent.
        status = world.tasks[world.runs[owner].task].status
        if status is OPEN or status is COMPLETED:
            return f"e{request.run} sends a relocation over {plan.expected} of a task that is {status}"
    return None


def _one_publisher(_setting: Setting, world: World) -> str | None:
    """A sender is seen while its request is on its way, and afterwards by its commit on the branch."""
    senders: dict[int, int] = {}
    landed = (run for run in map(maker, chain(world.head)) if run != NOBODY)
    for run in (*(request.run for request in world.requests), *landed):
        other = senders.setdefault(world.runs[run].task, run)
        if other != run:
            return f"e{other} and e{run} both published for t{world.runs[run].task}"
    return None


def _nothing_leaks(setting: Setting, world: World) -> str | None:
    if world.budget.losses != setting.losses:  # the clean-up itself may be what was lost
        return None
    left = [run for run, _ in world.names if world.runs[run].fate is not DEAD]
    return f"names of executions that ended by themselves are left: {left}" if left else None


def _clean_up_knows_its_name(_setting: Setting, world: World) -> str | None:
    names = dict(world.names)
    for index, run in enumerate(world.runs):
        asked = _asks(run)
        if isinstance(asked, c.CleanUp) and asked.name is None and index in names:
            return f"e{index} cleans up and forgets its name"
    return None


def _loser_is_silent(setting: Setting, world: World) -> str | None:
    """Judged of those who asked for the claim. A duplicate that fails before it asks reports like anybody else."""
    if setting.backing is Backing.SOFT:
        return None
    for index, run in enumerate(world.runs):
        asked = _asks(run)
        if not isinstance(asked, c.Report):
            continue
        result = asked.result
        if isinstance(result, Failed) and result.refusal.classification not in _ABOUT_THE_CLAIM:
            continue
        owners = [claim.execution for claim in world.claims if claim.task_id == f"t{run.task}"]
        if owners and owners != [f"e{index}"]:
            return f"e{index} reports for t{run.task}, whose claim belongs to {owners}"
    return None


_ABOUT_THE_CLAIM = (Classification.CLAIM_LOST, Classification.CLAIM_FAILED)


def _left_alone_completes(setting: Setting, world: World) -> str | None:
    """Judged where nothing can be excused: no pauses, no lost answers, no duplicates, no strangers.

    With a lease only in workflows of one step: the worker of an accepted step may still hold the lease when the next
    step asks for it, and the next step is refused although nothing went wrong.
    """
    if setting.pauses or setting.losses or setting.duplicates or setting.strangers:
        return None
    if setting.backing is Backing.LOCKED and setting.steps > 1:
        return None
    last = len(world.tasks) - 1
    if world.tasks[last].status is COMPLETED or any(run.task == last and run.fate is DEAD for run in world.runs):
        return None
    # A dead holder's lease that had not run out refuses the next attempt; that is what a lease is for (L-04).
    if not world.lease[1] or (world.lease[0] != NOBODY and world.runs[world.lease[0]].fate is DEAD):
        return None
    return f"nothing went wrong in t{last}, and it is {world.tasks[last].status}"


def _what_landed_is_found(setting: Setting, world: World) -> str | None:
    """C8, judged where one answer is all that is lost: the publication's, so everything asked afterwards is answered.

    And only where a barrier makes "not there" mean "will not be there". ``atomic`` has none: its publication may land
    after it looked.
    """
    if not setting.store.barrier or setting.losses != 1 or world.budget.losses or setting.strangers:
        return None
    for index, run in enumerate(world.runs):
        asked = _asks(run)
        if isinstance(asked, c.Report) and isinstance(asked.result, Failed) and maker(world.head) == index:
            assert run.state is not None
            known = run.state.known
            # Both set: the read-back is what was lost, or what it showed was not what was planned.
            if known.uncertain is (known.published is None):
                return f"e{index} fails although its {world.head} is the head and only the answer was lost"
    return None


def _a_lease_is_given_back(setting: Setting, world: World) -> str | None:
    # After a publication whose fate is not known the lease is kept on purpose: the next holder has to wait.
    if world.budget.losses != setting.losses or world.strangers:
        return None
    holder = world.lease[0]
    if holder == NOBODY or world.runs[holder].fate is DEAD:
        return None
    return f"e{holder} has ended and still holds the lease"


def _a_settled_ledger(setting: Setting, world: World) -> str | None:
    """An intent stays open at rest only behind a worker that died or could not find out."""
    if not setting.ledger or setting.pauses or setting.losses or setting.strangers:
        return None
    left = [run for run in world.intents if world.runs[run].fate is not DEAD]
    return f"intents of executions that ended by themselves are open: {left}" if left else None


def _intent_before_effect(setting: Setting, world: World) -> str | None:
    if not setting.ledger:
        return None
    for request in world.requests:
        if request.awaited and world.runs[request.run].fate is RUNNING and request.run not in world.intents:
            return f"e{request.run} publishes without an intent"
    return None


def _nothing_changed_is_free(_setting: Setting, world: World) -> str | None:
    """A no-op makes no commit: whatever stands above the root was staged by somebody (S-12)."""
    for index, run in enumerate(world.runs):
        if run.fate is RUNNING and run.state is not None and not run.state.known.changed:
            made = [ref for ref in chain(world.head) if ref != ROOT and maker(ref) == index]
            if made:
                return f"e{index} changed nothing and made {made}"
    return None


def _settled_for_what_it_is(_setting: Setting, world: World) -> str | None:
    for index, run in enumerate(world.runs):
        asked = _asks(run)
        if not isinstance(asked, c.SettleIntent | c.ConfirmIntent):
            continue
        assert run.state is not None
        if not run.state.known.armed:
            return f"e{index} confirms or settles an intent it never armed"
        task = world.tasks[run.task]
        if isinstance(asked, c.ConfirmIntent):
            continue
        if asked.kind is SettlementKind.ACCEPTED and (task.status is not COMPLETED or task.winner != index):
            return f"e{index} settles as accepted, but its task is {task.status}"
        if asked.kind is SettlementKind.NOT_PUBLISHED and index in map(maker, chain(world.head)):
            return f"e{index} settles as not published, but {world.head} is on the branch"
    return None


def _published_on_its_input(_setting: Setting, world: World) -> str | None:
    for ref in chain(world.head):
        owner = maker(ref)
        if owner != NOBODY and commit(ref).parents != (world.tasks[world.runs[owner].task].input,):
            return f"{ref} was published on {commit(ref).parents}, not on its input"
    return None


def _sent_under_a_lease(setting: Setting, world: World) -> str | None:
    if setting.backing is not Backing.LOCKED:
        return None
    for index, run in enumerate(world.runs):
        if isinstance(_asks(run), c.Publish) and run.state is not None and run.state.known.token is None:
            return f"e{index} publishes and never held the lease"
    return None


MORE_PROPERTIES = (
    Property(
        "S-04b", "whatever is published stands on its input, accepted or not", When.ALWAYS, _published_on_its_input
    ),
    Property("S-05", "no success is reported out of doubt", When.ALWAYS, _no_success_from_doubt),
    Property("S-06", "an output is the input, or what the winner made", When.ALWAYS, _output_is_own),
    Property("S-06b", "who changed something never reports the input", When.ALWAYS, _no_change_is_dropped),
    Property("S-12", "a no-op makes no commit", When.ALWAYS, _nothing_changed_is_free),
    Property("S-16", "no relocation is sent over what may be alive", When.ALWAYS, _nothing_alive_is_replaced),
    Property("S-17", "at most one execution of a task publishes", When.ALWAYS, _one_publisher),
    Property("S-18", "an intent stands before its publication is sent", When.ALWAYS, _intent_before_effect),
    Property("S-19", "an intent is settled for what it is", When.ALWAYS, _settled_for_what_it_is),
    Property("S-24", "nothing is sent without ever having held the lease", When.ALWAYS, _sent_under_a_lease),
    Property("S-33", "no name is left by an execution that was not killed", When.AT_REST, _nothing_leaks),
    Property("S-33b", "no lease is left by an execution that was not killed", When.AT_REST, _a_lease_is_given_back),
    Property("S-33c", "no intent is left by an execution that was not killed", When.AT_REST, _a_settled_ledger),
    Property("S-33d", "a clean-up names what its execution may have made", When.ALWAYS, _clean_up_knows_its_name),
    Property("S-40", "who loses the claim never reports", When.ALWAYS, _loser_is_silent),
    Property("L-02", "an attempt that is left alone completes", When.AT_REST, _left_alone_completes),
    Property("C8", "a publication that landed is found, not failed", When.ALWAYS, _what_landed_is_found),
)
