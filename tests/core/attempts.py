"""Attempts to try, events to feed them, and every way through the attempt machine.

``menu`` gives, for the phase a state is in, concrete events that reach every value of every fact there: each answer the
pending command may get, with each content that makes a difference, and each interruption. ``explore`` walks an attempt
breadth first over that menu. Two ways are the same when they led to the same state *and* asked for the same commands
(the state alone forgets the order in which things were asked for), so the ways it gives are all there are. ``walk``
gives the shortest way to each row.

Everything is in a fixed order and nothing is random, so that what is generated from it does not change by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

from attrs import evolve

from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import ATTEMPT, AttemptState, Phase
from perago_core.attempt import messages as m
from perago_core.attempt.messages import Report
from perago_core.attempt.state import AFTER_REPORT, EARLIER, work_of
from perago_core.fence import Allowed
from perago_core.machine.rows import Command
from perago_core.plan import PlanKind, PublishPlan
from perago_core.results import Completed
from perago_core.values import (
    Attempt,
    Backing,
    Between,
    Claim,
    Commit,
    CommitRef,
    Content,
    Head,
    Landed,
    Maintained,
    OnAbandoned,
    OnConflict,
    Operation,
    Scope,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
    claim_of,
)

#: The target has not moved yet: whatever happens here, nothing was published.
BEFORE_PUBLICATION = tuple(Phase)[: tuple(Phase).index(Phase.PUBLICATION)]
TARGET = Target("repo", "main")
INPUT = CommitRef("A")
CHILD = CommitRef("H")
MERGED = CommitRef("P")
TREE = "tree-C"
CHILD_TREE = "tree-H"
#: What the attempt that shares its branch declares.
SCOPE = Scope(("raw/",), ("clean/",))
#: What the first attempt was going to report. The second one's body gives another result.
ON_RECORD = '{"rows":7}'

#: Every backing with and without a ledger. A ledger changes nothing for ``soft``, and that is one of the promises.
BACKINGS = tuple((backing, ledger) for backing in Backing for ledger in (False, True))
STRONG = tuple((backing, ledger) for backing, ledger in BACKINGS if backing is not Backing.SOFT)


# ---------------------------------------------------------------------------------------------------------------------
# Attempts


def make_attempt(
    backing: Backing = Backing.SOFT,
    *,
    ledger: bool = False,
    read_only: bool = False,
    operation: Operation = Operation.LOGICAL,
    over_maintenance: bool = False,
    adopts: bool = False,
) -> Attempt:
    """Make the second attempt of a task; the first one may have left something behind, which it replaces or adopts."""
    return Attempt(
        workflow_id="workflow-1",
        task_id="task-2",
        retry_count=1,
        logical_task="workflow-1.load.0",
        number=2,
        execution="run-2",
        target=TARGET,
        input=INPUT,
        backing=backing,
        worker_id="worker-1",
        started_at=200,
        poll_count=1,
        read_only=read_only,
        operation=operation,
        over_maintenance=over_maintenance,
        on_abandoned=OnAbandoned.ADOPT if adopts else OnAbandoned.REPLACE,
        ledger=ledger,
        epoch=3,
    )


def all_attempts() -> tuple[Attempt, ...]:
    """Give the handful of attempts that between them fire every row: one of each backing, with and without ledger."""
    writable = [make_attempt(backing, ledger=ledger) for backing, ledger in BACKINGS]
    # With and without a ledger only once: what it adds does not depend on where the attempt began.
    adopting = [(Backing.ATOMIC, False), (Backing.ATOMIC, True), (Backing.CONDITIONAL, False), (Backing.LOCKED, False)]
    read_only = [make_attempt(backing, read_only=True) for backing in Backing]
    return (
        *writable,
        *read_only,
        make_attempt(Backing.ATOMIC, ledger=True, operation=Operation.MAINTENANCE),
        make_attempt(Backing.ATOMIC, ledger=True, over_maintenance=True),
        *(make_attempt(backing, ledger=ledger, adopts=True) for backing, ledger in adopting),
        evolve(make_attempt(Backing.ATOMIC, adopts=True), scope=SCOPE, on_conflict=OnConflict.FAIL),
    )


# ---------------------------------------------------------------------------------------------------------------------
# What the orchestrator shows


def current(attempt: Attempt) -> TaskSnapshot:
    """Show the task as the attempt fence wants to see it."""
    return TaskSnapshot(
        workflow_id=attempt.workflow_id,
        task_id=attempt.task_id,
        retry_count=attempt.retry_count,
        status=TaskStatus.IN_PROGRESS,
        worker_id=attempt.worker_id,
        started_at=attempt.started_at,
        poll_count=attempt.poll_count,
    )


def stale(attempt: Attempt) -> TaskSnapshot:
    """Show the task after the orchestrator has given the attempt up."""
    return evolve(current(attempt), status=TaskStatus.TIMED_OUT)


def accepted(attempt: Attempt, ref: CommitRef = MERGED) -> TaskSnapshot:
    """Show the task after this execution's result was taken."""
    return evolve(current(attempt), status=TaskStatus.COMPLETED, result_execution=attempt.execution, result_ref=ref)


