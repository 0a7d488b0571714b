"""A project to break: real worker processes on the embedded stack, with every patience short."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from attrs import define, field

from perago_bucket import BucketStore
from perago_core.answers import Answer, Done
from perago_core.pipelines import Pipelines, PipelineView
from perago_core.values import CommitRef, Target
from perago_lakefs import LakeFSStore
from perago_local.coordination import SqliteCoordination
from perago_local.git.store import GitStore
from perago_local.orchestrator import SqliteOrchestrator
from perago_local.orchestrator.workflow import TaskDefinition, WorkflowStep
from perago_worker.config.load import load
from perago_worker.runtime.failpoints import VARIABLE
from perago_worker.stack import Stack, open_stack, pipelines_of

T = TypeVar("T")

REPOSITORY = "lake"
FIRST: Mapping[str, bytes] = {"token": b"first", "data/old": b"old", "data/kept": b"kept"}
#: No single wait is longer, or something is wrong. Generous: the machine may be busy with other things.
LIMIT = 120.0
#: A worker listens to SIGTERM while it works. One that has not begun, or is through, just ends of it.
ENDED_WELL = (0, -signal.SIGTERM)
TEMPLATE = Path(__file__).with_name("breakable.py")
SPARK_TEMPLATE = Path(__file__).with_name("breakable_spark.py")
_ROOT = Path(__file__).parents[3]
#: The processes run the tree these tests stand in, whatever is installed.
_PATH = os.pathsep.join(str(_ROOT / each) for each in (".", "adapters", "simulation"))

#: Seconds. The lease is long enough for a busy machine to renew it, and short enough to wait for its end.
_CONFIGURATION = """
tasks = []

[fence]
policy = "{policy}"

[budget]
publish_timeout = 0.6
publish_p99 = 0.3
margin = 0.2
heartbeat_interval = 0.3
lease_ttl = 3.0
lease_margin = 0.4
takeover_wait = 1.3

