"""What people do to Conductor past our port: define, start, look, and all that hands one task out twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any, TypeVar

import httpx
from attrs import define, field

from perago_core.values import CommitRef, Target

T = TypeVar("T")

#: A busy machine is slow, not broken.
PATIENCE = 120.0


def eventually(look: Callable[[], T | None], what: str) -> T:
    """Look until there is something to see."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    message = f"expected {what} within {PATIENCE:g} s"
    raise AssertionError(message)


@define
class Operator:
    """One person's view of the server. Tasks of her workflows are handed out in her ``domain`` only."""

    url: str
    domain: str
    response_timeout: int = 600
    started: list[str] = field(factory=list[str])
    _http: httpx.Client = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._http = httpx.Client(base_url=self.url, timeout=60.0, trust_env=False)

    def close(self) -> None:
        """End what still runs, so that nobody polls for it in vain."""
        # A server that is away has nobody polling; its refusal would hide what the test failed of.
        with closing(self._http), suppress(httpx.TransportError):
            for workflow_id in self.started:
                if self.workflow(workflow_id).get("status") in {"RUNNING", "PAUSED"}:
                    self.call("DELETE", f"/workflow/{workflow_id}", expected=(200, 204, 404, 409))

    def call(self, method: str, path: str, *, expected: tuple[int, ...] = (200, 204), **given: Any) -> httpx.Response:  # noqa: ANN401  as httpx takes it
        """Ask the server for something; another answer than expected fails the test."""
        response = self._http.request(method, path, **given)
        assert response.status_code in expected, f"{method} {path}: {response.status_code} {response.text[:300]}"
        return response

    # ---- defining and starting

    def register(self, task: str, *, retries: int = 2, response_timeout: int | None = None) -> None:
        self.call(
            "POST",
            "/metadata/taskdefs",
            json=[
                {
                    "name": task,
                    "retryCount": retries,
                    "retryDelaySeconds": 0,
                    "responseTimeoutSeconds": response_timeout or self.response_timeout,
                    "timeoutSeconds": 0,
                    "timeoutPolicy": "RETRY",
                    "ownerEmail": "tests@example.org",
                }
            ],
        )

    def start(
        self,
        steps: tuple[str, ...],
        target: Target,
        ref: CommitRef,
        *,
        retries: int = 2,
        params: Mapping[str, Mapping[str, object]] | None = None,
    ) -> str:
        """Start a line of steps, each a task of that name: the workspace of each is the input of the next."""
        tasks: list[dict[str, Any]] = []
        before = "workflow.input"
        for step in steps:
            self.register(step, retries=retries)
            given = {"workspace": f"${{{before}.workspace}}", "params": dict((params or {}).get(step, {}))}
            tasks.append({"name": step, "taskReferenceName": step, "type": "SIMPLE", "inputParameters": given})
            before = f"{step}.output"
        output = {"workspace": f"${{{before}.workspace}}", "result": f"${{{before}.result}}"}
        place = {"repository": target.repository, "branch": target.branch, "refType": "commit", "ref": ref}
        return self.begin(tasks, output, {"workspace": place})

    def begin(self, tasks: list[dict[str, Any]], output: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        """Start a workflow of any shape."""
        definition = {
            "name": f"suite-{self.domain}",
            "version": 1,
            "schemaVersion": 2,
            "tasks": tasks,
            "outputParameters": dict(output),
            "timeoutSeconds": 0,
            "timeoutPolicy": "ALERT_ONLY",
            "ownerEmail": "tests@example.org",
        }
        body = {
            "name": definition["name"],
            "version": 1,
            "workflowDef": definition,
            "input": dict(given),
            "taskToDomain": {"*": self.domain},
        }
        workflow_id = self.call("POST", "/workflow", json=body).text
        self.started.append(workflow_id)
        return workflow_id

    # ---- looking

    def workflow(self, workflow_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/workflow/{workflow_id}", expected=(200, 404)).json()
        return found

    def tasks(self, workflow_id: str, step: str | None = None) -> list[dict[str, Any]]:
        """Return the attempts of a workflow, or of one of its steps, in order."""
        found = sorted(self.workflow(workflow_id).get("tasks", []), key=lambda each: each["seq"])
        return [each for each in found if step in (None, each["referenceTaskName"])]

    def task(self, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/tasks/{task_id}").json()
        return found

    def logs(self, task_id: str) -> list[str]:
        answer = self.call("GET", f"/tasks/{task_id}/log")
        return [each["log"] for each in answer.json()] if answer.content else []

    # ---- what operators do

    def decide(self) -> None:
        """Let the server look at every workflow now; by itself it may take minutes (conductor facts 6)."""
        for workflow_id in self.started:
            self.call("PUT", f"/workflow/decide/{workflow_id}", expected=(200, 204, 404, 409))

    def terminate(self, workflow_id: str) -> None:
        self.call("DELETE", f"/workflow/{workflow_id}")

    def retry(self, workflow_id: str) -> None:
        self.call("POST", f"/workflow/{workflow_id}/retry")

    def restart(self, workflow_id: str) -> None:
        self.call("POST", f"/workflow/{workflow_id}/restart")

    def rerun(self, workflow_id: str, task_id: str | None) -> None:
        body = {"reRunFromWorkflowId": workflow_id} | ({} if task_id is None else {"reRunFromTaskId": task_id})
        self.call("POST", f"/workflow/{workflow_id}/rerun", json=body)

    def requeue(self, task: str) -> None:
        """Push every open task of that name once more, whoever works on it."""
        self.call("POST", f"/tasks/queue/requeue/{task}")

    def update(self, workflow_id: str, task_id: str, status: str, **more: Any) -> httpx.Response:  # noqa: ANN401  JSON
        """Send an update as any client may."""
        body = {"workflowInstanceId": workflow_id, "taskId": task_id, "status": status, **more}
        return self.call("POST", "/tasks", json=body, expected=(200, 404, 500))

    def until_ended(self, workflow_id: str) -> dict[str, Any]:
        """Wait for the end of a workflow and give it."""

        def look() -> dict[str, Any] | None:
            self.call("PUT", f"/workflow/decide/{workflow_id}", expected=(200, 204, 404, 409))
            found = self.workflow(workflow_id)
            return None if found["status"] in {"RUNNING", "PAUSED"} else found

        return eventually(look, f"workflow {workflow_id} to end")
