"""Two releases side by side: what the older one wrote is read; what a newer one wrote is refused, and harms nobody.

A real worker is killed right after it has published, and its claim is given the fields that the other release has.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perago_core.values import TaskStatus
from tests.support.crash.judging import Line, judge_line, judge_rest
from tests.support.crash.project import REPOSITORY, CrashProject, wait_for
from tests.worker.projects import new_project


def older(record: dict[str, Any]) -> dict[str, Any]:
    """Take away what older releases did not keep."""
    return {name: value for name, value in record.items() if name != "result"}


def newer(record: dict[str, Any]) -> dict[str, Any]:
    """Add what this release does not know."""
    return {**record, "colour": "blue"}


def git(project: CrashProject, *words: str, given: str = "") -> str:
    folder = project.folder / ".perago" / "store" / f"{REPOSITORY}.git"
    command = ["git", "--git-dir", str(folder), *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603  no shell


def rewrite_claims(project: CrashProject, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for ref in git(project, "for-each-ref", "--format=%(refname)", "refs/perago/claims", "refs/perago/raised").split():
        record = change(json.loads(git(project, "cat-file", "blob", ref)))
        git(project, "update-ref", ref, git(project, "hash-object", "-w", "--stdin", given=json.dumps(record)))


@pytest.mark.parametrize("change", [older, newer])
def test_what_another_release_published_before_it_died_is_read_or_refused_and_never_lost(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    with CrashProject(tmp_path / "p", "auto") as project:
        project.add_task("task", {"RETRIES": 1000})
        project.plan("task", "change")
        place = project.branch("main")
        line = Line(*place, project.start("work", ("task",), *place))
        other = project.worker(failpoint="kill store.publish.after 1 task")
        assert other.wait() == -signal.SIGKILL
        published = git(project, "rev-parse", "main")
        assert published != line.first
        rewrite_claims(project, change)

        worker = project.worker()
        if change is newer:
            says = "was it written by a newer release? Then use that one"
            wait_for(lambda: says in worker.said(), "refusal", worker)
            assert git(project, "rev-parse", "main") == published
            assert not project.view(line.workflow).succeeded
            rewrite_claims(project, lambda record: {name: record[name] for name in record if name != "colour"})
        wait_for(lambda: project.view(line.workflow).succeeded, "workflow", worker)
        assert worker.drain() == 0
        assert "Traceback" not in worker.said()
        assert judge_line(project, line) == []
        assert judge_rest(project, [line]) == []
        assert project.view(line.workflow).attempts[0].status is not TaskStatus.COMPLETED


@pytest.mark.parametrize("file", ["orchestrator.db", "coordination.db"])
def test_tables_of_another_release_are_refused_in_one_line_and_left_as_they_are(tmp_path: Path, file: str) -> None:
    with new_project(tmp_path / "p") as project:
        assert project.perago("run", "write", "--target", "lake/main").code == 0
        place = project.folder / ".perago" / file
        with sqlite3.connect(place) as database:
            database.execute("UPDATE part SET version = 99")
        database.close()
        refused = project.perago("run", "write", "--target", "lake/main", width=2000)
        assert refused.code == 2
        assert "tables, found 99: use the program that wrote them, or another file" in refused.err
        assert len(refused.err.splitlines()) == 1
        with sqlite3.connect(place) as database:
            assert database.execute("SELECT version FROM part").fetchall() == [(99,)]
        database.close()
