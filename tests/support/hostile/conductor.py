"""Right answers of Conductor, and every call that asks for them."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlsplit

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_core.results import Completed
from perago_core.values import Attempt, Backing, CommitRef, Target
from tests.support.hostile.answers import Right
from tests.support.hostile.campaign import Calls
from tests.support.hostile.server import Asked

TASK: Final[dict[str, Any]] = {
    "taskId": "task-1",
    "taskType": "write",
    "workflowInstanceId": "wf-1",
    "referenceTaskName": "write",
    "status": "IN_PROGRESS",
    "retryCount": 0,
    "pollCount": 1,
    "startTime": 1_700_000_000_000,
    "inputData": {},
    "responseTimeoutSeconds": 10,
    "workerId": "w",
}
WORKFLOW: Final[dict[str, Any]] = {"workflowId": "wf-1", "status": "RUNNING", "output": {}}
#: What a task or a workflow may lack.
LAX: Final = frozenset({"inputData", "responseTimeoutSeconds", "workerId", "output"})


def answers(asked: Asked) -> Right:
    """Answer as Conductor does."""
    path = urlsplit(asked.path).path.removeprefix("/api")
    if path == "/token":
        return _json({"token": "a-token", "userId": "u"})
    if path.startswith("/tasks/poll/"):
        return _json([TASK])
    if asked.method == "GET" and path.startswith("/tasks/"):
        return _json(TASK)
    if asked.method == "GET":
        return _json(WORKFLOW)
    if path == "/tasks":
        return Right(200, b"task-1", "text/plain;charset=UTF-8")
    return Right(200, b"", "")  # decide


def _json(document: object) -> Right:
    return Right(200, json.dumps(document).encode(), lax=LAX)


def calls(port: ConductorOrchestrator) -> Calls:
    """Every call of the port."""
    target, ref = Target("lake", "main"), CommitRef("a" * 64)
    attempt = Attempt("wf-1", "task-1", 0, "wf-1/write", 1, "run-1", target, ref, Backing.SOFT)
    result = Completed(ref, "{}", "run-1")
    return {
        "poll": lambda: port.poll("w", ("write",), 1),
        "reload": lambda: port.reload("wf-1", "task-1"),
        "extend": lambda: port.extend(attempt),
        "report": lambda: port.report(attempt, result),
        "nudge": lambda: port.nudge("wf-1"),
    }
