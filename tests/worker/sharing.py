"""A project whose pipelines share one branch: tasks that declare what they read and write."""

from __future__ import annotations

TASKS = '''
"""Tasks that share a branch."""

import os
from pathlib import Path

from pydantic import BaseModel

from perago_worker import Workspace, task


class Params(BaseModel):
    text: str = "hello"
    ran: str = ""


class Seen(BaseModel):
    files: list[str]


def _note(params: Params) -> None:
    """Leave one line for each time a body has run."""
    if params.ran:
        with Path(params.ran).open("a") as file:
            file.write("x")


def _files(workspace: Path) -> Seen:
    return Seen(files=sorted(str(each.relative_to(workspace)) for each in workspace.rglob("*") if each.is_file()))


QUICK = {"retries": 2, "retry_delay": 0.1, "response_timeout": 3}


@task(name="left", workspace=Workspace(writes=["left"]), **QUICK)
def left(workspace: Path, params: Params) -> Seen:
    """Write to its own folder."""
    _note(params)
    seen = _files(workspace)
    (workspace / "left").mkdir(exist_ok=True)
    (workspace / "left" / "l.txt").write_text(params.text)
    return seen


@task(name="right", workspace=Workspace(writes=["right"]), **QUICK)
def right(workspace: Path, params: Params) -> Seen:
    """Write to another one."""
    _note(params)
    seen = _files(workspace)
    (workspace / "right").mkdir(exist_ok=True)
    (workspace / "right" / "r.txt").write_text(params.text)
    return seen


@task(name="join", workspace=Workspace(reads=["left", "right"], writes=["both"]), **QUICK)
def join(workspace: Path, params: Params) -> Seen:
    """Read both."""
    _note(params)
    (workspace / "both").mkdir(exist_ok=True)
    texts = [(workspace / each).read_text() for each in ("left/l.txt", "right/r.txt") if (workspace / each).exists()]
    (workspace / "both" / "b.txt").write_text(" ".join(texts))
    return _files(workspace)


@task(name="adamant", workspace=Workspace(reads=["left"], writes=["firm"]), on_conflict="fail", **QUICK)
def adamant(workspace: Path, params: Params) -> Seen:
    """Read what left writes, once and for all."""
    _note(params)
    (workspace / "firm").mkdir(exist_ok=True)
    (workspace / "firm" / "f.txt").write_text(params.text)
    return _files(workspace)


@task(name="other", workspace=Workspace(writes=["other"]), **QUICK)
def other(workspace: Path, params: Params) -> Seen:
    """Write what nobody else reads."""
    (workspace / "other").mkdir(exist_ok=True)
    (workspace / "other" / "o.txt").write_text(params.text)
    return _files(workspace)


@task(name="stray", workspace=Workspace(writes=["left"]), **QUICK)
def stray(workspace: Path, params: Params) -> Seen:
    """Write where it has not said it would."""
    (workspace / "elsewhere").mkdir(exist_ok=True)
    (workspace / "elsewhere" / "e.txt").write_text(params.text)
    return _files(workspace)


@task(name="plain", workspace=Workspace(prefix="plain"), **QUICK)
def plain(workspace: Path, params: Params) -> Seen:
    """Declare nothing."""
    _note(params)
    (workspace / "p.txt").write_text(params.text)
    return _files(workspace)
'''

PIPELINES = """
[pipelines.lefts]
repository = "lake"
steps = [{ task = "left", params = { text = "${params.text}" } }]

[pipelines.rights]
repository = "lake"
steps = [{ task = "right", params = { text = "${params.text}" } }]

[pipelines.fan]
repository = "lake"
steps = [{ parallel = [{ task = "left" }, { task = "right" }] }, { task = "join" }]
"""
