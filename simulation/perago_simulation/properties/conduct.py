"""How every execution behaves, whatever the others do: what it publishes, reports, names, settles and removes.

Each clause is here because a wrong table survives without it (``mutants.sensitivity``). The promises about the branch
itself are in ``safety``; what may be left behind at rest is in ``leftovers``.
"""

# ruff: noqa: E501  one clause, one line
from __future__ import annotations

from perago_core.attempt import AttemptState
from perago_core.attempt import messages as m
from perago_core.attempt.state import Phase
from perago_core.fence import Adopted
from perago_core.ledger.records import SettlementKind
from perago_core.machine.rows import Command
from perago_core.results import Classification, Completed, Failed
from perago_core.values import Backing
from perago_simulation.properties.commands import about
from perago_simulation.properties.publication import PUBLISHING
from perago_simulation.properties.safety import Property, When, stands_on
from perago_simulation.world.history import chain, commit, maker
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import COMPLETED, NOBODY, OPEN, Task, World, maintains

# ---------------------------------------------------------------------------------------------------------------------
# What is reported


@about(m.Report)
def _no_success_from_doubt(
    _setting: Setting, _world: World, index: int, state: AttemptState, asked: m.Report
) -> str | None:
    if not isinstance(asked.result, Completed) or not state.known.uncertain:
        return None
    return f"e{index} reports {asked.result.ref} although it does not know whether it was published"


@about(m.Report)
def _no_change_is_dropped(
    _setting: Setting, _world: World, index: int, state: AttemptState, asked: m.Report
) -> str | None:
    if not isinstance(asked.result, Completed) or not state.known.changed or asked.result.ref != state.subject.input:
        return None
    if state.known.accepted is not None or isinstance(state.known.decision, Adopted):  # another changed nothing
        return None
    return f"e{index} changed something and reports its input"


def _output_is_own(setting: Setting, world: World) -> str | None:
    """Judged of the commit where it is accepted, and of what the body returned where it is reported.

    To an attempt that is open: a report to one that has ended is ignored, and its claims may be collected.
    """
    for index, task in enumerate(world.tasks):
        if task.status is COMPLETED and task.ref != task.input and not _made_it(setting, world, task):
            return f"t{index} was completed by e{task.winner} with {task.ref}, which is not its own"
    for index, run in enumerate(world.runs):
        asked = None if run.state is None else run.state.pending[0]
        is_heard = world.tasks[run.task].status is OPEN
        if is_heard and isinstance(asked, m.Report) and isinstance(asked.result, Completed):
            on_record = _on_record(world, run.task, asked.result.ref)
            if on_record and asked.result.output not in on_record:
                return f"e{index} reports {asked.result.ref} with {asked.result.output}, but on record is {on_record}"
    return None


def _on_record(world: World, task: int, ref: str) -> list[str]:
    """Return what the claims to a commit say its body returned; several may have claimed equal trees."""
    if ref == world.tasks[task].input:
        return []
    made = commit(ref)
    claims = (each for each in world.claims if (each.parent,) == made.parents and each.tree == made.tree)
    return [each.result for each in claims if each.result is not None]


def _made_it(setting: Setting, world: World, task: Task) -> bool:
    """Return whether the winner made what it was completed with, or where retries adopt, anybody of its logical task."""
    owner = maker(task.ref)
    if maintains(setting, task) and owner != NOBODY and maintains(setting, world.tasks[world.runs[owner].task]):
        return True  # another one's maintenance of the same input: there is nothing left to do
    if owner == task.winner or not setting.takes_over:
        return owner == task.winner
    return owner != NOBODY and world.tasks[world.runs[owner].task].step == task.step


@about(m.Report)
def _loser_is_silent(setting: Setting, world: World, index: int, state: AttemptState, asked: m.Report) -> str | None:
    """Judged of those who asked for the claim. A duplicate that fails before it asks reports like anybody else.

    So does one that finds its twin's result accepted before it has staged anything: it repeats what was accepted
    (``tests/simulation/test_loose_ends.py``). And while the attempt is open: a report to one that has ended is ignored,
    and its claims may be collected.
    """
    if setting.backing is Backing.SOFT or world.tasks[world.runs[index].task].status is not OPEN:
        return None
    if state.known.accepted is not None and not state.known.staging:
        return None
    result = asked.result
    # A store that refuses to take a claim, for whatever reason, makes its sender fail before it has asked (ADR 34).
    about = _ABOUT_THE_CLAIM[: 1 if setting.refusals else 2]
    if isinstance(result, Failed) and result.refusal.classification not in about:
        return None
    task = f"t{world.runs[index].task}"
    owners = [claim.execution for claim in world.claims if claim.task_id == task]
    return (
        f"e{index} reports for {task}, whose claim belongs to {owners}" if owners not in ([], [f"e{index}"]) else None
    )


_ABOUT_THE_CLAIM = (Classification.CLAIM_LOST, Classification.CLAIM_FAILED)


