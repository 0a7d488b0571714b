"""Task and pipeline definitions: written as Conductor's documents, registered and compared on a real server."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perago_conductor.documents import documents, unlike, workflow_document
from perago_worker.config.settings import PipelineSettings, StepSettings
from tests.conductor.deployment import Deployment, new_deployment
from tests.support.conductor.operating import Operator
from tests.support.servers.conductor import Conductor

LINE = PipelineSettings(
    repository="lake",
    steps=(
        StepSettings(name="ingest", task="take-in", params={"day": "${params.day}", "note": "of ${params.day}"}),
        StepSettings(
            parallel=(
                StepSettings(task="look"),
                StepSettings(task="clean", params={"rows": "${ingest.result.rows}", "deep": ["${ingest.result}"]}),
            )
        ),
        StepSettings(name="rollup", task="sum-up"),
    ),
)


def _steps(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give every simple task of a workflow by its reference name, wherever it stands."""
    found: dict[str, dict[str, Any]] = {}
    for each in document["tasks"]:
        lanes = each.get("forkTasks") or [[each]]
        found |= {step["taskReferenceName"]: step for lane in lanes for step in lane if step["type"] == "SIMPLE"}
    return found


def test_the_output_ref_of_each_step_is_the_input_of_the_next() -> None:
    steps = _steps(workflow_document("orders", LINE))
    given = {name: step["inputParameters"]["workspace"] for name, step in steps.items()}
    assert given == {
        "ingest": "${workflow.input.workspace}",
        "look": "${ingest.output.workspace}",
        "clean": "${ingest.output.workspace}",
        "rollup": "${clean.output.workspace}",
    }


def test_quotations_become_conductors_own() -> None:
    steps = _steps(workflow_document("orders", LINE))
    assert steps["ingest"]["inputParameters"]["params"] == {
        "day": "${workflow.input.params.day}",
        "note": "of ${workflow.input.params.day}",
    }
    assert steps["clean"]["inputParameters"]["params"] == {
        "rows": "${ingest.output.result.rows}",
        "deep": ["${ingest.output.result}"],
    }


def test_a_workflow_shows_every_workspace_and_only_the_last_result() -> None:
    """Conductor keeps 10 MiB of a workflow's output, and each step may give 3."""
    shown = workflow_document("orders", LINE)["outputParameters"]
    assert {name: sorted(each) for name, each in shown.items()} == {
        "ingest": ["workspace"],
        "look": ["workspace"],
        "clean": ["workspace"],
        "rollup": ["result", "workspace"],
    }


def test_steps_side_by_side_are_a_fork_that_is_joined() -> None:
    fork, join = workflow_document("orders", LINE)["tasks"][1:3]
    assert (fork["type"], join["type"]) == ("FORK_JOIN", "JOIN")
    assert join["joinOn"] == ["look", "clean"]


def test_a_failed_run_starts_the_recovery_of_its_pipeline() -> None:
    workflow, recovery = documents("orders", LINE)
    assert workflow["failureWorkflow"] == recovery["name"] == "orders-recovery"
    (recover,) = recovery["tasks"]
    assert recover["name"] == "orders-recover"
    assert recover["inputParameters"]["params"]["workflow"] == "${workflow.input.workflowId}"


def test_without_a_target_there_is_no_workspace_and_nothing_to_recover() -> None:
    alone = PipelineSettings(repository="lake", steps=(StepSettings(task="add"),))
    document = workflow_document("alone", alone, has_target=False)
    assert "failureWorkflow" not in document
    assert "workspace" not in document["tasks"][0]["inputParameters"]


def test_a_pipeline_that_asks_for_no_recovery_has_none() -> None:
    alone = PipelineSettings(repository="lake", steps=(StepSettings(task="add"),), recovery=False)
    (workflow,) = documents("alone", alone)
    assert "failureWorkflow" not in workflow


def _changed(change: str) -> dict[str, Any]:
    """Give the document as a server shows it, with its defaults, and with one thing changed."""
    found: dict[str, Any] = copy.deepcopy(workflow_document("orders", LINE))
    found |= {"createTime": 1, "restartable": True}
    first = found["tasks"][0]
    first |= {"startDelay": 0, "optional": False}
    match change:
        case "task":
            first["name"] = "other"
        case "input added":
            first["inputParameters"]["more"] = 1
        case "step gone":
            found["tasks"].pop()
        case "no recovery":
            del found["failureWorkflow"]
        case _:
            assert change == "nothing"
    return found


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ("nothing", ()),
        ("task", ("tasks",)),
        ("input added", ("tasks",)),
        ("step gone", ("tasks",)),
        ("no recovery", ("failureWorkflow",)),
    ],
)
def test_what_the_server_adds_is_no_difference_and_what_somebody_changed_is(
    change: str, fields: tuple[str, ...]
) -> None:
    assert unlike(workflow_document("orders", LINE), _changed(change)) == fields


# ---- Task definitions on a real server: extract, register, diff, and a start that refuses what is not its own.