def ended(claim: Claim, status: TaskStatus) -> TaskSnapshot:
    """Show the task behind another attempt's claim."""
    return TaskSnapshot(claim.workflow_id, claim.task_id, 0, status)


def taken(claim: Claim, ref: CommitRef = CHILD) -> TaskSnapshot:
    """Show the task behind another attempt's claim after its result was taken."""
    return evolve(ended(claim, TaskStatus.COMPLETED), result_execution=claim.execution, result_ref=ref)


# ---------------------------------------------------------------------------------------------------------------------
# What the store shows


def staged_ref(attempt: Attempt) -> StagedRef:
    """Give what a commit of the staging branch answers."""
    return StagedRef(attempt.target.repository, attempt.staging_name, CommitRef("C"), TREE)


def commit(ref: str, *parents: str, tree: str = CHILD_TREE) -> Commit:
    """Make a commit."""
    return Commit(CommitRef(ref), tuple(CommitRef(parent) for parent in parents), tree)


def head(ref: str, *parents: str, tree: str = CHILD_TREE, dirty: bool = False) -> Head:
    """Make a head."""
    return Head(commit(ref, *parents, tree=tree), dirty)


ON_INPUT = head(INPUT, "root", tree="tree-A")
ON_CHILD = head(CHILD, INPUT)


def older_claim(attempt: Attempt) -> Claim:
    """Give the claim of the first attempt, whose publication is the child of the input."""
    mine = claim_of(attempt, None, ON_RECORD)
    return evolve(mine, task_id="task-1", number=attempt.number - 1, execution="run-1", tree=CHILD_TREE)


def newer_claim(attempt: Attempt) -> Claim:
    """Give the claim of the third attempt: a twin, or a successor we have not heard of."""
    mine = claim_of(attempt, None, ON_RECORD)
    return evolve(mine, task_id="task-3", number=attempt.number + 1, execution="run-3", tree="tree-3")


# ---------------------------------------------------------------------------------------------------------------------
# What may happen


def menu(state: AttemptState) -> list[Event]:
    """Give events for the phase the state is in, first the one that goes on; an ended attempt has none."""
    if ATTEMPT.is_terminal(state):
        return []
    allowed = ATTEMPT.allowed(state.phase)
    assert isinstance(state.phase, Phase)
    interrupts = [each for each in INTERRUPTS if type(each).__name__ in allowed]
    return [*_ANSWERS[state.phase](state), *interrupts]


INTERRUPTS: tuple[Event, ...] = (
    m.AttemptLost("a heartbeat found a successor"),
    m.LeaseLost("the lease ended"),
    m.DeadlineExceeded("the time is over"),
)

_Answers: TypeAlias = Callable[[AttemptState], list[Event]]


def _fixed(*events: Event) -> _Answers:
    return lambda _state: list(events)


