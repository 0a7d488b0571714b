"""What each command of an execution does to the world, and what the execution is told.

A command is carried out by its production conversation (``perago_core.attempt.run``): the calls are served by the
world's ``ports``, one after the other and in one move, and what the conversation makes of the answers is what the
execution is told. So the revocation of names, the reading of owners and the clean-up that are explored are those that
run. Only what is kept in the coordination store is told here in short, an intent as the number of its execution and the
lease as its holder: those conversations are explored call by call with the machines they belong to (``machines``). What
the ledger says of accepted maintenance is read as production reads it.

Publications are not here: the store takes them in steps. Nor are bodies: what comes of one is not for the world to say.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar

from perago_core import ledger, sharing
from perago_core.answers import Answer, Done, Event, NotDone, Unknown
from perago_core.attempt import AttemptState
from perago_core.attempt import messages as m
from perago_core.attempt.run import PERFORM, Execution
from perago_core.calls import Call
from perago_core.machine.rows import Command
from perago_core.values import Attempt, CommitRef, Maintained
from perago_simulation.world.history import chain, commit
from perago_simulation.world.ports import serve, subject_of
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import (
    COMPLETED,
    NOBODY,
    OPEN,
    TARGET,
    Lease,
    World,
    epoch_of,
    maintained_in,
    maintains,
    scope_of,
    with_rare,
)

T = TypeVar("T")
Effect: TypeAlias = Callable[[Setting, World, int, Any], tuple[World, Event]]


def converse(setting: Setting, world: World, index: int, command: Command) -> tuple[World, Event]:
    """Let an execution hold the conversation of a command with the world's ports, from the first call to the last."""
    # Waiting for one's turn takes no time here: whoever waits may look at any moment, and give up then.
    until = (lambda: _NO_TIME) if setting.scopes else None
    execution = Execution.of(_speaker(setting, world, index), attempt_until=until)
    return _held(setting, world, index, PERFORM[type(command)](execution, command))


def _held(setting: Setting, world: World, index: int, talk: Generator[Call, Answer[Any], T]) -> tuple[World, T]:
    try:
        asked = next(talk)
        while True:
            world, answer = serve(setting, world, index, asked)
            asked = talk.send(answer)
    except StopIteration as end:
        said: T = end.value
        return world, said


def _settle_intents(setting: Setting, world: World, index: int, _command: Command) -> tuple[World, Event]:
    """Settle what has ended, and tell a task that publishes over maintenance what was accepted since its input."""
    others = [run for run in world.intents if run != index]
    deferred = tuple(run for run in others if world.tasks[world.runs[run].task].status is OPEN)
    kept = tuple(run for run in world.intents if run == index or run in deferred)
    unresolved = tuple(f"e{run}" for run in deferred if not (setting.takes_over and _is_below(world, run, index)))
    for run in (each for each in others if each not in deferred and _was_accepted(world, each)):
        world = _recorded(setting, world, run)
    subject = subject_of(setting, world, index)
    maintained = _maintained(setting, world, index, subject.input) if subject.over_maintenance else ()
    event = m.IntentsSettled(epoch_of(world), unresolved=unresolved, maintained=maintained)
    return (world if kept == world.intents else world._replace(intents=kept)), event


def _was_accepted(world: World, run: int) -> bool:
    """Return whether the authority took an execution's result, and it is where it belongs."""
    task = world.tasks[world.runs[run].task]
    return task.status is COMPLETED and task.winner == run and task.ref in chain(world.head)


def _recorded(setting: Setting, world: World, run: int) -> World:
    """Write accepted maintenance down, where later writers find it."""
    task = world.tasks[world.runs[run].task]
    if not maintains(setting, task) or task.ref == task.input:
        return world
    record = Maintained(CommitRef(task.input), CommitRef(task.ref))
    known = maintained_in(world)
    return world if record in known else with_rare(world, maintained=tuple(sorted((*known, record), key=_by_ref)))


def _by_ref(record: Maintained) -> tuple[str, str]:
    return record.ref, record.parent


def _maintained(setting: Setting, world: World, index: int, since: CommitRef) -> tuple[Maintained, ...]:
    _, found = _held(setting, world, index, ledger.maintained(TARGET, since))
    assert isinstance(found, Done)
    return found.value


def newest_maintained(setting: Setting, world: World, since: str) -> CommitRef:
    """Return the commit that accepted maintenance has led to, from which a maintenance begins."""
    _, found = _held(setting, world, NOBODY, ledger.newest_maintained(TARGET, CommitRef(since)))
    assert isinstance(found, Done)
    return found.value


def _speaker(setting: Setting, world: World, index: int) -> Attempt | AttemptState:
    """Return who asks: where scopes are declared, what is asked for also depends on what is known."""
    state = world.runs[index].state
    return state if setting.scopes and state is not None else subject_of(setting, world, index)


#: A deadline that has not passed and leaves no time to wait.
_NO_TIME = 0.01


def begins_at(setting: Setting, world: World, step: int, given: str) -> CommitRef:
    """Return where an attempt of a step that declares its scope begins."""
    scope = scope_of(setting, step)
    assert scope is not None
    _, found = _held(setting, world, NOBODY, sharing.begin_at(TARGET, CommitRef(given), scope, f"wf/step{step}"))
    assert isinstance(found, Done)
    return found.value


def accepted_head(setting: Setting, world: World, step: int) -> CommitRef:
    """Return where a workflow on a branch that others write to is pinned, whose first step this is."""
    scope = scope_of(setting, step)
    _, found = _held(setting, world, NOBODY, sharing.newest_accepted(TARGET, commit(world.head), scope))
    assert isinstance(found, Done)
    return found.value


def _is_below(world: World, run: int, index: int) -> bool:
    """Return whether an execution runs an older attempt of the same step: a twin's."""
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


def _settle(setting: Setting, world: World, index: int, command: m.SettleIntent) -> tuple[World, Event]:
    if command.kind.accepts:
        world = _recorded(setting, world, index)
    return world._replace(intents=tuple(run for run in world.intents if run != index)), _SETTLED


def _clean_up(setting: Setting, world: World, index: int, command: m.CleanUp) -> tuple[World, Event]:
    """Return the lease back, then hold the conversation, whose execution here keeps none."""
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
