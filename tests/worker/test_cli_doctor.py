"""``perago doctor``: everything a worker needs, each with the fix, and whatever it finds is a finding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest

from perago_core.budget import PublishBudget
from perago_core.machine.codec import dumps
from perago_core.measured import CallTimes, Measured
from perago_worker.api.registry import load_tasks
from perago_worker.api.task import TaskDefinition
from perago_worker.config.load import load
from perago_worker.ops.doctor import Finding, examine
from tests.worker.projects import Project, create, new_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project") as made:
        yield made


def findings(project: Project, **settings: object) -> dict[str, Finding]:
    loaded = load(project.folder, settings, {})
    return {each.what: each for each in examine(loaded, lambda: load_tasks(loaded, project.folder))}


def test_a_branch_that_is_not_there_is_no_trouble_where_a_run_makes_it(project: Project) -> None:
    missing = findings(project)["lake/main"]
    assert (missing.fine, missing.found) == (True, "not there yet; `perago run` makes it")
    create(project.stack())
    made = findings(project)["lake/main"]
    assert (made.fine, made.found) == (True, "clean")


def test_a_policy_that_needs_a_coordination_store_says_so(project: Project) -> None:
    none = {"coordination": {"kind": "none"}}
    assert not findings(project, **none)["coordination"].fine
    assert "set coordination.kind" in findings(project, **none)["coordination"].fix
    assert findings(project, **none, fence={"policy": "soft"})["coordination"].fine


def test_a_file_that_workers_on_other_machines_do_not_share_is_called_that(project: Project) -> None:
    elsewhere = {"orchestrator": {"kind": "conductor", "url": "http://127.0.0.1:9/api"}}
    assert "only workers on this machine share it" in findings(project, **elsewhere)["coordination"].found
    assert findings(project)["coordination"].found == "answers"


def test_the_store_says_what_it_proved(project: Project) -> None:
    create(project.stack())
    assert findings(project)["store"].found == "proved atomic: head and claim move in one step"


def test_a_coordination_store_that_is_not_there_is_a_finding_and_not_a_crash(project: Project) -> None:
    """A port nobody listens on, on this machine."""
    etcd = {"coordination": {"kind": "etcd", "endpoints": "http://127.0.0.1:9"}}
    found = findings(project, **etcd)
    trouble = found.get("coordination") or found["systems"]
    assert not trouble.fine
    assert trouble.fix


def test_tasks_that_cannot_be_imported_are_one_line(project: Project) -> None:
    def broken() -> dict[str, TaskDefinition]:
        raise ImportError("no module named bread\nand a second line")

    (tasks,) = [each for each in examine(load(project.folder, {}, {}), broken) if each.what == "tasks"]
    assert tasks.found == "no module named bread"
    assert not tasks.fine


def test_every_trouble_has_a_fix(project: Project) -> None:
    blocked = project.folder / "file"
    blocked.write_text("", encoding="utf-8")
    found = findings(
        project,
        worker={"root": str(blocked), "cache": str(blocked)},
        coordination={"kind": "none"},
    )
    troubles = [each for each in found.values() if not each.fine]
    assert {each.what for each in troubles} >= {"work folder", "cache", "coordination"}
    assert all(each.fix for each in troubles)


# ---- the budget


def measure(project: Project, *took: float) -> None:
    """Leave the trace of an execution whose publications took so long."""
    folder = project.folder / ".perago" / "trace"
    folder.mkdir(parents=True, exist_ok=True)
    times = reduce(CallTimes.with_call, took, CallTimes("store.publish"))
    path = folder / f"workflow_task-001-{len(list(folder.iterdir()))}.jsonl"
    path.write_text(dumps(Measured((times, CallTimes("store.head").with_call(0.5)))) + "\n", encoding="utf-8")


def test_a_response_timeout_that_is_too_short_for_the_budget_is_found(project: Project) -> None:
    """It compared the budget with itself, which always fits."""
    assert not [name for name in findings(project) if name.startswith("budget of")]
    found = findings(project, budget={"completion_reserve": 100})["budget of write"]
    assert not found.fine
    assert "response timeout 20 s is shorter than the publish budget 106.5 s" in found.found
    assert "raise the task's response_timeout" in found.fix


def test_the_budget_is_judged_by_what_was_measured(project: Project) -> None:
    """The numbers come from traces, and what is proposed is what must be written down."""
    assert findings(project)["budget"].found == "0 of 20 publications measured to judge it by"
    measure(project, *[0.02] * 19)
    assert findings(project)["budget"].fine
    measure(project, 0.02)
    fits = findings(project)["budget"]
    assert (fits.fine, fits.found) == (True, "20 publications took 20 ms (p50) to 20 ms (p99); it fits")
    assert findings(project)["calls"].found == "slowest by p99: store.head 500 ms, store.publish 20 ms"
    measure(project, *[4.8] * 10)
    short = findings(project)["budget"]
    assert (short.fine, short.found) == (False, "30 publications took 20 ms (p50) to 4.8 s (p99)")
    assert short.fix == "set in [budget]: publish_timeout = 5.8, publish_p99 = 4.8, lease_ttl = 10.4"
    corrected = {"publish_timeout": 5.8, "publish_p99": 4.8, "lease_ttl": 10.4}
    assert findings(project, budget=corrected)["budget"].fine, "following the advice helps"


def test_a_lease_is_judged_by_what_is_done_under_it_and_for_it(project: Project) -> None:
    """Only where there was one. A long barrier is fine: the lease is renewed beside it; a slow renewal is not."""
    measure(project, 0.02)
    assert "lease" not in findings(project)
    folder = project.folder / ".perago" / "trace"

    def measured(renewal: float) -> None:
        taken = {"coordination.grant": 0.1, "store.barrier": 9.0, "orchestrator.reload": 0.3}
        calls = [CallTimes(name).with_call(seconds) for name, seconds in taken.items()]
        calls.append(CallTimes("coordination.keep_alive").with_call(renewal))
        (folder / "lease.jsonl").write_text(dumps(Measured(tuple(calls))) + "\n", encoding="utf-8")

    measured(0.01)
    long = findings(project)["lease"]
    assert long.fine
    assert "fence 3, revocation and barrier take 9.3 s (p99) under a lease of 10 s, of which 8 s count" in long.found
    measured(3.0)
    slow = findings(project)["lease"]
    assert not slow.fine
    assert findings(project, budget={"lease_ttl": float(slow.fix.split()[-1])})["lease"].fine


def test_traces_without_measurements_are_passed_over(project: Project) -> None:
    measure(project, *[0.02] * 20)
    folder = project.folder / ".perago" / "trace"
    (folder / "killed.jsonl").write_text("", encoding="utf-8")
    (folder / "torn.jsonl").write_text('{"schema": 1, "ty', encoding="utf-8")
    (folder / "other.jsonl").write_text(dumps(PublishBudget()), encoding="utf-8")
    assert findings(project)["budget"].fine
