"""Attempts as OpenLineage events: a START, and one more for how it ended, for those that lost as for those that won.

COMPLETE says that the result was accepted, FAIL that the task itself failed, ABORT that it was refused or not taken.
Where nobody knows whether the result was taken, it is OTHER: an unknown is neither.

No parameter, no output and nothing a body said is in an event: any of them may hold a secret.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from attrs import frozen

from perago_core.contract import NOWHERE
from perago_core.results import Acceptance, Classification, Completed, Outcome, Refusal
from perago_core.values import Attempt, CommitRef, TaskSnapshot, TaskStatus
from perago_worker.api.task import TaskDefinition
from perago_worker.version import version

_SPEC = "https://openlineage.io/spec"
EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
#: Under which run ids are made of executions, which are unique already.
_RUNS = uuid.UUID("6f6c9d0e-6c1e-5d5e-9a55-70657261676f")
#: The task failed; all others are words of the protocol.
_OWN_FAULT = frozenset(
    {
        Classification.WORKSPACE_FAILED,
        Classification.BODY_FAILED,
        Classification.BODY_LOST,
        Classification.READ_ONLY_WROTE,
    }
)


def run_id(execution: str) -> str:
    """Make the id of a run in OpenLineage of what is unique here: an execution, or a workflow."""
    return str(uuid.uuid5(_RUNS, execution))


@frozen
class Lineage:
    """Makes the events of one project. ``namespace``: of its jobs; ``data``: of its repositories."""

    namespace: str
    data: str

    def started(self, attempt: Attempt, definition: TaskDefinition, code: str, at: int) -> dict[str, Any]:
        """Say that an attempt begins, with what it was given."""
        return self._event("START", attempt, definition, at, facets=self._run_facets(attempt, code))

    def ended(
        self, attempt: Attempt, definition: TaskDefinition, code: str, at: int, outcome: Outcome
    ) -> dict[str, Any]:
        """Say how an attempt ended, and what it left."""
        result = outcome.result
        refusal = outcome.silence if result is None or isinstance(result, Completed) else result.refusal
        more = {
            "acceptance": outcome.acceptance.value,
            "adopted": outcome.adopted,
            "result": "silent" if result is None else type(result).__name__.lower(),
            "why": None if refusal is None else refusal.classification.value,
        }
        facets = self._run_facets(attempt, code, **more)
        if refusal is not None:
            facets["errorMessage"] = _facet(
                "facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
                message=_told(refusal),
                programmingLanguage="python",
            )
        ref = result.ref if isinstance(result, Completed) and not attempt.read_only else None
        left = None if ref == attempt.input else ref
        return self._event(_kind(outcome), attempt, definition, at, facets=facets, ref=left)

    def _event(
        self,
        kind: str,
        attempt: Attempt,
        definition: TaskDefinition,
        at: int,
        *,
        facets: Mapping[str, Any],
        ref: CommitRef | None = None,
    ) -> dict[str, Any]:
        has_place = definition.workspace is not None and attempt.target != NOWHERE
        job_type = "facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet"
        job = _facet(job_type, processingType="BATCH", integration="PERAGO", jobType="TASK")
        return {
            "eventType": kind,
            "eventTime": datetime.fromtimestamp(at / 1000, UTC).isoformat(),
            "producer": _producer(),
            "schemaURL": EVENT,
            "run": {"runId": run_id(attempt.execution), "facets": dict(facets)},
            "job": {"namespace": self.namespace, "name": definition.name, "facets": {"jobType": job}},
            "inputs": [self._dataset(attempt, definition, attempt.input)] if has_place else [],
            "outputs": [self._dataset(attempt, definition, ref)] if has_place and ref is not None else [],
        }

    def _run_facets(self, attempt: Attempt, code: str, **more: object) -> dict[str, Any]:
        parent = {
            "run": {"runId": run_id(attempt.workflow_id)},
            "job": {"namespace": self.namespace, "name": attempt.workflow_id.rpartition("-")[0] or attempt.workflow_id},
        }
        identity = {
            "workflow": attempt.workflow_id,
            "task": attempt.task_id,
            "logicalTask": attempt.logical_task,
            "number": attempt.number,
            "execution": attempt.execution,
            "worker": attempt.worker_id,
            "backing": attempt.backing.value,
            "epoch": attempt.epoch,
        }
        return {
            "parent": _facet("facets/1-2-0/ParentRunFacet.json#/$defs/ParentRunFacet", **parent),
            "perago_attempt": _own("attempt", **identity, **more),
            "perago_code": _own("code", task=attempt.logical_task, digest=code or None),
        }

    def _dataset(self, attempt: Attempt, definition: TaskDefinition, ref: CommitRef) -> dict[str, Any]:
        target = attempt.target
        prefix = "" if definition.workspace is None else definition.workspace.prefix
        versioned = "facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet"
        return {
            "namespace": self.data,
            "name": f"{target}/{prefix}".rstrip("/"),
            "facets": {
                "version": _facet(versioned, datasetVersion=ref),
                "perago_commit": _own(
                    "commit", repository=target.repository, branch=target.branch, commit=ref, prefix=prefix
                ),
            },
        }


def closed(began: Mapping[str, Any], execution: str, task: TaskSnapshot | None, at: int) -> dict[str, Any]:
    """Say of a run that was told as begun how it ended, for a worker that could not: accepted, or not taken.

    ``task``: as the orchestrator shows it, closed; a task it has forgotten is one whose result nobody can see any more.
    """
    accepted = task is not None and task.status is TaskStatus.COMPLETED and task.result_execution == execution
    taken = Acceptance.ACCEPTED if accepted else Acceptance.UNKNOWN if task is None else Acceptance.NOT_ACCEPTED
    facets = {**began["run"]["facets"]}
    more = {"acceptance": taken.value, "adopted": False, "result": "silent", "why": None}
    facets["perago_attempt"] = {**facets["perago_attempt"], **more}
    facets["errorMessage"] = _facet(
        "facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
        message="its worker ended before it could say how it went; this was told by another",
        programmingLanguage="python",
    )
    kind = {Acceptance.ACCEPTED: "COMPLETE", Acceptance.NOT_ACCEPTED: "ABORT"}.get(taken, "OTHER")
    ref = None if task is None or not accepted else task.result_ref
    return {
        **began,
        "eventType": kind,
        "eventTime": datetime.fromtimestamp(at / 1000, UTC).isoformat(),
        "run": {**began["run"], "facets": facets},
        "outputs": [_at(each, ref) for each in began["inputs"] if ref is not None and _ref_of(each) != ref],
    }


def _ref_of(dataset: Mapping[str, Any]) -> str:
    return str(dataset["facets"]["perago_commit"]["commit"])


def _at(dataset: Mapping[str, Any], ref: CommitRef) -> dict[str, Any]:
    """Return the same data at another commit."""
    facets = dataset["facets"]
    version, commit = {**facets["version"], "datasetVersion": ref}, {**facets["perago_commit"], "commit": ref}
    return {**dataset, "facets": {**facets, "version": version, "perago_commit": commit}}


def _kind(outcome: Outcome) -> str:
    result = outcome.result
    if isinstance(result, Completed):
        known = {Acceptance.ACCEPTED: "COMPLETE", Acceptance.NOT_ACCEPTED: "ABORT"}
        return known.get(outcome.acceptance, "OTHER")
    if result is not None and result.refusal.classification in _OWN_FAULT:
        return "FAIL"
    return "ABORT"


def _told(refusal: Refusal) -> str:
    """Say why; what a body said may hold anything, so that of its failures only the kind is told."""
    if refusal.classification in _OWN_FAULT:
        return f"{refusal.classification.value}: {refusal.next_action}"
    return str(refusal)


@cache
def _producer() -> str:
    return f"urn:perago-core:{version().replace(' ', '-')}"


def _facet(schema: str, **fields: object) -> dict[str, Any]:
    return {"_producer": _producer(), "_schemaURL": f"{_SPEC}/{schema}", **fields}


def _own(name: str, **fields: object) -> dict[str, Any]:
    return {"_producer": _producer(), "_schemaURL": f"{_producer()}:{name}", **fields}
