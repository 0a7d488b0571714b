"""Workers under way while somebody changes the policy: each enrols, resolves, looks, compares its epoch and publishes.

All of it is the production conversations, in the order in which the worker has them (``enrol``, ``resolve``,
``restate``, ``stance``, ``read_epoch``, ``change``). The first decision stands: how it comes to that is another
scene's. A worker that rests looks again until it may work or must start anew; a publication takes its time and ends.
The clock of whoever changes it counts its looks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from attrs import evolve, frozen

from perago_core import ledger
from perago_core.answers import Answer, Done
from perago_core.calls import Call
from perago_core.policy import (
    Change,
    Decision,
    Evidence,
    Member,
    OnIndeterminate,
    Policy,
    PolicyKnown,
    PolicySettings,
    Resolved,
    Stance,
    change,
    enrol,
    propose,
    read_decision,
    resolve,
    restate,
    stance,
)
from perago_core.policy.change import author_key, member_key
from perago_core.policy.state import decision_key, encode_decision
from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.machines import policies
from perago_simulation.machines.conversations import Answers, Concluded, Conversations
from perago_simulation.machines.lake import MAIN
from perago_simulation.machines.model import Cluster, ClusterWorld, Label, Left, Moves
from perago_simulation.machines.search import Promise
from perago_simulation.machines.store import Shared, serve
from perago_simulation.properties.safety import When

_Talk: TypeAlias = Generator[Call, Answer[Any], Any]
_TTL = 1000.0


class Stage(Enum):
    """How far a worker is, or whoever changes the policy."""

    ENROLLING = "enrolling"
    RESOLVING = "resolving"
    STATING = "saying its epoch"
    LOOKING = "looking whether it may work"
    RESTING = "saying that it rests"
    CHECKING = "reading the epoch"
    PUBLISHING = "publishing"
    CHANGING = "changing the policy"
    ENDED = "ended"


class Worker(NamedTuple):
    """A worker, or whoever changes the policy; ``said`` is its record, ``pinned`` what it has resolved."""

    stage: Stage
    said: Member
    pinned: Resolved | None = None
    rests_for: str = ""
    answers: Answers = ()
    left: int = 0
    dead: bool = False


@frozen(repr=False)
class ChangeBounds(Value):
    """The workers' policies, what each person wants, and whether they force it. ``publications``: of each worker."""

    workers: tuple[Policy, ...]
    wants: tuple[Policy, ...]
    forced: bool = False
    looks: int = 1
    publications: int = 1
    faults: int = 0
    crashes: int = 0


class Changes(Cluster):
    """Workers under way, and whoever changes the policy beside them."""

    def __init__(self, bounds: ChangeBounds, *_machine: object) -> None:
        workers = tuple(f"w{index}" for index in range(len(bounds.workers)))
        super().__init__((*workers, *(f"p{index}" for index in range(len(bounds.wants)))))
        self.bounds = bounds
        self._talks = Conversations()

    def beginnings(self) -> Iterator[ClusterWorld]:
        """The store was found capable, and nobody is there yet."""
        processes = tuple(self._fresh(index) for index in range(len(self.names)))
        first = Decision(1, Backing.CONDITIONAL, Evidence.PROVED, "n0", Policy.AUTO, "digest")
        leases = tuple((_lease(name), _TTL, _TTL) for name in self.names)
        shared = Shared(((decision_key(1), encode_decision(first), None),), leases)
        yield ClusterWorld(shared, None, processes, Left(self.bounds.faults, self.bounds.crashes))

    def _fresh(self, index: int) -> Worker:
        bounds, name = self.bounds, self.names[index]
        if index < len(bounds.workers):
            return Worker(Stage.ENROLLING, Member(name, bounds.workers[index]), left=bounds.publications)
        return Worker(Stage.CHANGING, Member(name, bounds.wants[index - len(bounds.workers)]))

    # -----------------------------------------------------------------------------------------------------------------

    def _talk(self, process: Worker) -> Callable[[], _Talk] | None:
        """Return the conversation a process is in."""
        said, bounds = process.said, self.bounds
        match process.stage:
            case Stage.ENROLLING:
                return lambda: enrol(said, _lease(said.name))
            case Stage.RESOLVING:
                return lambda: resolve(_settings(said))
            case Stage.STATING | Stage.RESTING:
                return lambda: restate(said, _next(process))
            case Stage.LOOKING:
                return lambda: stance(_pinned(process).epoch)
            case Stage.CHECKING:
                return ledger.read_epoch
            case Stage.CHANGING:
                return lambda: _changing(said, looks=bounds.looks, forced=bounds.forced)
            case _:
                return None

    def call(self, world: ClusterWorld, index: int) -> Call | None:
        """Return the next call of the conversation a process is in."""
        process: Worker = world.processes[index]
        talk = self._talk(process)
        if talk is None:
            return None
        found = self._talks.next(process._replace(answers=()), process.answers, talk)
        assert isinstance(found, Call)
        return found

    def serve(self, world: ClusterWorld, index: int, call: Call) -> Iterator[tuple[Answer[Any], ClusterWorld]]:
        """Sleep, tell how often somebody has looked, or ask the coordination store."""
        if call.port == "clock":
            process: Worker = world.processes[index]
            yield Done(float(sum(answer == Done(None, operations=0) for answer in process.answers))), world
        else:
            yield from super().serve(world, index, call)

    def answered(self, world: ClusterWorld, index: int, answer: Answer[Any]) -> Worker:
        """Go on with the conversation, or with what follows it."""
        process: Worker = world.processes[index]
        made = self.call(world, index)
        if made is not None and made.method == "sleep":
            answer = Done(None, operations=0)
        talk = self._talk(process)
        assert talk is not None
        process = process._replace(answers=(*process.answers, answer))
        found = self._talks.next(process._replace(answers=()), process.answers, talk)
        return _following(process._replace(answers=()), found.value) if isinstance(found, Concluded) else process

    def mortal(self, world: ClusterWorld, index: int) -> bool:
        """Whoever has not ended can die."""
        return world.processes[index].stage is not Stage.ENDED

    def died(self, world: ClusterWorld, index: int) -> ClusterWorld:
        """Be gone; its record, or the sign that it is there, stands until its lease ends."""
        process: Worker = world.processes[index]
        return world.with_process(index, process._replace(stage=Stage.ENDED, answers=(), dead=True))

    def own_moves(self, world: ClusterWorld, index: int) -> Moves:
        """A publication takes its time, and ends; a worker that has published enough goes, with its record."""
        process: Worker = world.processes[index]
        if process.stage is Stage.PUBLISHING:
            left = process.left - 1
            after = world.with_process(index, process._replace(stage=Stage.LOOKING if left else Stage.ENDED, left=left))
            yield Label(self.names[index], "has published"), after if left else _gone(after, process)

    def surroundings(self, world: ClusterWorld) -> Moves:
        """The lease of the dead ends, whenever; nobody else is so late that his does."""
        for process in world.processes:
            if process.dead and _lease_of(world, process) is not None:
                yield Label("time", f"ends the lease of {process.said.name}"), _gone(world, process)


