"""One execution from start to end: the dialogue between the attempt machine and the ports.

Pure: it yields calls and is sent answers. ``driver`` carries them; a simulator may stop between any two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from attrs import define, evolve

from perago_core import ledger
from perago_core.answers import Answer, Done, Event, NotDone, Unknown
from perago_core.attempt import messages as m
from perago_core.attempt.state import UNDER_LEASE, AttemptState, Known, Phase, work_of
from perago_core.attempt.table import ATTEMPT, start
from perago_core.calls import Call, Conversation, Talk, ask, call, clock, look, pause, through, wall_clock
from perago_core.fence import is_in_the_way
from perago_core.machine.rows import Command, Fired
from perago_core.ports import Orchestrator, Store, Workspace
from perago_core.revocation import revoke
from perago_core.sharing import between
from perago_core.unanswered import pauses
from perago_core.values import Attempt, Backing, CommitRef, StagedBeside, StagedRef, Target, TaskSnapshot, staged_for

if TYPE_CHECKING:
    from perago_core.lease.run import Background, Keeper

T = TypeVar("T")


#: Seconds between two looks of an attempt that waits for its turn on a shared branch: first, and at most.
TURN_PAUSE = 0.05
TURN_PAUSE_MAX = 2.0
#: Seconds after which it does not wait any longer: whoever is in the way has died, and nobody has tried again.
TURN_LONGEST = 300.0
#: Seconds between two tries for the turn among the writers of one process, and after which one goes on without it.
OWN_TURN_PAUSE = 0.01
OWN_TURN_LONGEST = 10.0
#: From the look at the head until the result is reported: only then may the next one publish on top.
IN_TURN = frozenset({Phase.HEAD, Phase.PUBLICATION, Phase.RIVALS, Phase.READ_BACK, Phase.REPORT})


class Turns(Protocol):
    """Whose turn it is among the writers of one process that are about to publish to one shared branch.

    A courtesy, on which nothing rests: two that publish at once are told apart by the store, and one of them has looked
    and sent in vain; lakeFS lets it wait half a second as well.
    """

    def take(self, target: Target) -> bool:
        """Take the turn if nobody has it, and say so; waits for nobody."""
        ...

    def give_back(self, target: Target) -> None:
        """Leave the turn to the next one."""
        ...


def _nothing(event: Callable[[], Event]) -> Callable[[Any], Event]:
    return lambda _value: event()


def _prepare(x: Execution, _command: m.PrepareWorkspace) -> Conversation:
    asked = call(Workspace.prepare, x.attempt)
    return ask(asked, _nothing(m.WorkspaceReady))


def _run_body(x: Execution, _command: m.RunBody) -> Conversation:
    return _body(x, call(Workspace.run, x.attempt))


def _resume_body(x: Execution, command: m.ResumeBody) -> Conversation:
    return _body(x, through(Workspace.resume, x.attempt, x.attempt.target, command.name))


def _body(x: Execution, running: Talk[m.BodyEvent]) -> Conversation:
    """A body that did not come to its end because its attempt was lost, or its time was over, ends for that reason.

    Else a worker that stops a body for somebody else's attempt would then report that attempt as failed.
    """
    answer = yield from running
    event: Event = answer.value if isinstance(answer, Done) else Unknown(answer.reason)
    if isinstance(event, m.BodyDone | m.StagingWanted):
        return event
    return x.interruption() or event


def _reload(x: Execution, _command: m.ReloadTask) -> Conversation:
    answer = yield from call(Orchestrator.reload, x.attempt.workflow_id, x.attempt.task_id)
    if isinstance(answer, Done):
        return m.TaskReloaded(answer.value)
    return Unknown(answer.reason, now=(yield from clock()), until=x.attempt_until())


def _for_each(x: Execution, talk: Callable[[Attempt], Talk[T]]) -> Talk[tuple[T, ...]]:
    """Have something done for each target, the first one first; what one refuses after another did it is unknown."""
    done: list[T] = []
    for part in x.attempt.parts:
        answer = yield from talk(part)
        if not isinstance(answer, Done):
            return Unknown(answer.reason, answer.operations) if done else answer
        done.append(answer.value)
    return Done(tuple(done))


def _open_staging(x: Execution, _command: m.OpenStaging) -> Conversation:
    asked = _for_each(x, lambda part: call(Store.open_staging, part.target, part.staging_name, part.input))
    return ask(asked, _nothing(m.StagingOpened))


def _upload(x: Execution, _command: m.Upload) -> Conversation:
    asked = _for_each(x, lambda part: through(Workspace.upload, part, part.target, part.staging_name))
    return ask(asked, _nothing(m.Uploaded))


def _commit(x: Execution, command: m.CommitStaging) -> Conversation:
    asked = _for_each(x, lambda part: call(Store.commit, part.target, part.staging_name, command.message))
    answer = yield from asked
    if not isinstance(answer, Done):
        return answer
    first, *others = answer.value
    beside = tuple(
        StagedBeside(part.target, staged.commit, staged.tree)
        for part, staged in zip(x.attempt.parts[1:], others, strict=True)
        if staged is not None
    )
    if first is not None:
        return m.Staged(evolve(first, beside=beside) if beside else first)
    if not beside:
        return m.NothingStaged()
    # Claim and adoption know the publication by what it makes of the first target, where this would leave no trace.
    return NotDone(f"{x.attempt.target} is unchanged, and {len(beside)} further target(s) are not: it must say so")


def _claim(_x: Execution, command: m.MakeClaim) -> Conversation:
    return ask(call(Store.claim, command.claim), m.ClaimStands)


def _read_claim(_x: Execution, command: m.ReadClaim) -> Conversation:
    return look(call(Store.read_claim, command.claim), m.ClaimRead)


def _list_claims(x: Execution, _command: m.ListClaims) -> Conversation:
    asked = call(Store.claims, x.attempt.target, x.attempt.logical_task)
    return look(asked, m.ClaimsListed)


def _read_owners(_x: Execution, command: m.ReadOwners) -> Conversation:
    found: list[tuple[str, TaskSnapshot | None]] = []
    for workflow_id, task_id in command.tasks:
        answer = yield from call(Orchestrator.reload, workflow_id, task_id)
        if not isinstance(answer, Done):
            return Unknown(answer.reason)
        found.append((task_id, answer.value))
    return m.OwnersRead(tuple(found))


def _settle_intents(x: Execution, _command: m.SettleIntents) -> Conversation:
    # The recovery machine is compiled by whoever keeps a ledger (ADR 6).
    from perago_core.recovery import Mode, sweep  # noqa: PLC0415

    since, actor = x.attempt.input if x.attempt.over_maintenance else None, _actor(x.attempt)
    swept = yield from _for_each(x, lambda part: sweep(part.target, Mode.SETTLE_ONLY, actor, maintained_since=since))
    if not isinstance(swept, Done):
        return Unknown(swept.reason)
    outcomes = [each for found in swept.value for each in found.outcomes]
    # One intent of several targets is found under each of them.
    unresolved = dict.fromkeys(
        each.operation_id for each in outcomes if each.ending.blocks and not _is_below(x, each.intent)
    )
    alarms = dict.fromkeys(alarm for found in swept.value for alarm in found.alarms)
    first, newest = swept.value[0], swept.value[-1]
    return m.IntentsSettled(newest.epoch, tuple(unresolved), first.maintained, tuple(alarms))


def _is_below(x: Execution, intent: ledger.Intent | None) -> bool:
    """Return whether an open intent is a lower twin's: our claim or its revocation keeps it from publishing after us.

    Whoever adopts goes on then, and finds what the twin has published when it sees the head. To fail instead would cost
    an attempt for each time two twins meet.
    """
    attempt = x.attempt
    if intent is None or not attempt.adopts:
        return False
    return intent.logical_task == attempt.logical_task and intent.number < attempt.number


def _acquire_lease(x: Execution, _command: m.AcquireLease) -> Conversation:
    """Try for the lease; while another has it, again and again until the attempt has no time left or is interrupted.

    A dead worker's lease is busy until its time to live is over. Whoever failed at once was tried again at once, found
    it busy again, and had used all retries up before that time was over.
    """
    # The lease machine is compiled by whoever needs a lease (ADR 6).
    from perago_core.lease import LeaseEnd, LeaseRequest  # noqa: PLC0415
    from perago_core.lease.run import Keeper  # noqa: PLC0415

    budget = x.attempt.budget
    request = LeaseRequest(x.attempt.target, x.attempt.execution, budget.lease_ttl, budget.lease_margin)
    lock = None if x.background is None else x.background.lock()
    turn = pauses(x.waits_until)
    x.keeper = keeper = Keeper(request, budget.under_lease, lock)
    yield from keeper.acquire()
    while keeper.end is LeaseEnd.BUSY and (yield from turn()):
        x.keeper = keeper = Keeper(request, budget.under_lease, lock)
        yield from keeper.acquire()
    if keeper.held is not None:
        if x.background is not None:
            x.background.keep(keeper)
        return m.LeaseHeld(keeper.held.token, keeper.held.clean)
    return x.interruption() or (NotDone(keeper.why) if keeper.end is LeaseEnd.BUSY else Unknown(keeper.why))


def _await_takeover(x: Execution, command: m.AwaitTakeover) -> Conversation:
    """Wait in slices short enough to keep the lease alive; losing it meanwhile ends the wait."""
    assert x.keeper is not None
    until = (yield from clock()) + command.seconds
    while (now := (yield from clock())) < until:
        yield from pause(min(until - now, x.attempt.budget.lease_ttl / 3))
        if not (yield from x.keeper.tend()):
            return m.LeaseLost(x.keeper.why)
    return m.Waited()


def _revoke_older(x: Execution, command: m.RevokeOlder) -> Conversation:
    answer = yield from _for_each(x, lambda part: revoke(part.target, part.logical_task, command.number))
    if isinstance(answer, Done):
        return m.Revoked(tuple(name for each in answer.value for name in each.dropped))
    return answer


def _barrier(x: Execution, _command: m.PassBarrier) -> Conversation:
    asked = _for_each(x, lambda part: call(Store.barrier, part.target))
    return ask(asked, _nothing(m.BarrierPassed))


def _actor(attempt: Attempt) -> str:
    return attempt.worker_id or attempt.execution


def _intent(x: Execution, created_at: int) -> ledger.Intent:
    attempt, known = x.attempt, x.state.known
    work = work_of(known)
    return ledger.Intent(
        operation_id=attempt.execution,
        operation=attempt.operation,
        workflow_id=attempt.workflow_id,
        task_id=attempt.task_id,
        number=attempt.number,
        execution=attempt.execution,
        logical_task=attempt.logical_task,
        actor=_actor(attempt),
        created_at=created_at,
        targets=tuple(_target_intent(part, staged_for(part, work)) for part in attempt.parts),
        backing=attempt.backing,
        epoch=attempt.epoch,
        lease_token=known.token,
        over_maintenance=attempt.over_maintenance,
    )


def _target_intent(part: Attempt, staged: StagedRef | StagedBeside | None) -> ledger.TargetIntent:
    return ledger.TargetIntent(
        target=part.target,
        parent=part.input,
        staged=None if staged is None else staged.commit,
        tree=None if staged is None else staged.tree,
    )


def _arrived(x: Execution, ref: CommitRef) -> dict[Target, CommitRef]:
    """Say where each target is when the first one is at this commit.

    The further ones are where we moved them, in the same step, if that is our own commit; an adopted one's execution
    has moved them, or nobody has, and ours left them as they were.
    """
    staged = x.state.known.staged
    moved = staged if staged is not None and staged.commit == ref else None
    arrived = {x.attempt.target: ref}
    for part in x.attempt.parts[1:]:
        own = staged_for(part, moved)
        arrived[part.target] = part.input if own is None else own.commit
    return arrived


def _arm(x: Execution, _command: m.ArmIntent) -> Conversation:
    x.intent = _intent(x, (yield from wall_clock()))
    return _ledger_event((yield from ledger.arm(x.intent)), m.Armed)


def _confirm(x: Execution, command: m.ConfirmIntent) -> Conversation:
    if x.intent is None:
        return Unknown("the process that armed the intent is gone; a sweep settles it")
    answer = yield from ledger.confirm(x.intent, _arrived(x, command.ref))
    if isinstance(answer, Done):
        x.intent = answer.value
    return _ledger_event(answer, m.Confirmed)


def _settle(x: Execution, command: m.SettleIntent) -> Conversation:
    if x.intent is None:
        return Unknown("the process that armed the intent is gone; a sweep settles it")
    after = _arrived(x, x.attempt.input if command.ref is None else command.ref)
    movements = tuple(ledger.Movement(part.target, part.input, after[part.target]) for part in x.attempt.parts)
    at = yield from wall_clock()
    answer = yield from ledger.settle(x.intent, command.kind, movements, _actor(x.attempt), at)
    return _ledger_event(answer, m.Settled)


def _ledger_event(answer: Answer[Any], done: Callable[[], Event]) -> Event:
    return done() if isinstance(answer, Done) else answer


def _read_head(x: Execution, _command: m.ReadHead) -> Conversation:
    if x.attempt.shares:
        return (yield from _read_shared_head(x))
    answer = yield from _for_each(x, lambda part: call(Store.head, part.target))
    if not isinstance(answer, Done):
        return Unknown(answer.reason)
    first, *beside = answer.value
    return m.HeadSeen(first, (yield from clock()), x.attempt_until(), x.lease_until(), beside=tuple(beside))


def _read_shared_head(x: Execution) -> Conversation:
    """See the head and what lies between; before a decision wait while somebody else's publication is in the way.

    The wait costs no attempt. It ends when the attempt does, and after ``TURN_LONGEST`` seconds: a writer that has died
    is not waited for for ever.
    """
    attempt, known = x.attempt, x.state.known
    assert attempt.scope is not None
    waited, seconds, waited_for = 0.0, TURN_PAUSE, ""
    while True:
        if x.state.phase is Phase.HEAD and known.staged is not None:
            yield from x.take_turn()
        answer = yield from call(Store.head, attempt.target)
        if not isinstance(answer, Done):
            return Unknown(answer.reason)
        head, found = answer.value, None
        if head is not None and (head.commit.ref != attempt.input or attempt.stacks):
            seen = yield from between(attempt.target, attempt.input, head.commit, attempt.scope, attempt.logical_task)
            if not isinstance(seen, Done):
                return Unknown(seen.reason)
            found = evolve(seen.value, waited=waited, waited_for=waited_for)
        now, until = (yield from clock()), x.attempt_until()
        waits = (
            x.state.phase is Phase.HEAD
            and found is not None
            and is_in_the_way(attempt, known.staged, known.claims, found)
        )
        if not waits or waited >= TURN_LONGEST or now + seconds >= until:
            return m.HeadSeen(head, now, until, x.lease_until(), found)
        lost = x.interruption()
        if lost is not None:
            return lost
        assert found is not None
        # Who is waited for may need the turn: an attempt of this very process that is going to adopt.
        x.give_turn_back()
        yield from pause(seconds)
        waited, waited_for = waited + seconds, found.owner
        seconds = min(2 * seconds, TURN_PAUSE_MAX)


def _publish(_x: Execution, command: m.Publish) -> Conversation:
    return ask(call(Store.publish, command.plan), m.Published)


def _drop(x: Execution, _command: m.DropStaging) -> Conversation:
    asked = _for_each(x, lambda part: call(Store.drop, part.target, part.staging_name))
    return ask(asked, _nothing(m.Dropped))


def _read_commit(x: Execution, command: m.ReadCommit) -> Conversation:
    return look(call(Store.look, x.attempt.target.repository, command.ref), m.CommitSeen)


def _report(x: Execution, command: m.Report) -> Conversation:
    asked = call(Orchestrator.report, x.attempt, command.result)
    return ask(asked, _nothing(m.Reported))


def _clean_up(x: Execution, command: m.CleanUp) -> Conversation:
    """Release the lease, remove the name, remove the workspace; a failure of one does not spare the others."""
    refused: list[str] = []
    unknown: list[str] = []
    steps: list[tuple[str, Talk[None]]] = [("workspace", call(Workspace.remove, x.attempt))]
    if command.name is not None:
        names = (
            (f"staging name {part.staging_name}", call(Store.drop, part.target, part.staging_name))
            for part in x.attempt.parts
        )
        steps = [*names, *steps]
    if command.release_lease and x.keeper is not None and not (yield from x.keeper.release()):
        unknown.append("lease")
    for what, removing in steps:
        answer = yield from removing
        if isinstance(answer, Unknown):
            unknown.append(what)
        elif isinstance(answer, NotDone):
            refused.append(what)
    if unknown:
        return Unknown("", left=(*unknown, *refused))
    return NotDone("", left=tuple(refused)) if refused else m.CleanedUp()


PERFORM: Mapping[type[Command], Callable[[Execution, Any], Conversation]] = {
    m.PrepareWorkspace: _prepare,
    m.RunBody: _run_body,
    m.ResumeBody: _resume_body,
    m.ReloadTask: _reload,
    m.OpenStaging: _open_staging,
    m.Upload: _upload,
    m.CommitStaging: _commit,
    m.MakeClaim: _claim,
    m.ReadClaim: _read_claim,
    m.ListClaims: _list_claims,
    m.ReadOwners: _read_owners,
    m.SettleIntents: _settle_intents,
    m.AcquireLease: _acquire_lease,
    m.AwaitTakeover: _await_takeover,
    m.RevokeOlder: _revoke_older,
    m.PassBarrier: _barrier,
    m.ArmIntent: _arm,
    m.ReadHead: _read_head,
    m.Publish: _publish,
    m.DropStaging: _drop,
    m.ReadCommit: _read_commit,
    m.Report: _report,
    m.ConfirmIntent: _confirm,
    m.SettleIntent: _settle,
    m.CleanUp: _clean_up,
}


#: Watches every step: before, event, what fired. It cannot change one; nothing it returns or raises is looked at.
Observer: TypeAlias = Callable[[AttemptState, Event, Fired[Attempt, Known]], object]
#: Asked before each command, and when a body did not answer, for an event from outside.
Interrupts: TypeAlias = Callable[[AttemptState], Event | None]


def _for_ever() -> float:
    return float("inf")


@define
class Execution:
    """One execution on its way: the state, and the two things a state cannot hold, the lease and who is watching."""

    state: AttemptState
    observe: Observer | None
    interrupts: Interrupts | None
    attempt_until: Callable[[], float]
    resumed: bool
    background: Background | None = None
    keeper: Keeper | None = None
    intent: ledger.Intent | None = None
    turns: Turns | None = None
    has_turn: bool = False

    @classmethod
    def of(
        cls,
        attempt: Attempt | AttemptState,
        observe: Observer | None = None,
        interrupts: Interrupts | None = None,
        attempt_until: Callable[[], float] | None = None,
        background: Background | None = None,
        *,
        turns: Turns | None = None,
    ) -> Execution:
        """Begin with a fresh attempt, or go on with a stored state."""
        resumed = not isinstance(attempt, Attempt)
        state = start(attempt).state if isinstance(attempt, Attempt) else attempt
        return cls(state, observe, interrupts, attempt_until or _for_ever, resumed, background, turns=turns)

    @property
    def attempt(self) -> Attempt:
        """Return what was pinned."""
        return self.state.subject

    def dialogue(self) -> Generator[Call, Answer[Any], AttemptState]:
        """Run to the end and give the last state.

        An answer that leaves the machine waiting for the same command was not the answer it waits for (a completion of
        another execution). Nothing is asked twice because of it: the true answer counts as lost.
        """
        try:
            return (yield from self._converse())
        finally:
            self.give_turn_back()
            if self.keeper is not None:
                self.keeper.let_go()

    def _converse(self) -> Generator[Call, Answer[Any], AttemptState]:
        if self.resumed and not self._may_ask_again():
            self._advance(self._lost("the process stopped while waiting for this answer"))
        while self.state.pending:
            event = self.interruption()
            if event is None and self._tends_lease():
                event = yield from self._tend()
            # What is lost stays lost, and is told again each time. Where it changes nothing any more, go on.
            if event is not None and self._advance(event).commands:
                continue
            (command,) = self.state.pending
            fired = self._advance((yield from PERFORM[type(command)](self, command)))
            if self.state.pending and not fired.commands:
                self._advance(self._lost("the port answered for another execution"))
            if self.state.phase not in IN_TURN:
                self.give_turn_back()
        return self.state

    def take_turn(self) -> Generator[Call, Answer[Any], None]:
        """Wait until no other writer of this process is about to publish to the target, but not for ever."""
        waited = 0.0
        while self.turns is not None and not self.has_turn:
            if self.turns.take(self.attempt.target):
                self.has_turn = True
            elif waited >= OWN_TURN_LONGEST or self.interruption() is not None:
                self.turns = None  # without it from now on: it looks again and again, and would wait each time
            else:
                yield from pause(OWN_TURN_PAUSE)
                waited += OWN_TURN_PAUSE

    def give_turn_back(self) -> None:
        """Let the next writer of this process go on, if it was our turn."""
        if self.has_turn:
            assert self.turns is not None
            self.has_turn = False
            self.turns.give_back(self.attempt.target)

    def interruption(self) -> Event | None:
        """Return what came from outside, if anything did."""
        return self.interrupts(self.state) if self.interrupts is not None else None

    def asks_until(self) -> float:
        """Give until when an unanswered call is made again: while the attempt could still publish after it."""
        return self.waits_until() - self.attempt.budget.publish_timeout

    def waits_until(self) -> float:
        """Give until when anything is waited for: up to the attempt's deadline, which heartbeats move.

        Not without a deadline, which would be for ever; not once something came from outside or the lease is lost;
        and not to clean up, which no result waits for.
        """
        until = self.attempt_until()
        if until == math.inf or self.state.phase is Phase.CLEAN_UP or self.interruption() is not None:
            return -math.inf
        if self._tends_lease() and self.keeper is not None and self.keeper.held is None:
            return -math.inf
        return until

    def _advance(self, event: Event) -> Fired[Attempt, Known]:
        before = self.state
        fired = ATTEMPT.fire(before, event)
        self.state = fired.state
        if self.observe is not None:
            self.observe(before, event, fired)
        return fired

    def _may_ask_again(self) -> bool:
        return all(command.answers.repeatable for command in self.state.pending)

    def _lost(self, reason: str) -> Event:
        (command,) = self.state.pending
        return Unknown(reason, left=("staging name", "workspace") if isinstance(command, m.CleanUp) else ())

    def _tends_lease(self) -> bool:
        """Keep the lease alive until the head is read; between that and the send nothing may come (S-09)."""
        return self.state.phase in UNDER_LEASE and self.attempt.backing is Backing.LOCKED

    def _tend(self) -> Generator[Call, Answer[Any], Event | None]:
        """Give ``LeaseLost`` if the lease is no longer ours."""
        if self.keeper is None:
            return m.LeaseLost("the process that held the lease is gone")
        held = yield from self.keeper.tend()
        return None if held else m.LeaseLost(self.keeper.why)

    def lease_until(self) -> float:
        """Return the lease's local deadline, or no limit where no lease is needed."""
        held = None if self.keeper is None else self.keeper.held
        return float("inf") if held is None else held.until