def _body(state: AttemptState) -> list[Event]:
    ours = state.subject.execution
    return [
        m.BodyDone(ours, changed=True, output='{"rows":1}', content=Content("rows", "rows")),
        m.BodyDone(ours, changed=False),
        m.StagingWanted(ours),
        m.BodyFailed(ours, "a check failed"),
        m.BodyFailed(ours, "the input is not what was agreed", terminal=True),
        Unknown("the process died"),
        m.BodyDone("run-9", changed=True),
        m.BodyFailed("run-9", "a check failed"),
        m.StagingWanted("run-9"),
    ]


def _fence(state: AttemptState) -> list[Event]:
    return [
        m.TaskReloaded(current(state.subject)),
        m.TaskReloaded(stale(state.subject)),
        m.TaskReloaded(None),
        Unknown("timeout", now=1.0, until=2.0),
        Unknown("timeout", now=2.0, until=2.0),
    ]


def _commit(state: AttemptState) -> list[Event]:
    return [
        m.Staged(staged_ref(state.subject)),
        m.NothingStaged(),
        NotDone("conflict"),
        Unknown("timeout"),
    ]


def _own_claim(state: AttemptState) -> Claim:
    return claim_of(state.subject, work_of(state.known), state.known.output)


def _claim(state: AttemptState) -> list[Event]:
    mine = _own_claim(state)
    return [
        m.ClaimStands(mine),
        m.ClaimStands(evolve(mine, execution="run-9")),
        NotDone("no permission"),
        Unknown("timeout"),
    ]


def _claim_check(state: AttemptState) -> list[Event]:
    mine = _own_claim(state)
    return [
        m.ClaimRead(mine),
        m.ClaimRead(evolve(mine, execution="run-9")),
        m.ClaimRead(None),
        Unknown("timeout"),
    ]


def _claims(state: AttemptState) -> list[Event]:
    mine, older = _own_claim(state), older_claim(state.subject)
    # Only who adopts tells a claim with a result from one without, and ends where another one is above it.
    others = [(evolve(older, result=None), mine), (mine, newer_claim(state.subject))] if _adopts(state) else []
    return [
        m.ClaimsListed((mine,)),
        m.ClaimsListed((older, mine)),
        *(m.ClaimsListed(each) for each in others),
        Unknown("timeout"),
    ]


def _adopts(state: AttemptState) -> bool:
    return state.subject.on_abandoned is OnAbandoned.ADOPT


def _owners(state: AttemptState) -> list[Event]:
    others = [claim for claim in state.known.claims if claim.execution != state.subject.execution]

    def say(*words: TaskSnapshot) -> Event:
        return m.OwnersRead(tuple((each.task_id, each) for each in words))

    # Before any work is done only what was accepted makes a difference.
    live = [] if state.phase in EARLIER else [say(*(ended(claim, TaskStatus.IN_PROGRESS) for claim in others))]
    return [
        say(*(ended(claim, TaskStatus.TIMED_OUT) for claim in others)),
        *live,
        *([say(*(taken(claim) for claim in others))] if _adopts(state) else []),
        Unknown("timeout"),
    ]


def _earlier_claims(state: AttemptState) -> list[Event]:
    return [
        m.ClaimsListed(()),
        m.ClaimsListed((older_claim(state.subject),)),
        Unknown("timeout"),
    ]


def _rivals(state: AttemptState) -> list[Event]:
    mine = _own_claim(state)
    return [
        m.ClaimsListed((mine,)),
        m.ClaimsListed((mine, newer_claim(state.subject))),
        Unknown("timeout"),
    ]


def _intents(state: AttemptState) -> list[Event]:
    epoch = state.subject.epoch
    maintained = (Maintained(INPUT, CHILD),) if state.subject.over_maintenance else ()
    return [
        m.IntentsSettled(epoch, maintained=maintained),
        m.IntentsSettled(epoch, unresolved=("operation-1",)),
        m.IntentsSettled(epoch + 1),
        Unknown("timeout"),
    ]


