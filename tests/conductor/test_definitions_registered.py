"""Task definitions on a real server: extract, register, diff, and a start that refuses what is not its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conductor.life import Life, new_life
from tests.support.conductor.operating import Operator
from tests.support.servers.conductor import Conductor


@pytest.fixture
def life(tmp_path: Path, conductor_server: Conductor) -> Iterator[Life]:
    with new_life(tmp_path, conductor_server.api) as made:
        yield made


def test_what_is_not_registered_is_a_difference_and_no_worker_starts_on_it(life: Life) -> None:
    told = life.project.perago("diff")
    assert told.code == 1
    assert f"{life.named('write')}: declared, and not registered" in told.out
    assert f"pipeline {life.named('line')}: declared, and not registered" in told.out
    refused = life.project.perago("worker", "--until-idle")
    assert refused.code == 2
    assert "Run `perago register`" in refused.err


def test_registered_is_as_declared_until_somebody_changes_one_of_the_two(life: Life, operator: Operator) -> None:
    life.register()
    assert life.project.perago("diff").code == 0
    life.change("retries=2", "retries=5")
    told = life.project.perago("diff")
    assert told.code == 1
    assert f"{life.named('write')}.retryCount: declared 5, registered 2" in told.out
    assert "retryCount" in life.project.perago("worker", "--until-idle").err
    life.register()
    assert life.project.perago("diff").code == 0
    # Somebody else registers the same name with fewer schemas.
    operator.register(life.named("write"), response_timeout=77)
    assert "responseTimeoutSeconds" in life.project.perago("diff").out
    assert "inputSchema" in life.project.perago("diff").out


def test_a_worker_starts_on_drift_if_it_is_told_to(life: Life) -> None:
    life.register()
    life.change("retries=2", "retries=5")
    assert life.project.perago("--set", "orchestrator.on_drift=warn", "worker", "--until-idle").code == 0
    assert life.project.perago("diff").code == 1
    assert life.project.perago("--set", "orchestrator.on_drift=register", "worker", "--until-idle").code == 0
    assert life.project.perago("diff").code == 0


def test_the_server_keeps_the_schemas_and_whole_seconds_that_are_never_too_few(life: Life, operator: Operator) -> None:
    life.change("response_timeout=20", "response_timeout=2.2")
    life.register()
    kept = operator.call("GET", f"/metadata/taskdefs/{life.named('write')}").json()
    # Conductor cuts fractions off: registered as 2.2 it would be 2, and a worker would trust in 0.2 s it does not have.
    assert kept["responseTimeoutSeconds"] == 3
    assert kept["inputSchema"]["data"]["required"] == ["params", "workspace"]
    assert kept["outputSchema"]["data"]["required"] == ["result", "workspace"]
    assert (kept["timeoutSeconds"], kept["timeoutPolicy"], kept["retryLogic"]) == (0, "RETRY", "FIXED")


def test_the_response_timeout_covers_the_silence_before_a_result(life: Life, operator: Operator) -> None:
    life.change("completion_reserve = 2", "completion_reserve = 40")
    life.register()
    kept = operator.call("GET", f"/metadata/taskdefs/{life.named('write')}").json()
    assert kept["responseTimeoutSeconds"] == 41  # a heartbeat interval of 0.5, and 40


def test_extract_writes_what_register_sends(life: Life, operator: Operator) -> None:
    file = life.project.folder / "defs.json"
    assert life.project.perago("extract", "-o", str(file)).code == 0
    operator.call("POST", "/metadata/taskdefs", content=file.read_bytes(), headers={"Content-Type": "application/json"})
    told = life.project.perago("diff").out
    assert f"{life.named('write')}." not in told
    assert f"{life.named('line-')}" not in told


def test_a_pipeline_that_was_changed_is_a_difference_and_does_not_start(life: Life) -> None:
    life.register()
    life.change('{ name = "two"', '{ name = "second"')
    assert f"pipeline {life.named('line')}.{life.named('line')}.tasks" in life.project.perago("diff").out
    refused = life.project.perago("run", life.named("line"), "--param", "text=x", "--on", "conductor")
    assert refused.code == 2
    assert f"`perago pipeline register {life.named('line')}`" in refused.err


def test_a_pipeline_is_not_registered_before_its_tasks(life: Life) -> None:
    refused = life.project.perago("pipeline", "register")
    assert refused.code == 2
    assert "Run `perago register` first" in refused.err
    assert life.words().unlike(life.named("line"), life.settings.pipelines[life.named("line")]) is None


def test_a_pipeline_with_two_writers_side_by_side_is_refused(life: Life) -> None:
    life.register()
    life.change('{ name = "two", task = "read-', '{ name = "two", task = "write-')
    life.change('{ name = "one", task = "read-', '{ name = "one", task = "write-')
    refused = life.project.perago("pipeline", "register")
    assert refused.code == 2
    assert "one and two would write to lake/main side by side" in refused.err
