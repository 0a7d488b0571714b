"""Which publications on a branch were adopted: accepted with the report of another attempt than the one that published.

A commit says from which task it comes, in words that give nobody a right: they say whom to ask. What was accepted, and
with which commit, the orchestrator says; where it does not, nothing is said here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from perago_core.answers import Done
from perago_core.names import task_id_in
from perago_core.pipelines import AttemptView, OrchestratorError, PipelineView
from perago_core.values import Commit, CommitRef, TaskStatus
from perago_worker.stack import Stack, pipelines_of


def adoptions_among(stack: Stack, commits: Iterable[Commit]) -> Mapping[CommitRef, AttemptView]:
    """Name the attempt that each of these commits was accepted with, where another one had published it."""
    views: dict[str, PipelineView | None] = {}
    found: dict[CommitRef, AttemptView] = {}
    for commit in commits:
        maker = task_id_in(commit.message)
        asked = None if maker is None else stack.orchestrator.reload(None, maker)
        snapshot = asked.value if isinstance(asked, Done) else None
        if snapshot is None or (snapshot.status is TaskStatus.COMPLETED and snapshot.result_ref == commit.ref):
            continue
        with suppress(OrchestratorError):
            if snapshot.workflow_id not in views:
                views[snapshot.workflow_id] = pipelines_of(stack).view(snapshot.workflow_id)
        view = views.get(snapshot.workflow_id)
        attempts = () if view is None else view.attempts
        # A later step that changed nothing is done with the same commit, and has adopted nothing.
        step = next((each.step for each in attempts if each.task_id == maker), None)
        for each in attempts:
            if each.step == step and each.status is TaskStatus.COMPLETED and each.ref == commit.ref:
                found[commit.ref] = each
    return found