def _shared_head() -> list[Event]:
    """Somebody else's commit at the head: beside what is declared, or on it."""
    return [m.HeadSeen(ON_CHILD, between=Between((Landed(ON_CHILD.commit, paths),))) for paths in ((), ("raw/a",))]


def _head(state: AttemptState) -> list[Event]:
    return [
        *(_shared_head() if state.subject.shares else ()),
        m.HeadSeen(ON_INPUT),
        m.HeadSeen(ON_CHILD),
        m.HeadSeen(head("X", "W")),
        m.HeadSeen(head("M", INPUT, "W")),
        m.HeadSeen(evolve(ON_INPUT, dirty=True)),
        m.HeadSeen(None),
        m.HeadSeen(ON_INPUT, now=9.0, attempt_until=9.0),
        m.HeadSeen(ON_INPUT, now=1.0, lease_until=2.0),
        Unknown("timeout"),
    ]


def plan_in(state: AttemptState) -> PublishPlan:
    """Give the plan the state has decided on."""
    decision = state.known.decision
    assert isinstance(decision, Allowed)
    return decision.plan


def _publication(state: AttemptState) -> list[Event]:
    plan = plan_in(state)
    ref = MERGED if plan.kind is PlanKind.MERGE else plan.commit
    return [m.Published(ref), NotDone("conflict"), Unknown("timeout")]


def landed(state: AttemptState) -> Commit:
    """Give the commit the plan produces when the store carries it out as planned."""
    plan = plan_in(state)
    match plan.kind:
        case PlanKind.MERGE:
            joined = (plan.commit,) if plan.joins else ()
            return commit(MERGED, plan.expected, *joined, tree=plan.tree or "tree-merged")
        case PlanKind.REPLACE:
            return commit(plan.commit, state.subject.input, tree=TREE)
        case PlanKind.RETURN:
            return ON_INPUT.commit


def _own_head(state: AttemptState) -> list[Event]:
    between = Between((Landed(landed(state)),)) if state.subject.shares else None
    return [
        m.HeadSeen(Head(landed(state)), between=between),
        m.HeadSeen(head("X", plan_in(state).expected, tree="tree-X")),
        m.HeadSeen(None),
        Unknown("timeout"),
    ]


def _read_back(state: AttemptState) -> list[Event]:
    return [
        m.CommitSeen(landed(state)),
        m.CommitSeen(evolve(landed(state), parents=(CommitRef("X"), CommitRef("Y")))),
        m.CommitSeen(None),
        Unknown("timeout"),
    ]


def _acceptance(state: AttemptState) -> list[Event]:
    return [
        m.TaskReloaded(accepted(state.subject)),
        m.TaskReloaded(evolve(accepted(state.subject), result_execution="run-9")),
        m.TaskReloaded(current(state.subject)),
        m.TaskReloaded(None),
        Unknown("timeout"),
    ]


_BARRIER = _fixed(m.BarrierPassed(), NotDone("the target is dirty"), Unknown("timeout"))
_OPEN_STAGING = _fixed(m.StagingOpened(), NotDone("the name exists"), Unknown("timeout"))

