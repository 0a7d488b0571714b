"""``perago show-failed``, and how long what it shows is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_core.answers import Done
from tests.worker.projects import Project, new_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project") as made:
        yield made


def keep(project: Project, task: str, until: int) -> None:
    """Record an attempt that did not pass, as a worker does."""
    record = {
        "task_id": task,
        "logical_task": "daily/clean",
        "repository": "lake",
        "branch": "main",
        "commit": "c" * 40,
        "folders": ["sales/orders/"],
        "reason": "expected 'orders' to pass unique(id); found 2 row(s) that share a key",
        "until": until,
    }
    coordination = project.stack().coordination
    assert coordination is not None
    assert isinstance(coordination.create_if_absent(f"failed/{task}", json.dumps(record)), Done)


def test_what_did_not_pass_is_shown_with_where_to_read_it_until_its_time_is_over(project: Project) -> None:
    assert project.perago("run", "both", "--param", "text=x").code == 0
    assert "nothing that did not pass its gates is kept" in project.perago("show-failed").out
    keep(project, "task-1", until=4_000_000_000_000)
    keep(project, "task-2", until=1)
    shown = project.perago("show-failed", width=200).out
    assert "daily/clean task task-1, kept until 2096-" in shown
    assert "expected 'orders' to pass unique(id)" in shown
    assert f'dataset("lake/main/sales/orders@{"c" * 40}").pandas()' in shown
    assert "task-2" not in shown, "its time is over"
    (kept,) = project.perago("show-failed", "--json").data
    assert kept["places"] == [f"lake/main/sales/orders@{'c' * 40}"]
    assert project.perago("gc", "--dry-run", "--json").data["failed_gates"] == 1
    assert "forgot 1 result(s) that did not pass their gates" in project.perago("gc").out
    assert project.perago("gc", "--json").data["failed_gates"] == 0
    assert "task-1" in project.perago("show-failed").out
