"""How each command of an attempt becomes port calls, and which event each answer is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from perago_core import ledger
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.attempt import commands as c
from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.calls import Call, Conversation, ask, clock, pause, wall_clock
from perago_core.lease import LeaseEnd, LeaseRequest
from perago_core.lease.keeper import Keeper
from perago_core.recovery import Mode, sweep
from perago_core.rows import Command, Event
from perago_core.values import Attempt, TaskSnapshot

if TYPE_CHECKING:
    from perago_core.attempt.execution import Execution


def _nothing(event: Callable[[], Event]) -> Callable[[Any], Event]:
    return lambda _value: event()


def _prepare(x: Execution, _command: c.PrepareWorkspace) -> Conversation:
    call = Call("workspace", "prepare", (x.attempt,))
    return ask(call, _nothing(e.WorkspaceReady), f.WorkspaceUnknown, f.WorkspaceRefused)


def _run_body(x: Execution, _command: c.RunBody) -> Conversation:
    return _body(x, Call("workspace", "run", (x.attempt,)))


def _resume_body(x: Execution, command: c.ResumeBody) -> Conversation:
    return _body(x, Call("workspace", "resume", (x.attempt,), sink=(x.attempt.target, command.name)))


def _body(x: Execution, call: Call) -> Conversation:
    """A body that did not come to its end because its attempt was lost, or its time was over, ends for that reason.

    Else a worker that stops a body for somebody else's attempt would then report that attempt as failed.
    """
    answer = yield call
    event: Event = answer.value if isinstance(answer, Done) else f.BodyLost(answer.reason)
    if isinstance(event, e.BodyDone | e.StagingWanted):
        return event
    return x.interruption() or event


def _reload(x: Execution, _command: c.ReloadTask) -> Conversation:
    answer = yield Call("orchestrator", "reload", (x.attempt.workflow_id, x.attempt.task_id))
    if isinstance(answer, Done):
        return e.TaskReloaded(answer.value)
    return f.TaskReloadUnknown(answer.reason, (yield from clock()), x.attempt_until())


def _open_staging(x: Execution, command: c.OpenStaging) -> Conversation:
    call = Call("store", "open_staging", (x.attempt.target, command.name, command.at))
    return ask(call, _nothing(e.StagingOpened), f.StagingUnknown, f.StagingRefused)


def _upload(x: Execution, command: c.Upload) -> Conversation:
    call = Call("workspace", "upload", (x.attempt,), sink=(x.attempt.target, command.name))
    return ask(call, _nothing(e.Uploaded), f.UploadUnknown, f.UploadRefused)


def _commit(x: Execution, command: c.CommitStaging) -> Conversation:
    call = Call("store", "commit", (x.attempt.target, command.name, command.message))
    return ask(
        call,
        lambda staged: e.NothingStaged() if staged is None else e.Staged(staged),
        f.CommitUnknown,
        f.CommitRefused,
    )


def _claim(_x: Execution, command: c.MakeClaim) -> Conversation:
    return ask(Call("store", "claim", (command.claim,)), e.ClaimStands, f.ClaimUnknown, f.ClaimRefused)


def _read_claim(_x: Execution, command: c.ReadClaim) -> Conversation:
    return ask(Call("store", "read_claim", (command.claim,)), e.ClaimRead, f.ClaimReadUnknown)


def _list_claims(x: Execution, _command: c.ListClaims) -> Conversation:
    call = Call("store", "claims", (x.attempt.target, x.attempt.logical_task))
    return ask(call, e.ClaimsListed, f.ClaimsUnknown)


def _read_owners(_x: Execution, command: c.ReadOwners) -> Conversation:
    found: list[tuple[str, TaskSnapshot | None]] = []
    for workflow_id, task_id in command.tasks:
        answer = yield Call("orchestrator", "reload", (workflow_id, task_id))
        if not isinstance(answer, Done):
            return f.OwnersUnknown(answer.reason)
        found.append((task_id, answer.value))
    return e.OwnersRead(tuple(found))


def _settle_intents(x: Execution, _command: c.SettleIntents) -> Conversation:
    swept = yield from sweep(x.attempt.target, Mode.SETTLE_ONLY, _actor(x.attempt))
    if not isinstance(swept, Done):
        return f.IntentsUnknown(swept.reason)
    found = swept.value
    return e.IntentsSettled(found.epoch, found.unresolved, found.maintained, found.alarms)


def _acquire_lease(x: Execution, _command: c.AcquireLease) -> Conversation:
    budget = x.attempt.budget
    request = LeaseRequest(x.attempt.target, x.attempt.execution, budget.lease_ttl, budget.lease_margin)
    x.keeper = keeper = Keeper(request)
    yield from keeper.acquire()
    if keeper.held is not None:
        return e.LeaseHeld(keeper.held.token, keeper.held.clean)
    return f.LeaseBusy(keeper.why) if keeper.end is LeaseEnd.BUSY else f.LeaseUnknown(keeper.why)


def _await_takeover(x: Execution, command: c.AwaitTakeover) -> Conversation:
    """Wait in slices short enough to keep the lease alive; losing it meanwhile ends the wait."""
    assert x.keeper is not None
    until = (yield from clock()) + command.seconds
    while (now := (yield from clock())) < until:
        yield from pause(min(until - now, x.attempt.budget.lease_ttl / 3))
        if not (yield from x.keeper.tend()):
            return f.LeaseLost(x.keeper.why)
    return e.Waited()


def _revoke_older(x: Execution, command: c.RevokeOlder) -> Conversation:
    call = Call("store", "revoke_older", (x.attempt.target, x.attempt.logical_task, command.number))
    return ask(call, e.Revoked, f.RevokeUnknown, f.RevokeRefused)


def _barrier(x: Execution, _command: c.PassBarrier) -> Conversation:
    call = Call("store", "barrier", (x.attempt.target,))
    return ask(call, _nothing(e.BarrierPassed), f.BarrierUnknown, f.BarrierRefused)


def _actor(attempt: Attempt) -> str:
    return attempt.worker_id or attempt.execution


def _intent(x: Execution, created_at: int) -> ledger.Intent:
    attempt, known = x.attempt, x.state.known
    staged = known.staged
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
        targets=(
            ledger.TargetIntent(
                target=attempt.target,
                parent=attempt.input,
                staged=None if staged is None else staged.commit,
                tree=None if staged is None else staged.tree,
            ),
        ),
        backing=attempt.backing,
        epoch=attempt.epoch,
        lease_token=known.token,
        over_maintenance=attempt.over_maintenance,
    )


def _arm(x: Execution, _command: c.ArmIntent) -> Conversation:
    x.intent = _intent(x, (yield from wall_clock()))
    return _ledger_event((yield from ledger.arm(x.intent)), e.Armed, f.ArmUnknown, f.ArmRefused)


def _confirm(x: Execution, command: c.ConfirmIntent) -> Conversation:
    if x.intent is None:
        return f.ConfirmUnknown("the process that armed the intent is gone; a sweep settles it")
    answer = yield from ledger.confirm(x.intent, {x.attempt.target: command.ref})
    if isinstance(answer, Done):
        x.intent = answer.value
    return _ledger_event(answer, e.Confirmed, f.ConfirmUnknown, f.ConfirmRefused)


def _settle(x: Execution, command: c.SettleIntent) -> Conversation:
    if x.intent is None:
        return f.SettleUnknown("the process that armed the intent is gone; a sweep settles it")
    after = x.attempt.input if command.ref is None else command.ref
    movement = ledger.Movement(x.attempt.target, x.attempt.input, after)
    at = yield from wall_clock()
    answer = yield from ledger.settle(x.intent, command.kind, (movement,), _actor(x.attempt), at)
    return _ledger_event(answer, e.Settled, f.SettleUnknown, f.SettleRefused)


def _ledger_event(
    answer: Answer[Any],
    done: Callable[[], Event],
    unknown: Callable[[str], Event],
    not_done: Callable[[str], Event],
) -> Event:
    if isinstance(answer, Done):
        return done()
    return not_done(answer.reason) if isinstance(answer, NotDone) else unknown(answer.reason)


def _read_head(x: Execution, _command: c.ReadHead) -> Conversation:
    answer = yield Call("store", "head", (x.attempt.target,))
    if not isinstance(answer, Done):
        return f.HeadUnknown(answer.reason)
    return e.HeadSeen(answer.value, (yield from clock()), x.attempt_until(), x.lease_until())


def _publish(_x: Execution, command: c.Publish) -> Conversation:
    return ask(Call("store", "publish", (command.plan,)), e.Published, f.PublishUnknown, f.PublishRefused)


def _drop(x: Execution, command: c.DropStaging) -> Conversation:
    call = Call("store", "drop", (x.attempt.target, command.name))
    return ask(call, _nothing(e.Dropped), f.DropUnknown, f.DropRefused)


def _read_commit(x: Execution, command: c.ReadCommit) -> Conversation:
    return ask(Call("store", "look", (x.attempt.target.repository, command.ref)), e.CommitSeen, f.CommitUnreadable)


def _report(x: Execution, command: c.Report) -> Conversation:
    call = Call("orchestrator", "report", (x.attempt, command.result))
    return ask(call, _nothing(e.Reported), f.ReportUnknown, f.ReportRefused)


def _clean_up(x: Execution, command: c.CleanUp) -> Conversation:
    """Release the lease, remove the name, remove the workspace; a failure of one does not spare the others."""
    refused: list[str] = []
    unknown: list[str] = []
    steps: list[tuple[str, Call]] = [("workspace", Call("workspace", "remove", (x.attempt,)))]
    if command.name is not None:
        steps.insert(0, (f"staging name {command.name}", Call("store", "drop", (x.attempt.target, command.name))))
    if command.release_lease and x.keeper is not None and not (yield from x.keeper.release()):
        unknown.append("lease")
    for what, call in steps:
        answer = yield call
        if isinstance(answer, Unknown):
            unknown.append(what)
        elif isinstance(answer, NotDone):
            refused.append(what)
    if unknown:
        return f.CleanUpUnknown((*unknown, *refused))
    return f.CleanUpRefused(tuple(refused)) if refused else e.CleanedUp()


PERFORM: Mapping[type[Command], Callable[[Execution, Any], Conversation]] = {
    c.PrepareWorkspace: _prepare,
    c.RunBody: _run_body,
    c.ResumeBody: _resume_body,
    c.ReloadTask: _reload,
    c.OpenStaging: _open_staging,
    c.Upload: _upload,
    c.CommitStaging: _commit,
    c.MakeClaim: _claim,
    c.ReadClaim: _read_claim,
    c.ListClaims: _list_claims,
    c.ReadOwners: _read_owners,
    c.SettleIntents: _settle_intents,
    c.AcquireLease: _acquire_lease,
    c.AwaitTakeover: _await_takeover,
    c.RevokeOlder: _revoke_older,
    c.PassBarrier: _barrier,
    c.ArmIntent: _arm,
    c.ReadHead: _read_head,
    c.Publish: _publish,
    c.DropStaging: _drop,
    c.ReadCommit: _read_commit,
    c.Report: _report,
    c.ConfirmIntent: _confirm,
    c.SettleIntent: _settle,
    c.CleanUp: _clean_up,
}