_ANSWERS: Mapping[Phase, _Answers] = {
    Phase.EARLIER_CLAIMS: _earlier_claims,
    Phase.EARLIER_OWNERS: _owners,
    Phase.EARLIER_HEAD: _fixed(
        m.HeadSeen(ON_INPUT),
        m.HeadSeen(ON_CHILD),
        m.HeadSeen(evolve(ON_CHILD, dirty=True)),
        m.HeadSeen(None),
        Unknown("timeout"),
    ),
    Phase.WORKSPACE: _fixed(m.WorkspaceReady(), NotDone("no such commit"), Unknown("timeout")),
    Phase.BODY: _body,
    Phase.FENCE_0: _fence,
    Phase.STAGING_0: _OPEN_STAGING,
    Phase.FENCE_1: _fence,
    Phase.STAGING: _OPEN_STAGING,
    Phase.UPLOAD: _fixed(m.Uploaded(), NotDone("quota"), Unknown("timeout")),
    Phase.COMMIT: _commit,
    Phase.FENCE_2: _fence,
    Phase.CLAIM: _claim,
    Phase.CLAIM_CHECK: _claim_check,
    Phase.CLAIMS: _claims,
    Phase.OWNERS: _owners,
    Phase.INTENTS: _intents,
    Phase.LEASE: _fixed(
        m.LeaseHeld(7, clean=True), m.LeaseHeld(7, clean=False), NotDone("worker-9"), Unknown("timeout")
    ),
    Phase.TAKEOVER: _fixed(m.Waited()),
    Phase.FENCE_3: _fence,
    Phase.REVOCATION: _fixed(m.Revoked(("old-name",)), NotDone("no permission"), Unknown("timeout")),
    Phase.BARRIER: _BARRIER,
    Phase.INTENT: _fixed(m.Armed(), NotDone("another record stands"), Unknown("timeout")),
    Phase.HEAD: _head,
    Phase.PUBLICATION: _publication,
    Phase.RIVALS: _rivals,
    Phase.OWN_REVOCATION: _fixed(m.Dropped(), NotDone("no permission"), Unknown("timeout")),
    Phase.OWN_BARRIER: _BARRIER,
    Phase.OWN_HEAD: _own_head,
    Phase.OWN_FENCE: _fence,
    Phase.READ_BACK: _read_back,
    Phase.REPORT: _fixed(m.Reported(), NotDone("no such task"), Unknown("timeout")),
    Phase.CONFIRMATION: _fixed(m.Confirmed(), NotDone("another record stands"), Unknown("timeout")),
    Phase.ACCEPTANCE: _acceptance,
    Phase.SETTLEMENT: _fixed(m.Settled(), NotDone("another record stands"), Unknown("timeout")),
    Phase.CLEAN_UP: _fixed(m.CleanedUp(), NotDone("", left=("workspace",)), Unknown("", left=("staging name",))),
}


# ---------------------------------------------------------------------------------------------------------------------
# Every way through


class Move(NamedTuple):
    """One step of a way: what happened, in which state, which row fired, where it led, what was asked for."""

    before: AttemptState
    event: Event
    row: str
    state: AttemptState
    commands: tuple[Command, ...]