[worker]
poll_interval = 0.02
drain_limit = 30.0
"""


def done(answer: Answer[T]) -> T:
    """Unwrap an answer that must be ``Done``."""
    assert isinstance(answer, Done), answer
    return answer.value


@define
class WorkerProcess:
    """One worker as the operating system sees it."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Give its process id."""
        return self.process.pid

    def wait(self, limit: float = LIMIT) -> int:
        """Wait for its end and give its exit code."""
        return self.process.wait(limit)

    def is_stopped(self) -> bool:
        """Say whether it stands still by SIGSTOP."""
        if self.process.poll() is not None:
            return False
        try:
            found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # it has died, and another thread was told so first
            return False
        return found is not None and found.si_code == os.CLD_STOPPED

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it lives."""
        self.process.send_signal(number)

    def wake_and_drain(self) -> None:
        """Have it finish what it has and end, without waiting for that."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)

    def drain(self) -> int:
        """Have it finish what it has and end; give its exit code."""
        self.wake_and_drain()
        return self.wait()

    def said(self) -> str:
        """Give what it logged."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def wait_for(ready: Callable[[], T], what: str, worker: WorkerProcess | None = None, limit: float = LIMIT) -> T:
    """Wait until it is so, and give what was found; in vain if the worker that should do it has ended."""
    until = time.monotonic() + limit
    while not (found := ready()):
        said = "" if worker is None else worker.said()
        assert worker is None or worker.process.poll() is None, f"no {what}, the worker has ended: {said}"
        assert time.monotonic() < until, f"waited {limit:g} s for {what}: {said}"
        time.sleep(0.03)
    return found


@define
class CrashProject:
    """A project folder, its systems, and the workers that were started on it."""

    folder: Path
    policy: str
    stack: Stack = field(init=False)
    workers: list[WorkerProcess] = field(factory=list[WorkerProcess], init=False)
    modules: list[str] = field(factory=list[str], init=False)
    #: Two threads may start workers at once.
    _numbers: Iterator[int] = field(factory=itertools.count, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        (self.folder / "plans").mkdir(parents=True)
        (self.folder / "logs").mkdir()
        (self.folder / "perago.toml").write_text(_CONFIGURATION.format(policy=self.policy), encoding="utf-8")
        self.stack = open_stack(load(self.folder, {}, {}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind, whatever happened."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.signal(signal.SIGKILL)
                worker.wait()

    @property
    def store(self) -> GitStore | LakeFSStore | BucketStore:
        """Give the store."""
        assert isinstance(self.stack.store, GitStore)
        return self.stack.store

    @property
    def orchestrator(self) -> SqliteOrchestrator:
        """Give the orchestrator."""
        assert isinstance(self.stack.orchestrator, SqliteOrchestrator)
        return self.stack.orchestrator

    @property
    def coordination(self) -> SqliteCoordination:
        """Give the coordination store."""
        assert isinstance(self.stack.coordination, SqliteCoordination)
        return self.stack.coordination

    @property
    def pipelines(self) -> Pipelines:
        """Give the words for pipelines."""
        return pipelines_of(self.stack)

    def branch(self, name: str) -> tuple[Target, CommitRef]:
        """Make a branch with some files."""
        target, store = Target(REPOSITORY, name), self.stack.store
        assert isinstance(store, GitStore)
        return target, done(store.create(target, FIRST))

    def add_strangers(self, target: Target, first: CommitRef, count: int = 2) -> tuple[CommitRef, ...]:
        """Put commits of somebody else on a branch, with the store's own tools."""
        made = [first]
        for number in range(count):
            author = ["-c", "user.name=stranger", "-c", "user.email=stranger@example.org"]
            found = self._git(*author, "commit-tree", f"{first}^{{tree}}", "-p", made[-1], "-m", f"stranger {number}")
            assert found.returncode == 0, found.stderr
            made.append(CommitRef(found.stdout.strip()))
        moved = self._git("update-ref", f"refs/heads/{target.branch}", made[-1], first)
        assert moved.returncode == 0, moved.stderr
        return tuple(made[1:])

    def staging_names(self) -> list[str]:
        """Name the staging branches that exist."""
        store = self.stack.store
        assert isinstance(store, GitStore)
        names = done(store.staging_names(REPOSITORY))
        return list(names)

    def judge_store(self) -> list[str]:
        """Judge what is the store's own: an ordinary git finds nothing wrong, and no lock is left."""
        locks = [str(path.relative_to(self._repository)) for path in self._repository.rglob("*.lock")]
        broken = [f"P-15 locks are left: {locks}"] if locks else []
        checked = self._git("fsck", "--strict", "--no-dangling")
        if checked.returncode != 0 or checked.stderr.strip():
            broken.append(f"P-16 git fsck: {checked.stderr} {checked.stdout}")
        return broken

    @property
    def _repository(self) -> Path:
        return self.folder / ".perago" / "store" / f"{REPOSITORY}.git"

    def _git(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "--git-dir", str(self._repository), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603  no shell

    def add_task(self, name: str, constants: Mapping[str, object] | None = None, source: Path = TEMPLATE) -> None:
        """Write a task module and register its task; constants of the template are replaced by these."""
        text = self.write_task(name, constants or {}, source)
        found = dict(re.findall(r"^(RETRIES|PATIENCE) = (.*)$", text, flags=re.MULTILINE))
        definition = TaskDefinition(
            name, retry_count=int(found["RETRIES"]), retry_delay=0.0, response_timeout=float(found["PATIENCE"])
        )
        self.orchestrator.register(definition)

    def write_task(self, name: str, constants: Mapping[str, object], source: Path = TEMPLATE) -> str:
        """Write a task module, and give it."""
        text = source.read_text(encoding="utf-8")
        for constant, value in {"NAME": name, **constants}.items():
            text, count = re.subn(rf"^{constant} = .*$", f"{constant} = {value!r}", text, flags=re.MULTILINE)
            assert count == 1, f"{source.name} has no constant {constant}"
        (self.folder / f"{name}.py").write_text(text, encoding="utf-8")
        self.modules.append(name)
        return text

    def perago(self, *words: str, limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
        """Run a command of a person in this project, past every proxy."""
        command = [sys.executable, "-m", "perago_worker", "--project", str(self.folder)]
        command += ["--set", f"tasks={','.join(self.modules)}", *words]
        return subprocess.run(  # noqa: S603  our own code
            command, env=_environment(), capture_output=True, text=True, check=False, timeout=limit
        )

    def plan(self, name: str, what: str) -> Path:
        """Say what the body of a task does from now on."""
        path = self.folder / "plans" / name
        fresh = path.with_suffix(".new")
        fresh.write_text(what, encoding="utf-8")
        fresh.replace(path)
        return path

    def start(self, name: str, tasks: tuple[str, ...], target: Target, ref: CommitRef, **params: object) -> str:
        """Start a workflow of these tasks, each with its own plan, and give its id."""
        steps = tuple(
            WorkflowStep(f"{number}-{each}", each, {"plan": str(self.folder / "plans" / each), **_json(params)})
            for number, each in enumerate(tasks)
        )
        return self.orchestrator.start_workflow(name, steps, target=target, ref=ref)

    def view(self, workflow: str) -> PipelineView:
        """Look at a workflow."""
        view = self.pipelines.view(workflow)
        assert view is not None
        return view

    def worker(
        self,
        *modules: str,
        failpoint: str = "",
        capacity: int = 1,
        until_idle: bool = False,
        settings: tuple[str, ...] = (),
        inside: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
    ) -> WorkerProcess:
        """Start a worker for the tasks of these modules, all if none is named; ``inside`` another command, if any."""
        given = (f"tasks={','.join(modules or self.modules)}", f"worker.capacity={capacity}", *settings)
        command = [sys.executable, "-m", "perago_worker", "--project", str(self.folder)]
        command += [word for each in given for word in ("--set", each)]
        command += ["worker", "--verbose", *(["--until-idle"] if until_idle else [])]
        return self.spawn([*inside, *command], {**(variables or {}), **({VARIABLE: failpoint} if failpoint else {})})

    def spawn(self, command: list[str], variables: Mapping[str, str] | None = None) -> WorkerProcess:
        """Start a process of this project; what it prints goes to a file of its own."""
        log = self.folder / "logs" / f"{next(self._numbers):03d}.log"
        environment = {**_environment(), **(variables or {})}
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)  # noqa: S603  our own code
        worker = WorkerProcess(process, log)
        self.workers.append(worker)
        return worker


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERAGO_")}
    return {**inherited, "COLUMNS": "500", "PYTHONPATH": _PATH}


def _json(params: Mapping[str, object]) -> dict[str, Any]:
    return dict(params)
