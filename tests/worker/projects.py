"""A small project in a folder, and the command line run on it: in this process, or as a real one."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from attrs import frozen
from typer.testing import CliRunner

from perago_core.answers import Answer, Done
from perago_core.pipelines import PipelineView
from perago_core.values import CommitRef, Target
from perago_local.orchestrator.pipelines import EmbeddedPipelines
from perago_worker.cli import app, console
from perago_worker.config.load import load
from perago_worker.stack import Stack, open_stack, pipelines_of

MAIN = Target("lake", "main")
_NUMBERS = count(1)
#: Imported before any command is: a console keeps the width of the terminal it is imported under.
CONSOLES = (console.out, console.messages)
_ROOT = Path(__file__).parents[2]

TASKS = '''
"""Tasks that are quick, two that are not, and one that always fails."""

import os
import time
from pathlib import Path

from pydantic import BaseModel

from perago_worker import TaskTerminalError, Workspace, progress, task


class Params(BaseModel):
    text: str = "hello"
    count: int = 1


class Sum(BaseModel):
    count: int


@task(name="write", workspace=Workspace(prefix="data"), retries=2, retry_delay=0.1, response_timeout=20)
def write(workspace: Path, params: Params) -> Sum:
    """Write some files."""
    for number in range(params.count):
        (workspace / f"{number}.txt").write_text(params.text)
    progress(1.0, 1.0, "files written")
    return Sum(count=params.count)


@task(name="total", workspace=Workspace(), retries=2, retry_delay=0.1, response_timeout=20)
def total(workspace: Path) -> Sum:
    """Count them."""
    found = len(list((workspace / "data").glob("*.txt")))
    (workspace / "total.txt").write_text(str(found))
    return Sum(count=found)


@task(name="add", response_timeout=20)
def add(params: Params) -> Sum:
    """Work without a workspace."""
    return Sum(count=params.count + 1)


@task(name="dawdle", workspace=Workspace(), response_timeout=20)
def dawdle(workspace: Path) -> Sum:
    """Take longer than a heartbeat."""
    time.sleep(1.2)
    (workspace / "dawdled.txt").write_text("at last")
    return Sum(count=1)


@task(name="sleep", workspace=Workspace(), response_timeout=20)
def sleep(workspace: Path, params: Params) -> Sum:
    """Say who sleeps, and sleep for an hour."""
    Path(params.text).write_text(str(os.getpid()))
    time.sleep(3600)
    return Sum(count=0)


@task(name="fail", workspace=Workspace(), response_timeout=20)
def fail(workspace: Path) -> Sum:
    """Always fail for good."""
    raise TaskTerminalError("there is no bread today")
'''

CONFIGURATION = """
tasks = ["{module}"]

[worker]
poll_interval = 0.02

[budget]
heartbeat_interval = 0.5
shutdown_grace = 1

[pipelines.both]
repository = "lake"
steps = [{{ task = "write", params = {{ count = 3, text = "${{params.text}}" }} }}, {{ task = "total" }}]

[pipelines.broken]
repository = "lake"
steps = [{{ task = "fail" }}]
"""


@frozen
class Ran:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:  # noqa: ANN401  whatever JSON it was
        """Read standard output as JSON: one document and nothing else."""
        return json.loads(self.out)


@frozen
class Project:
    """A folder with a ``perago.toml`` and tasks of its own."""

    folder: Path

    def perago(self, *words: str, width: int = 80) -> Ran:
        """Run a command in this process. Where it logs to ends with it: a later one would write to a closed stream."""
        handlers, level = list(logging.root.handlers), logging.root.level
        try:
            result = CliRunner().invoke(
                app,
                ["--project", str(self.folder), *words],
                env={"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb"},
            )
        finally:
            logging.root.handlers[:] = handlers
            logging.root.setLevel(level)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    def process(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command as its own process."""
        return subprocess.run(  # noqa: S603  our own interpreter and code
            [sys.executable, "-m", "perago_worker", "--project", str(self.folder), *words],
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def stack(self) -> Stack:
        """Open its systems."""
        return open_stack(load(self.folder, {}, {}))

    def views(self) -> tuple[PipelineView, ...]:
        """Look at its workflows."""
        orchestrator: Any = self.stack().orchestrator
        return EmbeddedPipelines(orchestrator).everything()

    def traces(self) -> list[Path]:
        """Give the traces its workers wrote."""
        return sorted((self.folder / ".perago" / "trace").glob("*.jsonl"))


def environment(**variables: str) -> dict[str, str]:
    """Give the environment of a process that runs this tree, whatever is installed."""
    path = os.pathsep.join(str(_ROOT / each) for each in (".", "adapters", "simulation"))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "80", "NO_COLOR": "1", **variables}


@contextmanager
def running_worker(folder: Path, *words: str, **variables: str) -> Generator[subprocess.Popen[bytes]]:
    """Let a worker of the project work until the end of the block, then kill it; ``worker.log`` has what it logs."""
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  our own interpreter and code
            [sys.executable, "-m", "perago_worker", "--project", str(folder), *words, "worker"],
            env=environment(**variables),
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def new_project(folder: Path, tasks: str = TASKS, more: str = "") -> Generator[Project]:
    """Write a project. Its tasks are a module of their own name, so that each project has its own."""
    module = f"project_tasks_{next(_NUMBERS)}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(tasks, encoding="utf-8")
    (folder / "perago.toml").write_text(CONFIGURATION.format(module=module) + more, encoding="utf-8")
    before = list(sys.path)
    yield Project(folder)
    sys.path[:] = before
    sys.modules.pop(module, None)


def create(stack: Stack, target: Target = MAIN) -> CommitRef:
    """Make an empty branch on the embedded store."""
    store: Any = stack.store
    made: Answer[CommitRef] = store.create(target)
    assert isinstance(made, Done), made
    return made.value


def killed_run(project: Project) -> str:
    """Run ``both`` with a first worker that is killed right after it has published, and give the workflow's id.

    The worker that follows finds the publication and reports it.
    """
    stack = project.stack()
    first = create(stack)
    words = pipelines_of(stack)
    assert project.process("register").returncode == 0
    pipeline = load(project.folder, {}, {}).pipelines["both"]
    workflow = words.start("both", pipeline, first, {"text": "a"})
    killed = project.process("worker", PERAGO_FAILPOINT="kill store.publish.after 1 write")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    until = time.monotonic() + 120
    while (view := words.view(workflow)) is not None and view.running:
        assert time.monotonic() < until, view
        assert project.process("worker", "--until-idle").returncode == 0
        time.sleep(0.2)
    return workflow


#: Tasks that are given up soon, so that nobody waits long for a killed worker.
IMPATIENT = TASKS.replace("response_timeout=20", "response_timeout=3")
