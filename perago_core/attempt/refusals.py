"""The explanations: what each failure means to a person. Expected, found, class, what to do next (L-10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.results import Classification, Refusal
from perago_core.rows import Event
from perago_core.values import Attempt, TaskSnapshot

Explanation: TypeAlias = Callable[[Attempt, Any], Refusal]

_RETRY = "Nothing was published; let the orchestrator retry."
_NONE = "Nothing to do: the task belongs to another attempt, or to none."
_SWEEP = "Run `perago recover`: it names what is open and what may be done about it."
LOOK = "Look at the target's head; the next attempt replaces what proves abandoned, or refuses and names it."


def stale(attempt: Attempt, snapshot: TaskSnapshot | None) -> Refusal:
    """Explain a failed attempt fence."""
    expected = (
        f"task {attempt.task_id} of {attempt.workflow_id} IN_PROGRESS, retry {attempt.retry_count}, "
        f"started {attempt.started_at}, poll {attempt.poll_count}, worker {attempt.worker_id or '-'}"
    )
    if snapshot is None:
        return Refusal(Classification.ATTEMPT_STALE, expected, "no such task", _NONE)
    actual = (
        f"task {snapshot.task_id} of {snapshot.workflow_id} {snapshot.status.value}, retry {snapshot.retry_count}, "
        f"started {snapshot.started_at}, poll {snapshot.poll_count}, worker {snapshot.worker_id or '-'}, "
        f"workflow {'running' if snapshot.workflow_running else 'not running'}"
    )
    return Refusal(Classification.ATTEMPT_STALE, expected, actual, _NONE)


def _because(classification: Classification, expected: str, next_action: str = _RETRY) -> Explanation:
    def explain(_attempt: Attempt, event: Any) -> Refusal:  # noqa: ANN401  any event with a reason
        return Refusal(classification, expected, event.reason, next_action)

    return explain


def _staging_wanted(attempt: Attempt, _event: e.StagingWanted) -> Refusal:
    return Refusal(
        Classification.READ_ONLY_WROTE,
        f"task {attempt.task_id} to read only",
        "its body asked for a place to write",
        "Declare the workspace writable, or take the write out of the body.",
    )


def _claim_lost(attempt: Attempt, event: e.ClaimStands | e.ClaimRead) -> Refusal:
    holder = "no claim yet" if event.claim is None else f"claimed by execution {event.claim.execution}"
    return Refusal(
        Classification.CLAIM_LOST,
        f"the claim of attempt {attempt.number} by execution {attempt.execution}",
        holder,
        _NONE,
    )


def _intents(attempt: Attempt, event: e.IntentsSettled) -> Refusal:
    if event.epoch != attempt.epoch:
        return Refusal(
            Classification.POLICY_CHANGED,
            f"fence policy of epoch {attempt.epoch}",
            f"epoch {event.epoch}",
            "Let the orchestrator retry: workers that mix two fence policies are not safe beside each other.",
        )
    open_intents = ", ".join(event.unresolved) or "none"
    return Refusal(
        Classification.RECOVERY_REQUIRED, f"no open intent on {attempt.target}", f"open: {open_intents}", _SWEEP
    )


def _elsewhere(attempt: Attempt, event: e.CommitSeen) -> Refusal:
    found = "no such commit" if event.commit is None else f"{event.commit.ref} on {list(event.commit.parents)}"
    return Refusal(
        Classification.PUBLISHED_ELSEWHERE,
        f"the publication to stand on the head that was decided on, with the staged content, on {attempt.target}",
        found,
        "A stranger moved the branch in between; have an operator decide what the branch should be.",
    )


def _body_failed(_attempt: Attempt, event: e.BodyFailed) -> Refusal:
    action = "Correct the task or its input; a retry cannot help." if event.terminal else _RETRY
    return Refusal(Classification.BODY_FAILED, "checks and body to succeed", event.reason, action)


EXPLANATIONS: Mapping[type[Event], Explanation] = {
    f.WorkspaceRefused: _because(Classification.WORKSPACE_FAILED, "the input to be made available"),
    f.WorkspaceUnknown: _because(Classification.WORKSPACE_FAILED, "the input to be made available"),
    e.BodyFailed: _body_failed,
    f.BodyLost: _because(Classification.BODY_LOST, "the body to end with a result"),
    e.StagingWanted: _staging_wanted,
    f.TaskReloadUnknown: _because(Classification.ATTEMPT_UNKNOWN, "the orchestrator to confirm the attempt"),
    f.StagingRefused: _because(Classification.STAGING_FAILED, "a fresh staging name at the input"),
    f.StagingUnknown: _because(Classification.STAGING_UNKNOWN, "a fresh staging name at the input"),
    f.UploadRefused: _because(Classification.STAGING_FAILED, "the changes to be uploaded"),
    f.UploadUnknown: _because(Classification.STAGING_UNKNOWN, "the changes to be uploaded"),
    f.CommitRefused: _because(Classification.STAGING_FAILED, "the staging branch to be committed"),
    f.CommitUnknown: _because(Classification.STAGING_UNKNOWN, "the staging branch to be committed"),
    e.ClaimStands: _claim_lost,
    e.ClaimRead: _claim_lost,
    f.ClaimRefused: _because(Classification.CLAIM_FAILED, "the store to take the claim"),
    f.ClaimUnknown: _because(Classification.CLAIM_FAILED, "the store to confirm the claim", _NONE),
    f.ClaimReadUnknown: _because(Classification.CLAIM_FAILED, "the claim to be read back", _NONE),
    f.ClaimsUnknown: _because(Classification.CLAIMS_UNREADABLE, "the claim records of the task"),
    f.OwnersUnknown: _because(Classification.CLAIMS_UNREADABLE, "the orchestrator's word on earlier attempts"),
    e.IntentsSettled: _intents,
    f.IntentsUnknown: _because(Classification.LEDGER_UNAVAILABLE, "the ledger to show the open intents"),
    f.LeaseBusy: _because(Classification.LEASE_BUSY, "the lease of the target to be free"),
    f.LeaseUnknown: _because(Classification.LEASE_BUSY, "the lease of the target to be confirmed"),
    f.RevokeRefused: _because(Classification.REVOCATION_FAILED, "older staging names to be deleted"),
    f.RevokeUnknown: _because(Classification.REVOCATION_FAILED, "older staging names to be deleted"),
    f.BarrierRefused: _because(
        Classification.BARRIER_FAILED, "the store to confirm the barrier", "Clean the target, then retry."
    ),
    f.BarrierUnknown: _because(Classification.BARRIER_FAILED, "the store to confirm the barrier"),
    f.ArmRefused: _because(Classification.LEDGER_UNAVAILABLE, "the ledger to take the intent"),
    f.ArmUnknown: _because(Classification.LEDGER_UNAVAILABLE, "the ledger to confirm the intent"),
    f.HeadUnknown: _because(Classification.TARGET_UNREADABLE, "to read the target's head"),
    f.PublishRefused: _because(Classification.PUBLISH_REFUSED, "the store to move the target"),
    f.PublishUnknown: _because(Classification.PUBLISH_UNKNOWN, "the store to say whether the target moved", LOOK),
    f.DropRefused: _because(
        Classification.PUBLISH_UNKNOWN, "our own name to be revoked after an unknown publication", LOOK
    ),
    f.DropUnknown: _because(
        Classification.PUBLISH_UNKNOWN, "our own name to be revoked after an unknown publication", LOOK
    ),
    e.CommitSeen: _elsewhere,
    f.CommitUnreadable: _because(Classification.PUBLISH_UNKNOWN, "to read the published commit back", LOOK),
    f.AttemptLost: _because(Classification.ATTEMPT_STALE, "to hold the attempt until the end", _NONE),
    f.LeaseLost: _because(Classification.LEASE_LOST, "to hold the lease until the publication"),
    f.DeadlineExceeded: _because(Classification.DEADLINE_EXCEEDED, "to finish in the time allowed"),
}
