"""How each command of recovery becomes calls of the coordination store, the orchestrator and the store.

The orchestrator is only ever asked. The one call that moves a branch is in ``_take_back``, with a plan of the fence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from perago_core import fence
from perago_core.answers import Answer, Done, Event, NotDone, Unknown
from perago_core.calls import Call, Conversation, Talk, call, charged, look, wall_clock
from perago_core.errors import ProtocolError
from perago_core.ledger import calls as ledger
from perago_core.ledger import records
from perago_core.ledger.calls import CHARGE
from perago_core.ledger.records import Intent, Prepared, Settlement, TargetIntent, Unreadable
from perago_core.machine.rows import Command
from perago_core.names import recovery_name
from perago_core.plan import PublishPlan
from perago_core.ports import Orchestrator, Store
from perago_core.recovery import messages as m
from perago_core.recovery.classify import WALK_LIMIT, Trail, next_look, owners_of
from perago_core.recovery.state import Mode, Recovery, RecoveryOutcome, outcome
from perago_core.recovery.table import start, step
from perago_core.revocation import revoke
from perago_core.value import Value, a, count, many, text
from perago_core.values import Backing, Claim, Commit, CommitRef, Head, Maintained, Target

#: Moving a target: what went wrong, or ``None``.
_Moving: TypeAlias = Generator[Call, Answer[Any], Event | None]


def perform(command: Command, subject: Recovery) -> Conversation:
    """Carry out one command and give the event that answers it; a foreign command raises ``ProtocolError``."""
    carry_out = PERFORM.get(type(command))
    if carry_out is None:
        message = f"recovery: {type(command).__name__} is not a command of this machine"
        raise ProtocolError(message)
    return carry_out(command, subject)


def _read_intent(command: m.ReadRecord, _subject: Recovery) -> Conversation:
    reading = ledger.read_record(Intent, records.intent_key(command.operation_id))
    return _read(reading, m.RecordFound, m.RecordGone)


def _read_settlement(command: m.ReadSettlement, _subject: Recovery) -> Conversation:
    reading = ledger.read_record(Settlement, records.settled_key(command.operation_id))
    return _read(reading, m.SettlementFound, m.SettlementAbsent)


def _ask_authority(command: m.AskAuthority, _subject: Recovery) -> Conversation:
    asked = charged(CHARGE, Orchestrator.reload, command.workflow_id, command.task_id)
    return look(asked, m.TaskSeen)


def _revoke_names(command: m.RevokeNames, _subject: Recovery) -> Conversation:
    dropped: list[str] = []
    for each in command.intent.targets:
        answer = yield from revoke(each.target, recovered=command.intent.task_id)
        if not isinstance(answer, Done):
            return answer
        dropped += answer.value.dropped
    return m.NamesRevoked(tuple(dropped))


def _pass_barrier(command: m.PassBarrier, _subject: Recovery) -> Conversation:
    for each in command.intent.targets:
        answer = yield from charged(CHARGE, Store.barrier, each.target)
        if not isinstance(answer, Done):
            return answer
    return m.BarrierPassed()


def _read_plan(command: m.ReadPlan, _subject: Recovery) -> Conversation:
    reading = ledger.read_record(Prepared, records.prepared_key(command.operation_id))
    return _read(reading, m.PlanRead, lambda: m.PlanRead(None))


def _write_plan(command: m.WritePlan, _subject: Recovery) -> Conversation:
    return _write(ledger.write_prepared(command.prepared), m.PlanStands)


def _settle(command: m.Settle, _subject: Recovery) -> Conversation:
    writing = ledger.write_settlement(command.settlement)
    return _write(writing, m.SettlementStands)


def _record_audit(command: m.RecordAudit, subject: Recovery) -> Conversation:
    writing = ledger.write_audit(command.intent, command.settlement, subject.actor, subject.at)
    return _write(writing, m.AuditStands)


def _close(command: m.Close, _subject: Recovery) -> Conversation:
    closing = ledger.close(command.settlement, command.intent, planned=True)
    return _write(closing, lambda _nothing: m.Closed())


def _read(reading: Talk[Any], found: Callable[[Any], Event], absent: Callable[[], Event]) -> Conversation:
    """Only "not found" is benign; a read that failed in any other way shows nothing (T-O10)."""
    answer = yield from reading
    if not isinstance(answer, Done):
        return Unknown(answer.reason, answer.operations)
    if answer.value is None:
        return absent()
    return NotDone(str(answer.value)) if isinstance(answer.value, Unreadable) else found(answer.value)


def _write(writing: Talk[Any], done: Callable[[Any], Event]) -> Conversation:
    answer = yield from writing
    return done(answer.value) if isinstance(answer, Done) else answer


def _read_owners(command: m.ReadOwners, _subject: Recovery) -> Conversation:
    """Find every claim of the task, and ask whether the attempts behind them are dead.

    Our own claim must be among them: claims are removed once their task is settled, and a list from which ours is gone
    may lack that of the attempt that was accepted. Our own task is not asked about again: it has ended, or a person
    says so in its place.
    """
    intent = command.intent
    rivals: set[tuple[str, str]] = set()
    recorded = True
    publishing = [each.target for each in intent.targets if each.publishes]
    # Those that move in one step have their claims on the first.
    for target in publishing[:1] if intent.backing is Backing.ATOMIC else publishing:
        answer = yield from charged(CHARGE, Store.claims, target, intent.logical_task)
        if not isinstance(answer, Done):
            return Unknown(answer.reason)
        claims: tuple[Claim, ...] = answer.value
        recorded = recorded and intent.execution in {claim.execution for claim in claims}
        rivals |= {(claim.workflow_id, claim.task_id) for claim in claims}
    standings: set[fence.Standing] = set()
    for workflow_id, task_id in sorted(rivals - {(intent.workflow_id, intent.task_id)}):
        reloaded = yield from charged(CHARGE, Orchestrator.reload, workflow_id, task_id)
        if not isinstance(reloaded, Done):
            return Unknown(reloaded.reason)
        standings.add(fence.standing(reloaded.value))
    return m.OwnersRead(owners_of(standings, recorded=recorded))


def _observe(command: m.Observe, _subject: Recovery) -> Conversation:
    trails: list[Trail] = []
    for each in command.targets:
        answer = yield from _walk(each)
        if not isinstance(answer, Done):
            return Unknown(f"{each.target}: {answer.reason}")
        trails.append(answer.value)
    return m.TargetsSeen(tuple(trails))


def _walk(intent: TargetIntent) -> Talk[Trail]:
    """Read the head and go down from it; a commit that is gone or refused, and the limit, end the walk early."""
    target = intent.target
    answer = yield from charged(CHARGE, Store.head, target)
    if not isinstance(answer, Done):
        return answer
    head = answer.value
    if head is None:
        return Done(Trail(None))
    commits: list[Commit] = [head.commit]
    while (ref := next_look(intent, commits[-1])) is not None:
        if len(commits) == WALK_LIMIT:
            return Done(Trail(head, tuple(commits), whole=False))
        seen = yield from charged(CHARGE, Store.look, target.repository, ref)
        if isinstance(seen, Unknown):
            return seen
        if isinstance(seen, NotDone) or seen.value is None:
            return Done(Trail(head, tuple(commits), whole=False))
        commits.append(seen.value)
    return Done(Trail(head, tuple(commits)))


def anchor_name(intent: Intent, target: Target, subject: Recovery) -> str | None:
    """Name the revocable anchor a relocation of one target acts by; ``None`` where the store acts by commit id."""
    if intent.backing is Backing.SOFT:
        return None
    unique = "\n".join((subject.operation_id, subject.actor, str(subject.at), subject.grounds, subject.nonce))
    digest = hashlib.sha256(unique.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return recovery_name(target, intent.logical_task, intent.number, intent.task_id, digest)


def _relocate(command: m.Relocate, subject: Recovery) -> Conversation:
    """Take every target back: in one step what was published in one, else one after the other, as the plan has them."""
    intent = command.intent
    moves = tuple(
        _Back(each.target, each.before, each.after, anchor_name(intent, each.target, subject))
        for each in command.prepared.movements
        if each.moves and each.after is not None
    )
    steps = (moves,) if intent.backing is Backing.ATOMIC and moves else tuple((each,) for each in moves)
    for step_of in steps:
        failed = yield from _anchored(step_of, intent.task_id)
        if failed is not None:
            return failed
    return m.Relocated()


@frozen
class _Back:
    """One target that goes back, and the anchor by which it does."""

    target: Target
    before: CommitRef
    parent: CommitRef
    name: str | None


def _anchored(moves: tuple[_Back, ...], task_id: str) -> _Moving:
    """Move targets under anchors. Dropping them afterwards is clean-up, or revocation if the outcome is unknown."""
    failed: Event | None = None
    opened: list[tuple[Target, str]] = []
    for each in moves:
        if failed is None and each.name is not None:
            answer = yield from charged(CHARGE, Store.open_staging, each.target, each.name, each.parent)
            if isinstance(answer, NotDone):
                failed = NotDone(f"{each.target}: no anchor: {answer.reason}")
                continue
            opened.append((each.target, each.name))
            failed = None if isinstance(answer, Done) else NotDone(f"{each.target}: the anchor may not exist")
    for target, _ in opened:
        if failed is None:
            failed = yield from _alone(target, task_id)
    if failed is None:
        failed = yield from _take_back(moves)
    for target, name in opened:
        yield from charged(CHARGE, Store.drop, target, name)
    return failed


def _alone(target: Target, task_id: str) -> _Moving:
    """Make sure, with the own anchor in place, that nobody else publishes to the target; ``None`` says so.

    Whoever publishes makes its name, passes its last fence, drops the names of all who have ended, passes the barrier
    and looks at the head, in this order. If its name was made before we listed, we see it, and leave the target alone
    while its task is open. If it was made later, it drops our anchor, which carries the id of a task that has ended,
    and looks only after the barrier: what we send then has landed before it looks, or never lands. So no lock is
    needed, and no person's word that nobody is writing.
    """
    revoked = yield from revoke(target, recovered=task_id)
    if not isinstance(revoked, Done):
        return Unknown(f"{target}: {revoked.reason}")
    if revoked.value.at_work:
        return m.TargetBusy(f"somebody publishes to {target} now, by the name {revoked.value.at_work[0]}")
    passed = yield from charged(CHARGE, Store.barrier, target)
    return None if isinstance(passed, Done) else NotDone(f"{target}: no barrier: {passed.reason}")


def _take_back(moves: tuple[_Back, ...]) -> _Moving:
    """Look once more, then move; nothing comes between the look and the move (S-09). ``None`` says that it is back."""
    plans: list[PublishPlan] = []
    for each in moves:
        seen = yield from charged(CHARGE, Store.head, each.target)
        if not isinstance(seen, Done):
            return NotDone(f"{each.target}: its head could not be read: {seen.reason}")
        head: Head | None = seen.value
        if head is not None and head.commit.ref == each.parent:
            continue
        if head is None or head.dirty or (head.commit.ref, head.commit.parents) != (each.before, (each.parent,)):
            found = "missing" if head is None else f"at {head.commit.ref}{', dirty' if head.dirty else ''}"
            return NotDone(f"{each.target} was planned to go back from {each.before}, and is {found}")
        plans.append(fence.compensate(each.target, each.parent, head, each.name))
    if not plans:
        return None
    named = ", ".join(str(each.target) for each in plans)
    answer = yield from call(Store.publish, fence.together(plans))
    if isinstance(answer, Unknown):
        return Unknown(f"{named}: {answer.reason}")
    if isinstance(answer, Done):
        return None
    # Another recovery may have moved it between our look and our move. What counts is where it is (D-9, T-O6).
    for each in moves:
        now = yield from charged(CHARGE, Store.head, each.target)
        if not (isinstance(now, Done) and now.value is not None and now.value.commit.ref == each.parent):
            return NotDone(f"{named}: {answer.reason}")
    return None


PERFORM: Mapping[type[Command], Callable[[Any, Recovery], Conversation]] = {
    m.ReadRecord: _read_intent,
    m.ReadSettlement: _read_settlement,
    m.AskAuthority: _ask_authority,
    m.RevokeNames: _revoke_names,
    m.PassBarrier: _pass_barrier,
    m.ReadPlan: _read_plan,
    m.ReadOwners: _read_owners,
    m.Observe: _observe,
    m.WritePlan: _write_plan,
    m.Relocate: _relocate,
    m.Settle: _settle,
    m.RecordAudit: _record_audit,
    m.Close: _close,
}


@frozen(cache_hash=True, repr=False)
class Swept(Value):
    """What a sweep found and left: one outcome for each intent, and what a publication must know of the target.

    A writer never goes around an intent in ``unresolved`` (R-21). ``maintained`` and ``epoch`` are read after the
    intents were settled, so they include what the sweep itself has found accepted. ``maintained`` is what was accepted
    on top of the input of a writer who asked; nobody else pays for reading it.
    """

    outcomes: tuple[RecoveryOutcome, ...] = field(validator=many(a(RecoveryOutcome)))
    unresolved: tuple[str, ...] = field(validator=many(text))
    maintained: tuple[Maintained, ...] = field(validator=many(a(Maintained)))
    epoch: int = field(validator=count)

    @property
    def unaccepted(self) -> tuple[RecoveryOutcome, ...]:
        """Return the outcomes of intents whose commit is the head although nobody accepted it."""
        return tuple(each for each in self.outcomes if each.unaccepted is not None)

    @property
    def alarms(self) -> tuple[str, ...]:
        """One sentence for each accepted result that is not on its branch. The caller must tell a person."""
        return _alarms(self.outcomes)


def sweep(  # noqa: PLR0917  who sweeps what, why, and what they want to know
    target: Target,
    mode: Mode,
    actor: str,
    grounds: str = "",
    nonce: str = "",
    maintained_since: CommitRef | None = None,
) -> Talk[Swept]:
    """Recover the open intents of one target, and read which maintenance was accepted since a commit if one is given.

    ``nonce`` is anything no other sweep has: anchors are named after it.

    ``Done`` names the ones that stay unresolved; no failure of one keeps the others from being tried. Any other answer
    says that the ledger could not be listed, and then nothing is known about the target.
    """
    listed = yield from ledger.list_open(target)
    if not isinstance(listed, Done):
        return listed
    outcomes: list[RecoveryOutcome] = []
    for operation_id in listed.value:
        at = yield from wall_clock()
        outcomes.append((yield from recover(Recovery(operation_id, target, mode, actor, at, grounds, nonce=nonce))))
    maintained: Answer[tuple[Maintained, ...]] = Done(())
    if maintained_since is not None:
        maintained = yield from ledger.maintained(target, maintained_since)
    if not isinstance(maintained, Done):
        return _with_alarms(maintained, outcomes)
    epoch = yield from ledger.read_epoch()
    if not isinstance(epoch, Done):
        return _with_alarms(epoch, outcomes)
    unresolved = tuple(each.operation_id for each in outcomes if each.ending.blocks)
    return Done(Swept(tuple(outcomes), unresolved, maintained.value, epoch.value))


def _alarms(outcomes: Iterable[RecoveryOutcome]) -> tuple[str, ...]:
    return tuple(f"intent {each.operation_id}: {each.reason}. {each.next_action}" for each in outcomes if each.alarm)


def _with_alarms(answer: NotDone | Unknown, outcomes: Iterable[RecoveryOutcome]) -> NotDone | Unknown:
    """Put the alarms into the reason: their intents are closed by now, so that no later sweep raises them again."""
    return evolve(answer, reason="; ".join((answer.reason, *_alarms(outcomes))))


def recover(subject: Recovery) -> Generator[Call, Answer[Any], RecoveryOutcome]:
    """Carry one recovery from its first command to its end."""
    state, commands = start(subject)
    while commands:
        (command,) = commands
        event = yield from perform(command, subject)
        state, commands = step(state, event)
    ended = outcome(state)
    assert ended is not None
    return ended
