"""Projects with isolated pipelines, and what can be seen of their runs from outside."""

from __future__ import annotations

from typing import Any

from perago_core.answers import Answer, Done
from perago_core.values import Commit, CommitRef, Target
from perago_worker.stack import Stack
from tests.worker.projects import IMPATIENT, MAIN, Project

TASKS = (
    IMPATIENT
    + '''

@task(name="audit", workspace=Workspace(read_only=True), retries=2, retry_delay=0.1, response_timeout=3)
def audit(workspace: Path, params: Params) -> Sum:
    """Refuse a run that has not written as many files as it should."""
    found = len(list((workspace / "data").glob("*.txt")))
    if found != params.count:
        raise TaskTerminalError(f"expected {params.count} files, found {found}")
    return Sum(count=found)


@task(name="label", workspace=Workspace(), retries=2, retry_delay=0.1, response_timeout=3)
def label(workspace: Path) -> Sum:
    """Say what is in the files."""
    (workspace / "label.txt").write_text((workspace / "data" / "0.txt").read_text())
    return Sum(count=1)


@task(name="replace", workspace=Workspace(prefix="data"), retries=2, retry_delay=0.1, response_timeout=3)
def replace(workspace: Path, params: Params) -> Sum:
    """Remove the first file and write another."""
    (workspace / "0.txt").unlink()
    (workspace / "new.txt").write_text(params.text)
    return Sum(count=1)
'''
)

PIPELINES = """
[pipelines.whole]
repository = "lake"
isolation = "run"
steps = [{ task = "write", params = { count = 3, text = "${params.text}" } }, { task = "total" }]
audits = [{ task = "audit", params = { count = 3 } }]

[pipelines.daily]
repository = "lake"
isolation = "run"
steps = [{ task = "write", params = { count = 3, text = "${params.text}" } }, { task = "label" }]
audits = [{ task = "audit", params = { count = 3 } }]

[pipelines.refused]
repository = "lake"
isolation = "run"
steps = [{ task = "write", params = { count = 5, text = "five" } }, { task = "total" }]
audits = [{ task = "audit", params = { count = 3 } }]

[pipelines.swap]
repository = "lake"
isolation = "run"
steps = [{ task = "replace", params = { text = "swapped" } }]
"""


def commits(stack: Stack, target: Target = MAIN) -> tuple[Commit, ...]:
    """Give the commits of a branch, newest first."""
    found = stack.store.history(target)
    assert isinstance(found, Done), found
    return found.value


def files(stack: Stack, ref: CommitRef) -> dict[str, bytes]:
    """Read every file of a commit."""
    source = stack.store.read(MAIN.repository, ref)
    listed = source.list()
    assert isinstance(listed, Done)
    found: dict[str, bytes] = {}
    for each in listed.value:
        opened = source.get(each.path)
        assert isinstance(opened, Done)
        with opened.value as data:
            found[each.path] = data.read()
    return found


def run_branches(stack: Stack) -> tuple[str, ...]:
    """List the branches of runs."""
    store: Any = stack.store
    found: Answer[tuple[str, ...]] = store.run_branches(MAIN.repository)
    assert isinstance(found, Done), found
    return found.value


def succeed(project: Project, *words: str) -> None:
    """Run a command that must succeed."""
    ran = project.perago(*words, width=200)
    assert ran.code == 0, ran.out + ran.err
