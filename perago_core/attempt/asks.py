"""How the arguments of each command follow from what is pinned and known."""

from __future__ import annotations

from perago_core import fence
from perago_core.attempt import commands as c
from perago_core.attempt.known import Known, plan_of
from perago_core.ledger.records import SettlementKind
from perago_core.results import Completed, Failed, FailedTerminally, Refusal
from perago_core.rows import Command, asks
from perago_core.values import Attempt, CommitRef, claim_of

# Commands without arguments are always the same value.
_PREPARE_WORKSPACE = c.PrepareWorkspace()
_RUN_BODY = c.RunBody()
_RELOAD_TASK = c.ReloadTask()
_LIST_CLAIMS = c.ListClaims()
_SETTLE_INTENTS = c.SettleIntents()
_ACQUIRE_LEASE = c.AcquireLease()
_PASS_BARRIER = c.PassBarrier()
_READ_HEAD = c.ReadHead()


@asks(c.PrepareWorkspace)
def prepare_workspace(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _PREPARE_WORKSPACE


@asks(c.RunBody)
def run_body(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _RUN_BODY


@asks(c.ResumeBody)
def resume_body(attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.ResumeBody(attempt.staging_name)


@asks(c.ReloadTask)
def reload_task(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _RELOAD_TASK


@asks(c.OpenStaging)
def open_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.OpenStaging(attempt.staging_name, attempt.input)


@asks(c.Upload)
def upload(attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.Upload(attempt.staging_name)


@asks(c.CommitStaging)
def commit_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    message = f"{attempt.logical_task} attempt {attempt.number} ({attempt.task_id})"
    return c.CommitStaging(attempt.staging_name, message)


@asks(c.MakeClaim)
def make_claim(attempt: Attempt, known: Known, _event: object) -> Command:
    return c.MakeClaim(claim_of(attempt, known.staged))


@asks(c.ReadClaim)
def read_claim(attempt: Attempt, known: Known, _event: object) -> Command:
    return c.ReadClaim(claim_of(attempt, known.staged))


@asks(c.ListClaims)
def list_claims(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _LIST_CLAIMS


@asks(c.ReadOwners)
def read_owners(attempt: Attempt, known: Known, _event: object) -> Command:
    others = {(claim.workflow_id, claim.task_id) for claim in known.claims if claim.execution != attempt.execution}
    return c.ReadOwners(tuple(sorted(others)))


@asks(c.SettleIntents)
def settle_intents(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _SETTLE_INTENTS


@asks(c.AcquireLease)
def acquire_lease(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _ACQUIRE_LEASE


@asks(c.AwaitTakeover)
def await_takeover(attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.AwaitTakeover(attempt.budget.takeover_wait)


@asks(c.RevokeOlder)
def revoke_older(attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.RevokeOlder(attempt.number)


@asks(c.PassBarrier)
def pass_barrier(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _PASS_BARRIER


@asks(c.ArmIntent)
def arm_intent(_attempt: Attempt, known: Known, _event: object) -> Command:
    return c.ArmIntent(known.staged, known.token)


@asks(c.ReadHead)
def read_head(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return _READ_HEAD


@asks(c.Publish)
def publish(_attempt: Attempt, known: Known, _event: object) -> Command:
    return c.Publish(plan_of(known))


@asks(c.DropStaging)
def drop_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.DropStaging(attempt.staging_name)


@asks(c.ReadCommit)
def read_commit(_attempt: Attempt, known: Known, _event: object) -> Command:
    assert known.published is not None
    return c.ReadCommit(known.published)


@asks(c.Report)
def report_input(attempt: Attempt, known: Known, _event: object) -> Command:
    return c.Report(Completed(attempt.input, known.output, attempt.execution))


@asks(c.Report)
def report_unneeded(attempt: Attempt, known: Known, _event: object) -> Command:
    assert isinstance(known.decision, fence.Unneeded)
    return c.Report(Completed(known.decision.output, known.output, attempt.execution))


@asks(c.Report)
def report_published(attempt: Attempt, known: Known, _event: object) -> Command:
    assert known.published is not None
    return c.Report(Completed(known.published, known.output, attempt.execution))


@asks(c.Report)
def report_failed(_attempt: Attempt, known: Known, _event: object) -> Command:
    return c.Report(Failed(_refusal(known)))


@asks(c.Report)
def report_terminal(_attempt: Attempt, known: Known, _event: object) -> Command:
    return c.Report(FailedTerminally(_refusal(known)))


def _refusal(known: Known) -> Refusal:
    assert known.refusal is not None
    return known.refusal


@asks(c.ConfirmIntent)
def confirm_intent(_attempt: Attempt, known: Known, _event: object) -> Command:
    return c.ConfirmIntent(_completed_ref(known))


@asks(c.SettleIntent)
def settle_accepted(_attempt: Attempt, known: Known, _event: object) -> Command:
    return c.SettleIntent(SettlementKind.ACCEPTED, _completed_ref(known))


@asks(c.SettleIntent)
def settle_not_published(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return c.SettleIntent(SettlementKind.NOT_PUBLISHED)


def _completed_ref(known: Known) -> CommitRef:
    assert isinstance(known.result, Completed)
    return known.result.ref


@asks(c.CleanUp)
def clean_up(attempt: Attempt, known: Known, _event: object) -> Command:
    """Release the lease only when the publication's fate is known.

    After an unknown one the next holder must meet an unclean release, so that it waits until our request has ended.
    """
    return c.CleanUp(
        name=attempt.staging_name if known.staging else None,
        release_lease=known.token is not None and not known.uncertain,
    )