@about(m.Report)
def _what_landed_is_found(
    setting: Setting, world: World, index: int, state: AttemptState, asked: m.Report
) -> str | None:
    """C8, judged where one answer is all that is lost: the publication's or the read-back's; all others arrive.

    And only where a barrier makes "not there" mean "will not be there". ``atomic`` has none: its publication may land
    after it looked.

    Of a commit that stands on its input. Counterexample (``locked``, 20 moves): the store checks no head, so a merge
    lands on a stranger's merge that came after the look (S-04b); it is read back, and rightly not called its own.

    And where no stranger has taken back what he did. Counterexamples (``conditional`` 19 moves, ``locked`` 21): he
    deletes the branch while the execution looks for its head, or leaves an object on it, beside which the barrier is
    refused; then the head is the execution's again, or still.
    """
    if not setting.store.barrier or setting.losses != 1 or world.budget.losses or _taken_back(setting, world):
        return None
    if setting.interrupts or setting.refusals:  # then it may fail for that reason
        return None
    if not isinstance(asked.result, Failed) or not state.known.uncertain or maker(world.head) != index:
        return None
    if not stands_on(setting, world, world.head, state.subject.input):
        return None
    return f"e{index} fails although its {world.head} is the head and only the answer was lost"


def _taken_back(setting: Setting, world: World) -> bool:
    """Return whether a stranger has done something after which the head may look as if nothing had been."""
    return world.rare is not None and any(
        getattr(world.rare.left, name) != getattr(setting, name)
        for name in ("foreign_resets", "recreations", "foreign_writes")
    )


@about(m.CleanUp)
def _silence_has_a_reason(
    _setting: Setting, _world: World, index: int, state: AttemptState, _asked: m.CleanUp
) -> str | None:
    known = state.known
    return (
        f"e{index} ends without a word and without a reason" if known.result is None and known.refusal is None else None
    )


# ---------------------------------------------------------------------------------------------------------------------
# What is named


@about(m.OpenStaging, m.Upload, m.CommitStaging)
def _only_staging_is_written(
    _setting: Setting, _world: World, index: int, state: AttemptState, asked: m.Upload
) -> str | None:
    if asked.name == state.subject.staging_name != state.subject.target.branch:
        return None
    return f"e{index} writes to {asked.name}, which is not its own staging name"


@about(m.CleanUp, m.DropStaging)
def _only_its_own_is_removed(
    _setting: Setting, _world: World, index: int, state: AttemptState, asked: m.CleanUp
) -> str | None:
    return f"e{index} removes {asked.name}" if asked.name not in {None, state.subject.staging_name} else None


@about(m.MakeClaim, m.ListClaims, m.RevokeOlder, m.ReadHead, m.Publish)
def _nothing_needed_is_collected(
    _setting: Setting, world: World, index: int, state: AttemptState, _asked: Command
) -> str | None:
    """Until its publication is sent, nobody but the execution itself or a newer attempt takes its name away.

    A rerun opens a task whose names were rightly collected when it had ended; its earlier delivery is stale by then.
    """
    if state.phase is Phase.OWN_HEAD or state.known.staged is None or index in dict(world.names):
        return None
    task = world.tasks[world.runs[index].task]
    if task.status is not OPEN or task.polls != state.subject.poll_count:
        return None
    if any(each.step == task.step and each.number > task.number for each in world.tasks):  # its twin's name goes first
        return None
    return f"what e{index} has staged is collected while its attempt is open"


@about(m.CleanUp)
def _clean_up_knows_its_name(
    _setting: Setting, world: World, index: int, _state: AttemptState, asked: m.CleanUp
) -> str | None:
    return f"e{index} cleans up and forgets its name" if asked.name is None and index in dict(world.names) else None


@about(m.ConfirmIntent, m.SettleIntent)
def _settled_for_what_it_is(
    _setting: Setting, world: World, index: int, state: AttemptState, asked: m.ConfirmIntent | m.SettleIntent
) -> str | None:
    if not state.known.armed:
        return f"e{index} confirms or settles an intent it never armed"
    if isinstance(asked, m.ConfirmIntent):
        return None
    task = world.tasks[world.runs[index].task]
    if task.polls != state.subject.poll_count:  # handed out anew since: what was accepted has been taken back
        return None
    if asked.kind is SettlementKind.ACCEPTED and (task.status is not COMPLETED or task.winner != index):
        return f"e{index} settles as accepted, but its task is {task.status}"
    if asked.kind is SettlementKind.NOT_PUBLISHED and index in map(maker, chain(world.head)):
        return f"e{index} settles as not published, but {world.head} is on the branch"
    return None


# fmt: off
CONDUCT = (
    *PUBLISHING,
    Property("S-05", "no success is reported out of doubt", When.ALWAYS, _no_success_from_doubt),
    Property("S-06", "an output is the input, or what the winner made or adopted of its own task", When.ALWAYS, _output_is_own),
    Property("S-06b", "who changed something never reports the input, unless it adopts that of another attempt", When.ALWAYS, _no_change_is_dropped),
    Property("S-40", "who loses the claim never reports", When.ALWAYS, _loser_is_silent),
    Property("C8", "a publication that landed is found, not failed", When.ALWAYS, _what_landed_is_found),
    Property("L-10", "who ends without a word has a reason", When.ALWAYS, _silence_has_a_reason),
    Property("S-11", "nothing is written but under the execution's own staging name", When.ALWAYS, _only_staging_is_written),
    Property("S-19", "an intent is settled for what it is", When.ALWAYS, _settled_for_what_it_is),
    Property("S-32", "a clean-up names nothing but the execution's own", When.ALWAYS, _only_its_own_is_removed),
    Property("S-33d", "a clean-up names what its execution may have made", When.ALWAYS, _clean_up_knows_its_name),
    Property("S-34", "what an open attempt has staged keeps its name", When.ALWAYS, _nothing_needed_is_collected),
)
# fmt: on
