"""What each command of an execution does to the world, and what the execution is told.

One command is one effect, at the grain of the ports. Publications are not here: the store takes them in steps. Nor
are bodies: what comes of one is not for the world to say (``bodies``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import AttemptState
from perago_core.attempt import messages as m
from perago_core.machine.rows import Command
from perago_core.results import Completed, FailedTerminally
from perago_core.values import CommitRef, Head, StagedRef
from perago_simulation.world.history import commit, staged
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import (
    CLEAN,
    COMPLETED,
    DIRTY,
    FAILED,
    FAILED_FOR_GOOD,
    MISSING,
    NOBODY,
    OPEN,
    TARGET,
    Lease,
    Task,
    World,
    branch_of,
    epoch_of,
    restarted,
    snapshot_of,
    with_task,
    without_name,
)

Effect: TypeAlias = Callable[[Setting, World, int, Any], tuple[World, Event]]


def _state(world: World, index: int) -> AttemptState:
    state = world.runs[index].state
    assert state is not None
    return state


def _prepare(_setting: Setting, world: World, _index: int, _command: Command) -> tuple[World, Event]:
    return world, _READY


def _reload(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    task = world.runs[index].task
    return world, _reloaded(world.tasks[task], task)


@cache
def _reloaded(task: Task, index: int) -> Event:
    return m.TaskReloaded(snapshot_of(task, index))


def _open_staging(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    names = tuple(sorted((*world.names, (index, world.tasks[world.runs[index].task].input))))
    return world._replace(names=names), _OPENED


def _upload(_setting: Setting, world: World, _index: int, _command: Command) -> tuple[World, Event]:
    return world, _UPLOADED


def _commit(setting: Setting, world: World, index: int, command: m.CommitStaging) -> tuple[World, Event]:
    base = world.tasks[world.runs[index].task].input
    if index not in dict(world.names):
        return world, NotDone("the staging branch is gone")
    event = _staged(index, base, setting.same_tree, command.name)
    names = tuple((run, event.staged.commit if run == index else at) for run, at in world.names)
    return world._replace(names=names), event


@cache
def _staged(index: int, base: str, same_tree: bool, name: str) -> m.Staged:  # noqa: FBT001  a cache key
    ref = staged(index, base, same_tree=same_tree)
    return m.Staged(StagedRef(TARGET.repository, name, ref, commit(ref).tree))


def _claim(setting: Setting, world: World, index: int, command: m.MakeClaim) -> tuple[World, Event]:
    if not setting.store.claim:
        return world, _NO_CLAIMS
    wanted = command.claim
    for claim in world.claims:
        if claim.task_id == wanted.task_id:
            return world, m.ClaimStands(claim)
    after = world._replace(claims=(*world.claims, wanted))
    if setting.store.conditional_claim:
        at = world.tasks[world.runs[index].task].step
        holder = world.raised[at]
        if holder != NOBODY and world.tasks[world.runs[holder].task].number >= wanted.number:
            (standing,) = [claim for claim in world.claims if claim.execution == f"e{holder}"]
            return world, m.ClaimStands(standing)
        # The claim is part of what an update is conditioned on, so raising it makes begun updates start again.
        after = restarted(after._replace(raised=(*world.raised[:at], index, *world.raised[at + 1 :])))
    return after, m.ClaimStands(wanted)


def _read_claim(_setting: Setting, world: World, _index: int, command: m.ReadClaim) -> tuple[World, Event]:
    found = [claim for claim in world.claims if claim.task_id == command.claim.task_id]
    return world, m.ClaimRead(found[0] if found else None)


def _list_claims(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    logical = _state(world, index).subject.logical_task
    return world, m.ClaimsListed(tuple(claim for claim in world.claims if claim.logical_task == logical))


def _read_owners(_setting: Setting, world: World, _index: int, command: m.ReadOwners) -> tuple[World, Event]:
    found = tuple((task, snapshot_of(world.tasks[int(task[1:])], int(task[1:]))) for _, task in command.tasks)
    return world, m.OwnersRead(found)


def _settle_intents(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    others = [run for run in world.intents if run != index]
    deferred = tuple(run for run in others if world.tasks[world.runs[run].task].status is OPEN)
    kept = tuple(run for run in world.intents if run == index or run in deferred)
    event = m.IntentsSettled(epoch_of(world), unresolved=tuple(f"e{run}" for run in deferred))
    return (world if kept == world.intents else world._replace(intents=kept)), event


def _acquire(setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    if not setting.store.lease:
        return world, _NO_LEASES
    holder, clean = world.lease
    if holder != NOBODY:
        return world, NotDone("held")
    return world._replace(lease=Lease(index)), m.LeaseHeld(1, clean)


def _wait(_setting: Setting, world: World, _index: int, _command: Command) -> tuple[World, Event]:
    return world, _WAITED


def _revoke(_setting: Setting, world: World, index: int, command: m.RevokeOlder) -> tuple[World, Event]:
    mine = world.tasks[world.runs[index].task]
    tasks = {run: world.tasks[world.runs[run].task] for run, _ in world.names}
    kept = tuple(
        (run, at)
        for run, at in world.names
        if (tasks[run].number >= command.number if tasks[run].step == mine.step else tasks[run].status is OPEN)
    )
    return (world if kept == world.names else world._replace(names=kept)), _REVOKED


def _barrier(setting: Setting, world: World, _index: int, _command: Command) -> tuple[World, Event]:
    branch = branch_of(world)
    if branch is not CLEAN:
        # A barrier that did nothing must not be taken for one: on a dirty branch it changes no record, and what the
        # store had begun still lands.
        return world, _barred(branch)
    return (restarted(world) if setting.store.barrier else world), _PASSED


@cache
def _barred(branch: str) -> Event:
    return NotDone(f"the branch is {branch}")


def _arm(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    return world._replace(intents=tuple(sorted((*world.intents, index)))), _ARMED


def _confirm(_setting: Setting, world: World, _index: int, _command: Command) -> tuple[World, Event]:
    return world, _CONFIRMED


def _settle(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    return world._replace(intents=tuple(run for run in world.intents if run != index)), _SETTLED


def _read_head(_setting: Setting, world: World, _index: int, _command: Command) -> tuple[World, Event]:
    return world, _head_seen(world.head, branch_of(world))


@cache
def _head_seen(head: str, branch: str) -> Event:
    return m.HeadSeen(None if branch is MISSING else Head(commit(head), dirty=branch is DIRTY))


def _drop(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    return without_name(world, index), _DROPPED


def _read_commit(_setting: Setting, world: World, _index: int, command: m.ReadCommit) -> tuple[World, Event]:
    return world, _commit_seen(command.ref)


@cache
def _commit_seen(ref: str) -> Event:
    return m.CommitSeen(commit(ref))


def _report(_setting: Setting, world: World, index: int, command: m.Report) -> tuple[World, Event]:
    at = world.runs[index].task
    task = world.tasks[at]
    if task.status is not OPEN:
        return world, _REPORTED
    if isinstance(command.result, Completed):
        return with_task(world, at, task._replace(status=COMPLETED, winner=index, ref=command.result.ref)), _REPORTED
    failed = FAILED_FOR_GOOD if isinstance(command.result, FailedTerminally) else FAILED
    return with_task(world, at, task._replace(status=failed)), _REPORTED


def _clean_up(_setting: Setting, world: World, index: int, command: m.CleanUp) -> tuple[World, Event]:
    after = world if command.name is None else without_name(world, index)
    if command.release_lease and world.lease.holder == index:
        after = after._replace(lease=Lease())
    return after, _CLEANED


_OPENED, _UPLOADED, _WAITED, _REVOKED, _PASSED = (
    m.StagingOpened(),
    m.Uploaded(),
    m.Waited(),
    m.Revoked(),
    m.BarrierPassed(),
)
_ARMED, _CONFIRMED, _SETTLED, _DROPPED = m.Armed(), m.Confirmed(), m.Settled(), m.Dropped()
_READY, _REPORTED, _CLEANED = m.WorkspaceReady(), m.Reported(), m.CleanedUp()
_NO_CLAIMS, _NO_LEASES = NotDone("this store keeps no claims"), Unknown("nobody grants leases here")

EFFECTS: Mapping[type[Command], Effect] = {
    m.PrepareWorkspace: _prepare,
    m.ReloadTask: _reload,
    m.OpenStaging: _open_staging,
    m.Upload: _upload,
    m.CommitStaging: _commit,
    m.MakeClaim: _claim,
    m.ReadClaim: _read_claim,
    m.ListClaims: _list_claims,
    m.ReadOwners: _read_owners,
    m.SettleIntents: _settle_intents,
    m.AcquireLease: _acquire,
    m.AwaitTakeover: _wait,
    m.RevokeOlder: _revoke,
    m.PassBarrier: _barrier,
    m.ArmIntent: _arm,
    m.ReadHead: _read_head,
    m.DropStaging: _drop,
    m.ReadCommit: _read_commit,
    m.Report: _report,
    m.ConfirmIntent: _confirm,
    m.SettleIntent: _settle,
    m.CleanUp: _clean_up,
}


@cache
def published(ref: str) -> Event:
    """The store has moved the target."""
    return m.Published(CommitRef(ref))


@cache
def refused(reason: str) -> Event:
    """The store has said no."""
    return NotDone(reason)


def _unknown(kind: type[Command]) -> Event:
    return Unknown("no answer", left=("something",) if kind is m.CleanUp else ())


_ASKED: tuple[type[Command], ...] = (*EFFECTS, m.RunBody, m.ResumeBody, m.Publish)
#: For each command that may go unanswered, what its execution takes the silence for.
LOST: Mapping[type[Command], Event] = {kind: _unknown(kind) for kind in _ASKED if kind.answers.unknown}
