"""What each command of an execution does to the world, and what the execution is told.

A command is carried out by its production conversation (``perago_core.attempt.run``): the calls are served by the
world's ``ports``, one after the other and in one move, and what the conversation makes of the answers is what the
execution is told. So the revocation of names, the reading of owners and the clean-up that are explored are those that
run. Only what is kept in the coordination store is told here in short, an intent as the number of its execution and the
lease as its holder: those conversations are explored call by call with the machines they belong to (``machines``).

Publications are not here: the store takes them in steps. Nor are bodies: what comes of one is not for the world to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import messages as m
from perago_core.attempt.run import PERFORM, Execution
from perago_core.machine.rows import Command
from perago_core.values import CommitRef
from perago_simulation.world.ports import serve, subject_of
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import NOBODY, OPEN, Lease, World, epoch_of

Effect: TypeAlias = Callable[[Setting, World, int, Any], tuple[World, Event]]


def converse(setting: Setting, world: World, index: int, command: Command) -> tuple[World, Event]:
    """Let an execution hold the conversation of a command with the world's ports, from the first call to the last."""
    talk = PERFORM[type(command)](Execution.of(subject_of(setting, world, index)), command)
    try:
        asked = next(talk)
        while True:
            world, answer = serve(setting, world, index, asked)
            asked = talk.send(answer)
    except StopIteration as end:
        event: Event = end.value
        return world, event


def _settle_intents(setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    others = [run for run in world.intents if run != index]
    deferred = tuple(run for run in others if world.tasks[world.runs[run].task].status is OPEN)
    kept = tuple(run for run in world.intents if run == index or run in deferred)
    unresolved = tuple(f"e{run}" for run in deferred if not (setting.takes_over and _is_below(world, run, index)))
    event = m.IntentsSettled(epoch_of(world), unresolved=unresolved)
    return (world if kept == world.intents else world._replace(intents=kept)), event


def _is_below(world: World, run: int, index: int) -> bool:
    """Say whether an execution runs an older attempt of the same step: a twin's."""
    twin, own = (world.tasks[world.runs[each].task] for each in (run, index))
    return twin.step == own.step and twin.number < own.number


def _acquire(setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    if not setting.store.lease:
        return world, _NO_LEASES
    holder, clean = world.lease
    if holder != NOBODY:
        return world, NotDone("held")
    return world._replace(lease=Lease(index)), m.LeaseHeld(1, clean)


def _wait(_setting: Setting, world: World, _index: int, _command: Command) -> tuple[World, Event]:
    return world, _WAITED


def _arm(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    return world._replace(intents=tuple(sorted((*world.intents, index)))), _ARMED


def _confirm(_setting: Setting, world: World, _index: int, _command: Command) -> tuple[World, Event]:
    return world, _CONFIRMED


def _settle(_setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    return world._replace(intents=tuple(run for run in world.intents if run != index)), _SETTLED


def _clean_up(setting: Setting, world: World, index: int, command: m.CleanUp) -> tuple[World, Event]:
    """Give the lease back, then hold the conversation, whose execution here keeps none."""
    if command.release_lease and world.lease.holder == index:
        world = world._replace(lease=Lease())
    return converse(setting, world, index, command)


_WAITED, _ARMED, _CONFIRMED, _SETTLED = m.Waited(), m.Armed(), m.Confirmed(), m.Settled()
_NO_LEASES = Unknown("nobody grants leases here")

EFFECTS: Mapping[type[Command], Effect] = {
    m.PrepareWorkspace: converse,
    m.ReloadTask: converse,
    m.OpenStaging: converse,
    m.Upload: converse,
    m.CommitStaging: converse,
    m.MakeClaim: converse,
    m.ReadClaim: converse,
    m.ListClaims: converse,
    m.ReadOwners: converse,
    m.SettleIntents: _settle_intents,
    m.AcquireLease: _acquire,
    m.AwaitTakeover: _wait,
    m.RevokeOlder: converse,
    m.PassBarrier: converse,
    m.ArmIntent: _arm,
    m.ReadHead: converse,
    m.DropStaging: converse,
    m.ReadCommit: converse,
    m.Report: converse,
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