def _lease_of(world: ClusterWorld, process: Worker) -> str | None:
    """Return the lease of what a process has written about itself."""
    keys = (member_key(process.said.name), author_key(process.said.name))
    return next((lease for key, _, lease in world.shared.entries if key in keys), None)


def _gone(world: ClusterWorld, process: Worker) -> ClusterWorld:
    lease = _lease_of(world, process)
    ended = Call("coordination", "revoke", (lease,))
    return world if lease is None else world._replace(shared=serve(world.shared, ended)[1])


def _lease(name: str) -> str:
    """Name the lease of a worker's record; that it is granted first is no question here."""
    return f"lease of {name}"


def _settings(member: Member) -> PolicySettings:
    return PolicySettings(member.policy, OnIndeterminate.FAIL, coordination=True, node=member.name)


def _pinned(process: Worker) -> Resolved:
    assert process.pinned is not None
    return process.pinned


def _next(process: Worker) -> Member:
    return evolve(process.said, epoch=_pinned(process).epoch, rests_for=process.rests_for)


def _changing(person: Member, *, looks: int, forced: bool) -> _Talk:
    found = yield from read_decision()
    if not isinstance(found, Done):
        return found
    wanted = propose(_settings(person), PolicyKnown(found=found.value), f"{person.name} wants it")
    assert isinstance(wanted, Decision)
    return (yield from change(Change(person.name, wanted), (MAIN,), patience=float(looks), forced=forced))


def _following(process: Worker, found: Any) -> Worker:  # noqa: ANN401  what a conversation came to; one return a stage
    """Return what a worker does next, as the worker's loop does it: it takes nothing while it does not know."""
    match process.stage, found:
        case Stage.ENROLLING, Done():
            return process._replace(stage=Stage.RESOLVING)
        case Stage.RESOLVING, Resolved():
            return process._replace(stage=Stage.STATING, pinned=found, rests_for="")
        case ((Stage.STATING | Stage.RESTING), Done(True)):
            return process._replace(stage=Stage.LOOKING, said=_next(process))
        case Stage.LOOKING, Done(Stance(moved=True)):
            return process._replace(stage=Stage.RESOLVING)
        case Stage.LOOKING, Done(Stance(change=None)):
            return process._replace(stage=Stage.CHECKING)
        case Stage.LOOKING, Done(Stance(change=Change() as announced)) if process.said.rests_for != announced.id:
            return process._replace(stage=Stage.RESTING, rests_for=announced.id)
        case Stage.LOOKING, _:
            return process
        case Stage.CHECKING, Done(int() as epoch) if epoch == _pinned(process).epoch:
            return process._replace(stage=Stage.PUBLISHING)
        case Stage.CHECKING, _:
            return process._replace(stage=Stage.LOOKING)
        case _:
            return process._replace(stage=Stage.ENDED)


# What must hold while a policy changes: S-26, S-27, L-05.


def _one_backing(_changes: Changes, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    publishing = [_pinned(each) for each in after.processes if each.stage is Stage.PUBLISHING]
    used = {f"{each.backing.value}, epoch {each.epoch}" for each in publishing}
    return f"at the same time they publish under {' and '.join(sorted(used))}" if len(used) > 1 else None


def _nobody_is_stuck(changes: Changes, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    for name, process in zip(changes.names, after.processes, strict=True):
        if process.stage is not Stage.ENDED:
            return f"{name} never ends: it is {process.stage.value}"
    return None


PROMISES = (
    Promise("S-26", "who publishes at the same time uses the same backing and epoch", _one_backing),
    *(each for each in policies.PROMISES if each.id in {"S-27", "S-27b"}),
    Promise("L-05", "every node comes to an end", _nobody_is_stuck, When.AT_REST),
)
