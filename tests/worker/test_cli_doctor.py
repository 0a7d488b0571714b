"""``perago doctor``: everything a worker needs, each with the fix, and whatever it finds is a finding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_worker.config.load import load
from perago_worker.ops.doctor import Finding, examine
from tests.worker.projects import Project, create, new_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project") as made:
        yield made


def findings(project: Project, **settings: object) -> dict[str, Finding]:
    return {each.what: each for each in examine(load(project.folder, settings, {}), lambda: "write, total")}


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
    def broken() -> object:
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