@pytest.fixture
def deployment(tmp_path: Path, conductor_server: Conductor) -> Iterator[Deployment]:
    with new_deployment(tmp_path, conductor_server.api) as made:
        yield made


def test_what_is_not_registered_is_a_difference_and_no_worker_starts_on_it(deployment: Deployment) -> None:
    told = deployment.project.perago("diff")
    assert told.code == 1
    assert f"{deployment.named('write')}: declared, and not registered" in told.out
    assert f"pipeline {deployment.named('line')}: declared, and not registered" in told.out
    refused = deployment.project.perago("worker", "--until-idle")
    assert refused.code == 2
    assert "Run `perago register`" in refused.err


def test_registered_is_as_declared_until_somebody_changes_one_of_the_two(
    deployment: Deployment, operator: Operator
) -> None:
    deployment.register()
    assert deployment.project.perago("diff").code == 0
    deployment.change("retries=2", "retries=5")
    told = deployment.project.perago("diff")
    assert told.code == 1
    assert f"{deployment.named('write')}.retryCount: declared 5, registered 2" in told.out
    assert "retryCount" in deployment.project.perago("worker", "--until-idle").err
    deployment.register()
    assert deployment.project.perago("diff").code == 0
    # Somebody else registers the same name with fewer schemas.
    operator.register(deployment.named("write"), response_timeout=77)
    assert "responseTimeoutSeconds" in deployment.project.perago("diff").out
    assert "inputSchema" in deployment.project.perago("diff").out


def test_a_worker_starts_on_drift_if_it_is_told_to(deployment: Deployment) -> None:
    deployment.register()
    deployment.change("retries=2", "retries=5")
    assert deployment.project.perago("--set", "orchestrator.on_drift=warn", "worker", "--until-idle").code == 0
    assert deployment.project.perago("diff").code == 1
    assert deployment.project.perago("--set", "orchestrator.on_drift=register", "worker", "--until-idle").code == 0
    assert deployment.project.perago("diff").code == 0


def test_the_server_keeps_the_schemas_and_whole_seconds_that_are_never_too_few(
    deployment: Deployment, operator: Operator
) -> None:
    deployment.change("response_timeout=20", "response_timeout=2.2")
    deployment.register()
    kept = operator.call("GET", f"/metadata/taskdefs/{deployment.named('write')}").json()
    # Conductor cuts fractions off: registered as 2.2 it would be 2, and a worker would trust in 0.2 s it does not have.
    assert kept["responseTimeoutSeconds"] == 3
    assert kept["inputSchema"]["data"]["required"] == ["params", "workspace"]
    assert kept["outputSchema"]["data"]["required"] == ["result", "workspace"]
    assert (kept["timeoutSeconds"], kept["timeoutPolicy"], kept["retryLogic"]) == (0, "RETRY", "FIXED")


def test_the_response_timeout_covers_the_silence_before_a_result(deployment: Deployment, operator: Operator) -> None:
    deployment.change("completion_reserve = 2", "completion_reserve = 40")
    deployment.register()
    kept = operator.call("GET", f"/metadata/taskdefs/{deployment.named('write')}").json()
    assert kept["responseTimeoutSeconds"] == 41  # a heartbeat interval of 0.5, and 40


def test_extract_writes_what_register_sends(deployment: Deployment, operator: Operator) -> None:
    file = deployment.project.folder / "defs.json"
    assert deployment.project.perago("extract", "-o", str(file)).code == 0
    operator.call("POST", "/metadata/taskdefs", content=file.read_bytes(), headers={"Content-Type": "application/json"})
    told = deployment.project.perago("diff").out
    assert f"{deployment.named('write')}." not in told
    assert f"{deployment.named('line-')}" not in told


def test_a_pipeline_that_was_changed_is_a_difference_and_does_not_start(deployment: Deployment) -> None:
    deployment.register()
    deployment.change('{ name = "two"', '{ name = "second"')
    assert (
        f"pipeline {deployment.named('line')}.{deployment.named('line')}.tasks" in deployment.project.perago("diff").out
    )
    refused = deployment.project.perago("run", deployment.named("line"), "--param", "text=x", "--on", "conductor")
    assert refused.code == 2
    assert f"`perago pipeline register {deployment.named('line')}`" in refused.err


def test_a_pipeline_is_not_registered_before_its_tasks(deployment: Deployment) -> None:
    refused = deployment.project.perago("pipeline", "register")
    assert refused.code == 2
    assert "Run `perago register` first" in refused.err
    assert (
        deployment.words().unlike(deployment.named("line"), deployment.settings.pipelines[deployment.named("line")])
        is None
    )


def test_a_pipeline_with_two_writers_side_by_side_is_refused(deployment: Deployment) -> None:
    deployment.register()
    deployment.change('{ name = "two", task = "read-', '{ name = "two", task = "write-')
    deployment.change('{ name = "one", task = "read-', '{ name = "one", task = "write-')
    refused = deployment.project.perago("pipeline", "register")
    assert refused.code == 2
    assert "one and two would write to lake/main side by side" in refused.err