class Path(NamedTuple):
    """A way through the machine from the start. ``commands`` is everything that was asked for, the opening included."""

    attempt: Attempt
    moves: tuple[Move, ...]
    commands: tuple[Command, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """Give what happened, in order: with the attempt, all that is needed to go the same way again."""
        return tuple(move.event for move in self.moves)

    @property
    def rows(self) -> tuple[str, ...]:
        """Give the rows that fired, in order."""
        return tuple(move.row for move in self.moves)

    @property
    def asked(self) -> tuple[str, ...]:
        """Give the names of what was asked for, in order."""
        return tuple(type(command).__name__ for command in self.commands)

    @property
    def state(self) -> AttemptState:
        """Give where the way ends."""
        return self.moves[-1].state

    def __repr__(self) -> str:
        return f"Path({self.attempt.backing.value}, {' '.join(self.rows)})"


def play(attempt: Attempt, choices: Mapping[Phase, Event | tuple[Event, ...]] | None = None) -> Path:
    """Run an attempt to its end. In each phase the chosen event happens, or, without a choice, the one that goes on.

    Several choices for one phase happen one after the other.
    """
    waiting = {phase: [*each] if isinstance(each, tuple) else [each] for phase, each in (choices or {}).items()}
    moves: list[Move] = []
    state = ATTEMPT.start(attempt).state
    while not ATTEMPT.is_terminal(state):
        assert isinstance(state.phase, Phase)
        chosen = waiting.get(state.phase)
        event = chosen.pop(0) if chosen else menu(state)[0]
        row, after, commands = ATTEMPT.fire(state, event)
        moves.append(Move(state, event, row.id, after, commands))
        state = after
    assert not any(waiting.values()), f"never came to {[phase for phase, left in waiting.items() if left]}"
    return _made(attempt, moves)


def _made(attempt: Attempt, moves: Iterable[Move]) -> Path:
    made = tuple(moves)
    return Path(attempt, made, (*ATTEMPT.start(attempt).commands, *(each for move in made for each in move.commands)))


class _Node(NamedTuple):
    """Where a walk has come to, and by which move. ``asked`` numbers the sequence of commands asked for so far."""

    state: AttemptState
    asked: int
    move: Move | None
    before: _Node | None


def _path(attempt: Attempt, node: _Node) -> Path:
    moves: list[Move] = []
    at: _Node | None = node
    while at is not None and at.move is not None:
        moves.append(at.move)
        at = at.before
    return _made(attempt, reversed(moves))


def _nodes(attempt: Attempt, events: Callable[[AttemptState], list[Event]], *, orders: bool) -> Iterator[_Node]:
    """Go breadth first and give every arrival; walk on from a new place only.

    A place is a state, and with ``orders`` also everything asked for on the way to it. A step back to the same state is
    not walked on from: what follows it is what follows without it.
    """
    numbers: dict[tuple[int, tuple[Command, ...]], int] = {}
    first = _Node(ATTEMPT.start(attempt).state, 0, None, None)
    seen = {(first.state, first.asked)}
    waiting = deque([first])
    while waiting:
        node = waiting.popleft()
        for event in events(node.state):
            row, state, commands = ATTEMPT.fire(node.state, event)
            asked = numbers.setdefault((node.asked, commands), len(numbers) + 1) if orders and commands else node.asked
            reached = _Node(state, asked, Move(node.state, event, row.id, state, commands), node)
            yield reached
            if state != node.state and (state, asked) not in seen:
                seen.add((state, asked))
                waiting.append(reached)


def _essential(state: AttemptState) -> list[Event]:
    """Leave out what has no consequence: interruptions once the result is on its way, what became of the report of a
    failure, of a settlement, of clean-up, and how far a look for earlier attempts came that found nothing to report.

    ``walk`` tries them all, and that they have no consequence is tested there. Following them from everywhere would
    multiply the ways by ten and add nothing.
    """
    if state.phase in EARLIER[1:]:
        return [event for event in menu(state) if ATTEMPT.step(state, event).state.phase is not Phase.WORKSPACE]
    if state.phase not in AFTER_REPORT:
        return menu(state)
    if state.phase in {Phase.CLEAN_UP, Phase.SETTLEMENT} or not _completed(state):
        return menu(state)[:1]
    return [event for event in menu(state) if event not in INTERRUPTS]


def _completed(state: AttemptState) -> bool:
    """Say whether the result is, or is about to be, a success."""
    return isinstance(state.known.result, Completed) or any(
        isinstance(command, Report) and isinstance(command.result, Completed) for command in state.pending
    )


@cache
def explore(attempt: Attempt) -> tuple[Path, ...]:
    """Give every way of this attempt to its end, the shortest first, no two with the same end and the same commands."""
    ends: dict[tuple[AttemptState, int], _Node] = {}
    for node in _nodes(attempt, _essential, orders=True):
        if ATTEMPT.is_terminal(node.state):
            ends.setdefault((node.state, node.asked), node)
    return tuple(_path(attempt, node) for node in ends.values())


@cache
def _shortest(attempts: tuple[Attempt, ...]) -> Mapping[str, Path]:
    found: dict[str, Path] = {}
    for attempt in attempts:
        own: dict[str, _Node] = {}
        for node in _nodes(attempt, menu, orders=False):
            assert node.move is not None
            own.setdefault(node.move.row, node)
        for row, node in own.items():
            path = _path(attempt, node)
            if row not in found or len(path.moves) < len(found[row].moves):
                found[row] = path
    return {row.id: found[row.id] for row in ATTEMPT.definition.rows if row.id in found}


def walk(attempts: Iterable[Attempt]) -> Mapping[str, Path]:
    """Give the shortest way that fires each row, in the order of the table; on equal length the first attempt's."""
    return _shortest(tuple(attempts))
