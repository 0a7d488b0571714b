"""Task definitions on a real server: extract, register, diff, and a start that refuses what is not its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conductor.deployment import Deployment, new_deployment
from tests.support.conductor.operating import Operator
from tests.support.servers.conductor import Conductor


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
