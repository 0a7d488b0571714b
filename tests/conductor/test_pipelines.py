"""Pipelines on a real Conductor: started, followed, explained, settled, stopped; workers are real processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perago_core.answers import Done
from perago_core.pipelines import PipelineView
from perago_core.values import CommitRef, TaskStatus
from tests.conductor.deployment import Deployment, new_deployment
from tests.support.conductor.operating import Operator, eventually
from tests.support.servers.conductor import Conductor
from tests.worker.projects import MAIN, create, running_worker


@pytest.fixture
def deployment(tmp_path: Path, conductor_server: Conductor) -> Iterator[Deployment]:
    with new_deployment(tmp_path, conductor_server.api) as made:
        made.register()
        yield made


def _start(deployment: Deployment, name: str, ref: CommitRef, **params: object) -> str:
    return deployment.words().start(
        deployment.named(name), deployment.settings.pipelines[deployment.named(name)], ref, params
    )


def _view(deployment: Deployment, workflow: str) -> PipelineView:
    view = deployment.words().view(workflow)
    assert view is not None
    return view


def _given_up(operator: Operator, pipeline: str) -> dict[str, Any] | None:
    """Let the server look for the dead now, not in minutes, and see what came of it."""
    operator.decide()
    return _recovered(operator, pipeline)


def _recovered(operator: Operator, pipeline: str) -> dict[str, Any] | None:
    """Look at the recovery of a pipeline, once it has ended."""
    hits = operator.call("GET", "/workflow/search", params={"query": f"workflowType={pipeline}-recovery"})
    ids = [each["workflowId"] for each in hits.json()["results"]]
    seen = operator.workflow(ids[0]) if ids else None
    return None if seen is None or seen["status"] == "RUNNING" else seen


def test_a_pipeline_is_started_there_and_followed_to_its_end(deployment: Deployment) -> None:
    create(deployment.stack)
    with running_worker(deployment.project.folder):
        ran = deployment.project.perago(
            "run", deployment.named("line"), "--param", "text=four", "--on", "conductor", "--json"
        )
    assert ran.code == 0, ran.err
    assert ran.data["status"] == "COMPLETED"
    given = {step: each["result"]["count"] for step, each in ran.data["output"].items()}
    assert given == {"write": 4, "one": 4, "two": 4, "sum": 4}
    refs = {each["step"]: each["ref"] for each in ran.data["attempts"]}
    assert refs["one"] == refs["two"] == refs["write"] != refs["sum"]
    head = deployment.stack.store.head(MAIN)
    assert isinstance(head, Done)
    assert head.value is not None
    assert head.value.commit.ref == refs["sum"]
    assert head.value.commit.parents == (refs["write"],)


def test_a_single_task_runs_here_without_being_a_pipeline(deployment: Deployment) -> None:
    ran = deployment.project.perago(
        "run", deployment.named("write"), "--param", "text=alone", "--target", "lake/main", "--json"
    )
    assert ran.code == 0, ran.err
    assert ran.data["output"][deployment.named("write")]["result"] == {"count": 5}


@pytest.mark.parametrize("spelling", ["refType", "ref_type"])
def test_callers_of_either_generation_are_understood(deployment: Deployment, operator: Operator, spelling: str) -> None:
    first = create(deployment.stack)
    body = {
        "name": deployment.named("line"),
        "version": 1,
        "input": {
            "params": {"text": "by hand"},
            "workspace": {"repository": "lake", "branch": "main", spelling: "commit", "ref": first},
            "whatever": "real workflows pass along",
        },
    }
    workflow = operator.call("POST", "/workflow", json=body).text
    with running_worker(deployment.project.folder):
        view = eventually(lambda: None if (seen := _view(deployment, workflow)).running else seen, "the end")
    assert view.succeeded, view
    assert view.output["sum"]["workspace"]["refType"] == "commit"


def test_a_second_workflow_on_the_same_branch_is_warned_of(deployment: Deployment, operator: Operator) -> None:
    first = create(deployment.stack)
    running = _start(deployment, "sleep", first)
    assert deployment.words().rivals(MAIN, (deployment.named("sleep"),)) == (running,)
    # A stranger's project knows none of our names: it is found by its correlation id.
    found = eventually(lambda: running in deployment.words().rivals(MAIN, ()), "the index to show it")
    assert found
    operator.call("PUT", f"/workflow/{running}/pause")
    assert running in deployment.words().rivals(MAIN, (deployment.named("sleep"),))  # `correlated` would miss it
    told = deployment.project.perago("--set", "orchestrator.on_drift=warn", "run", deployment.named("fail"))
    assert f"workflow {running} already runs on lake/main" in told.err
    deployment.words().stop(running, "enough")
    assert deployment.words().rivals(MAIN, (deployment.named("sleep"),)) == ()


def test_a_pipeline_that_failed_is_recovered_by_a_workflow_of_its_own(
    deployment: Deployment, operator: Operator
) -> None:
    create(deployment.stack)
    with running_worker(deployment.project.folder):
        ran = deployment.project.perago("run", deployment.named("fail"), "--on", "conductor")
        assert ran.code == 1
        assert "there is no bread today" in ran.out
        ended = eventually(lambda: _recovered(operator, deployment.named("fail")), "the recovery to end")
    assert ended["status"] == "COMPLETED"
    assert ended["tasks"][0]["outputData"]["result"] == {"target": "lake/main", "settled": {}}


def test_a_publication_nobody_finished_is_rolled_back_by_the_recovery_of_its_pipeline(
    deployment: Deployment, operator: Operator
) -> None:
    """Killed right after publishing, in its last attempt: no retry will replace it, so no unaccepted head is left."""
    create(deployment.stack)
    deployment.change("retries=2", "retries=0")
    deployment.change("response_timeout=20", "response_timeout=40")  # not given up before it is killed
    deployment.register()
    first = deployment.stack.store.head(MAIN)
    assert isinstance(first, Done)
    assert first.value is not None
    workflow = _start(deployment, "line", first.value.commit.ref, text="x")
    failpoint = f"kill store.publish.after 1 {deployment.named('write')}"
    assert deployment.project.process("worker", PERAGO_FAILPOINT=failpoint).returncode == -signal.SIGKILL
    with running_worker(deployment.project.folder):
        operator.started.append(workflow)
        ended = eventually(lambda: _given_up(operator, deployment.named("line")), "the recovery to end")
    assert not _view(deployment, workflow).succeeded
    published = deployment.stack.store.head(MAIN)
    assert isinstance(published, Done)
    assert published.value is not None
    assert published.value.commit.ref == first.value.commit.ref
    (recover,) = ended["tasks"]
    assert ended["status"] == "COMPLETED"
    assert list(recover["outputData"]["result"]["settled"].values()) == ["settled"]
    assert [each["kind"] for each in deployment.project.perago("audit", "--json").data] == ["rolled back"]


def test_parameters_that_are_quoted_must_be_given_and_tasks_must_be_known(deployment: Deployment) -> None:
    create(deployment.stack)
    told = deployment.project.perago("run", deployment.named("line"), "--on", "conductor")
    assert told.code == 2
    assert "needs --param text=VALUE" in told.err
    deployment.change(f'task = "sleep-{deployment.mark}"', f'task = "unheard-of-{deployment.mark}"')
    deployment.change(f'@task(name="sleep-{deployment.mark}"', f'@task(name="unheard-of-{deployment.mark}"')
    told = deployment.project.perago(
        "--set", "orchestrator.on_drift=warn", "run", deployment.named("sleep"), "--on", "conductor"
    )
    assert told.code == 2
    assert "Run `perago register`" in told.err


def test_nobody_working_is_told(deployment: Deployment) -> None:
    first = create(deployment.stack)
    workflow = _start(deployment, "sleep", first)
    view = eventually(lambda: seen if (seen := _view(deployment, workflow)).attempts else None, "a scheduled task")
    assert deployment.words().unattended(view) == (deployment.named("sleep"),)
    with running_worker(deployment.project.folder):
        eventually(lambda: not deployment.words().unattended(_view(deployment, workflow)), "a worker to ask")


def test_what_runs_is_living_and_what_ended_is_settled_only_when_nothing_can_bring_it_back(
    deployment: Deployment, operator: Operator
) -> None:
    first = create(deployment.stack)
    words = deployment.words()
    with running_worker(deployment.project.folder):
        done = _start(deployment, "line", first, text="x")
        eventually(lambda: not _view(deployment, done).running, "the line to end")
        sleeping = _start(
            deployment, "sleep", CommitRef(str(_view(deployment, done).output["sum"]["workspace"]["ref"]))
        )
        eventually(lambda: any(each.worker_id for each in _view(deployment, sleeping).attempts), "the sleeper to begin")
        (alive,) = [words.delivery(each.task_id) for each in _view(deployment, sleeping).attempts]
        assert alive is not None
        assert (alive.logical_task, alive.is_open) == (f"{sleeping}/sleep", True)
        dead = [words.delivery(each.task_id) for each in _view(deployment, done).attempts]
        assert not any(each is None or each.is_open for each in dead)
        assert words.delivery("11111111-2222-3333-4444-555555555555") is None
        tasks = {f"{done}/write", f"{sleeping}/sleep", "11111111-2222-3333-4444-555555555555/gone"}
        assert words.settled(tasks, 0) == {f"{done}/write"}
        assert words.settled(tasks, 3600) == set()
        # Of another Conductor, or of one that was removed: who knows.
        assert words.settled(tasks, 3600, unknown=True) == {"11111111-2222-3333-4444-555555555555/gone"}
        words.stop(sleeping, "enough")
    # It ended, and can be retried as long as Conductor keeps it.
    assert f"{sleeping}/sleep" not in words.settled(tasks, 0)
    operator.call("DELETE", f"/workflow/{sleeping}/remove", params={"archiveWorkflow": "false"})
    assert f"{sleeping}/sleep" not in words.settled(tasks, 0)
    assert f"{sleeping}/sleep" in words.settled(tasks, 0, unknown=True)


def test_status_explain_log_timeline_and_gc_speak_of_a_run_on_conductor(deployment: Deployment) -> None:
    ran = deployment.project.perago("run", deployment.named("line"), "--param", "text=x", "--json")
    assert ran.code == 0, ran.err
    workflow = ran.data["workflow_id"]
    task = ran.data["attempts"][0]["task_id"]
    shown = deployment.project.perago("status", workflow, "--json")
    assert shown.data == ran.data
    assert workflow in deployment.project.perago("status", "--all").out
    told = deployment.project.perago("explain", task).out
    assert "it is done: its result was accepted and stays" in told
    assert "log" in told
    assert deployment.words().log(task)
    why = deployment.project.perago("why", "data/text.txt", "--branch", "lake/main", "--json")
    assert why.code == 0, why.out + why.err
    assert (why.data["attempt"]["workflow"], why.data["params"]["text"], why.data["accepted"]) == (workflow, "x", True)
    assert why.data["attempt"]["evidence"] == ["claim", "ledger", "orchestrator"]
    assert deployment.project.perago("timeline", workflow).code == 0
    collected = deployment.project.perago("gc", "--older-than", "0", "--json")
    assert collected.code == 0, collected.err
    assert {each.partition("/")[0] for each in collected.data["claims"]} == {workflow}


def test_a_stopped_workflow_ends_its_attempts(deployment: Deployment) -> None:
    first = create(deployment.stack)
    with running_worker(deployment.project.folder):
        workflow = _start(deployment, "sleep", first)
        eventually(lambda: any(each.worker_id for each in _view(deployment, workflow).attempts), "the sleeper to begin")
        deployment.words().stop(workflow, "nobody wants it any more")
        view = _view(deployment, workflow)
    assert (view.status, view.reason) == ("TERMINATED", "nobody wants it any more")
    assert [each.status for each in view.attempts] == [TaskStatus.CANCELED]
    assert deployment.words().view("11111111-2222-3333-4444-555555555555") is None
    assert deployment.words().find("11111111-2222-3333-4444-555555555555") is None


def test_a_run_is_listed_cancelled_gone_on_with_and_forgotten_on_conductor_too(
    deployment: Deployment, tmp_path: Path
) -> None:
    """`retry` keeps what was accepted; ids by their beginning; nothing of what ran is left after `rm`."""
    perago = deployment.project.perago
    gate = tmp_path / "gate"
    deployment.change(
        "    return Sum(count=len((",
        f'    if not Path("{gate}").exists():\n        raise ValueError("shut")\n    return Sum(count=len((',
    )
    deployment.change("retries=2", "retries=0")
    deployment.register()
    failed = perago("run", deployment.named("line"), "--param", "text=x", "--json")
    assert failed.code == 1, failed.err
    run = failed.data["workflow_id"]
    assert [each["workflow_id"] for each in perago("runs", deployment.named("line"), "--json").data] == [run]
    assert perago("show", run[:13], "--json").data["workflow_id"] == run
    assert "shut" in perago("logs", f"{run}/one").out
    gate.touch()
    mended = perago("retry", run, "--from-failed", "--json")
    assert mended.code == 0, mended.err
    accepted = [each for each in mended.data["attempts"] if each["step"] == "write"]
    assert accepted == [each for each in failed.data["attempts"] if each["step"] == "write"]
    assert mended.data["output"]["sum"]["result"] == {"count": 1}
    head = deployment.stack.store.head(MAIN)
    assert isinstance(head, Done)
    assert head.value is not None
    sleeping = _start(deployment, "sleep", head.value.commit.ref)
    assert perago("rm", sleeping).code == 2, "what runs is not forgotten"
    cancelled = perago("cancel", sleeping, "--reason", "enough", "--json")
    assert (cancelled.data["status"], cancelled.data["reason"]) == ("TERMINATED", "enough")
    assert perago("rm", sleeping, run, "--json").data["removed"] == [sleeping, run]
    assert deployment.words().view(run) is None
