"""A project on a real Conductor whose tasks and pipelines have names of their own, so that tests share one server."""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from perago_core.answers import Done
from perago_core.pipelines import Pipelines
from perago_core.values import Target
from perago_lakefs import Connection
from perago_lakefs.install import install
from perago_worker.config.load import load
from perago_worker.config.settings import Settings
from perago_worker.stack import Stack, pipelines_of
from tests.support.servers.lakefs import LakeFS
from tests.worker.projects import Project

TASKS = '''
"""Tasks of one test."""

import time
from pathlib import Path

from pydantic import BaseModel

from perago_worker import TaskTerminalError, Workspace, task


class Text(BaseModel):
    text: str = "hello"


class Sum(BaseModel):
    count: int


@task(name="write-{mark}", workspace=Workspace(prefix="data"), retries=2, retry_delay=0, response_timeout={patience})
def write(workspace: Path, params: Text) -> Sum:
    """Write a file."""
    (workspace / "text.txt").write_text(params.text)
    return Sum(count=len(params.text))


@task(name="read-{mark}", workspace=Workspace(read_only=True), retries=2, retry_delay=0, response_timeout={patience})
def read(workspace: Path) -> Sum:
    """Count what is there."""
    return Sum(count=len((workspace / "data" / "text.txt").read_text()))


@task(name="sum-{mark}", workspace=Workspace(), retries=2, retry_delay=0, response_timeout={patience})
def total(workspace: Path, params: Sum) -> Sum:
    """Write down a number."""
    (workspace / "sum.txt").write_text(str(params.count))
    return params


@task(name="sleep-{mark}", workspace=Workspace(), retries=2, retry_delay=0, response_timeout={patience})
def sleep(workspace: Path) -> Sum:
    """Sleep for an hour."""
    time.sleep(3600)
    return Sum(count=0)


@task(name="fail-{mark}", workspace=Workspace(), retries=0, response_timeout={patience})
def fail(workspace: Path) -> Sum:
    """Fail for good."""
    raise TaskTerminalError("there is no bread today")
'''

CONFIGURATION = """
tasks = ["life_{mark}"]

[orchestrator]
kind = "conductor"
url = "{url}"
poll_wait = 0.3
timeout = 60

[budget]
heartbeat_interval = 0.5
completion_reserve = 2

[worker]
poll_interval = 0.05

[pipelines.line-{mark}]
repository = "{repository}"
steps = [
    {{ name = "write", task = "write-{mark}", params = {{ text = "${{params.text}}" }} }},
    {{ parallel = [{{ name = "one", task = "read-{mark}" }}, {{ name = "two", task = "read-{mark}" }}] }},
    {{ name = "sum", task = "sum-{mark}", params = {{ count = "${{one.result.count}}" }} }},
]

[pipelines.sleep-{mark}]
repository = "{repository}"
steps = [{{ name = "sleep", task = "sleep-{mark}" }}]

[pipelines.fail-{mark}]
repository = "{repository}"
steps = [{{ name = "fail", task = "fail-{mark}" }}]
"""

ON_LAKEFS = """
[store]
kind = "lakefs"
url = "{0.url}"
access_key = "{0.access_key}"
secret_key = "{0.secret_key}"
repositories = ["{1}"]
"""

ON_ETCD = """
[coordination]
kind = "etcd"
endpoints = ["{0}"]
"""


@frozen
class Deployment:
    """A project, and the mark that all its names on the server carry."""

    mark: str
    project: Project
    stack: Stack

    @property
    def settings(self) -> Settings:
        return load(self.project.folder, {}, {})

    def words(self) -> Pipelines:
        """Speak to its orchestrator."""
        return pipelines_of(self.stack, self.settings.budget.budget())

    def named(self, name: str) -> str:
        return f"{name}-{self.mark}"

    def register(self) -> None:
        """Register its tasks and its pipelines."""
        for words in (("register",), ("pipeline", "register")):
            ran = self.project.perago(*words)
            assert ran.code == 0, ran.err

    def change(self, old: str, new: str) -> None:
        """Change the declaration of a task or a pipeline."""
        for path in (self.project.folder / f"life_{self.mark}.py", self.project.folder / "perago.toml"):
            path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        # Compiled code counts as fresh if size and second of the source are the same, and here they may well be.
        shutil.rmtree(self.project.folder / "__pycache__", ignore_errors=True)
        sys.modules.pop(f"life_{self.mark}", None)


@contextmanager
def new_deployment(
    folder: Path, url: str, *, patience: float = 20, repository: str = "lake", more: str = ""
) -> Generator[Deployment]:
    """Write a project, with more settings if given, and stop on leaving whatever of it still runs."""
    mark = uuid.uuid4().hex[:8]
    folder.mkdir(parents=True, exist_ok=True)
    tasks = TASKS.replace("{mark}", mark).replace("{patience}", str(patience))
    (folder / f"life_{mark}.py").write_text(tasks, encoding="utf-8")
    settings = CONFIGURATION.format(mark=mark, url=url, repository=repository) + more
    (folder / "perago.toml").write_text(settings, encoding="utf-8")
    before = list(sys.path)
    project = Project(folder)
    deployment = Deployment(mark, project, project.stack())
    try:
        yield deployment
    finally:
        sys.path[:] = before
        sys.modules.pop(f"life_{mark}", None)
        for view in deployment.words().running():
            if view.name.endswith(mark):
                deployment.words().stop(view.workflow_id, "the test is over")
        deployment.stack.close()


@contextmanager
def over_lakefs(folder: Path, url: str, lakefs: LakeFS, *, etcd: str = "") -> Generator[tuple[Deployment, Target]]:
    """Write a project over a new repository of a lakeFS with our hook; with an endpoint, an etcd coordinates it."""
    target = Target(f"deployed-{uuid.uuid4().hex[:8]}", "main")
    connection = Connection(lakefs.url, lakefs.access_key, lakefs.secret_key)
    made = install(connection, target, namespace=f"{lakefs.namespaces}/{target.repository}")
    assert isinstance(made, Done), made
    more = ON_LAKEFS.format(lakefs, target.repository) + (ON_ETCD.format(etcd) if etcd else "")
    with new_deployment(folder, url, repository=target.repository, more=more) as deployment:
        yield deployment, target
