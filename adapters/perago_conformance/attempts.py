"""The attempt a worker makes of a task it was handed."""

from __future__ import annotations

from typing import Any

from perago_core.ports import Assignment
from perago_core.values import Attempt, Backing, CommitRef, Target


def pinned(
    assignment: Assignment,
    execution: str,
    target: Target,
    ref: CommitRef,
    backing: Backing,
    **more: Any,  # noqa: ANN401  other fields of the attempt
) -> Attempt:
    """Pin what the orchestrator handed out, at this commit; ``more``: what its task asks for besides."""
    seen = assignment.snapshot
    return Attempt(
        workflow_id=seen.workflow_id,
        task_id=seen.task_id,
        retry_count=seen.retry_count,
        logical_task=assignment.logical_task,
        number=assignment.number,
        execution=execution,
        target=target,
        input=ref,
        backing=backing,
        worker_id=seen.worker_id,
        started_at=seen.started_at,
        poll_count=seen.poll_count,
        **more,
    )
