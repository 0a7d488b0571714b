"""Where a burn rages: a project on real systems, pipelines on it, workers behind proxies of their own."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import cache, partial
from pathlib import Path
from typing import Self

from attrs import define, field, frozen

from perago_core.pipelines import OrchestratorError
from perago_core.values import CommitRef, Target
from perago_worker.api.errors import UserError
from perago_worker.cli.project import Project
from perago_worker.cli.run import make_ready
from tests.cluster.servers import connect
from tests.support.burn.faults import NETWORK, SLOTS, Kind
from tests.support.burn.sharing import Sharing
from tests.support.burn.wall_clock import WallClock, compiler
from tests.support.conductor.operating import Operator
from tests.support.crash.bucket_project import BucketProject
from tests.support.crash.project import SPARK_TEMPLATE, TEMPLATE, CrashProject, WorkerProcess, done, wait_for
from tests.support.crash.servers_project import ServersProject
from tests.support.servers.faulty_proxy import FaultyProxy, Script, first_of, let_pass
from tests.support.servers.server import Server
from tests.support.servers.sharing import shared_versitygw

STACKS: Mapping[str, type[CrashProject]] = {
    "embedded": CrashProject,
    "bucket": BucketProject,
    "servers": ServersProject,
}
STEPS = 3
#: Seconds between two looks at a run that is followed.
_GLANCE = 1.0
#: Seconds a body takes, and megabytes of the disk of the worker whose disk is filled.
_LASTS, _DISK = 0.3, 32
#: Seconds after which a database is held by somebody who does not work: longer than any transaction of ours.
_HELD_UP = 3.0
#: The first two must come to their end whatever happens. Strangers commit to the third, whose runs they may end.
REPLACING, STRANGERS_ON = "replacing", "disturbed"
TASKS = {"adopting": "adopt", REPLACING: "replace", STRANGERS_ON: "adopt"}
#: On a Spark Connect server, so that a body is a client and not a Java; its jobs outlive the workers that are killed.
ON_SPARK = "tables"
_MOUNT = f'mount -t tmpfs -o size={_DISK}m perago "$0" && exec "$@"'


@cache
def namespaces() -> bool:
    """Say whether a worker can have a disk and a clock of its own here."""
    tried = ["unshare", "--map-root-user", "--mount", "--time", "--monotonic=100", "true"]
    try:
        return subprocess.run(tried, check=False, capture_output=True).returncode == 0  # noqa: S603  our own words
    except OSError:
        return False


@define
class Slot:
    """One place where a worker runs: whoever is there now, and what the next one gets."""

    worker: WorkerProcess | None = None
    #: What the next workers are armed with, one each.
    failpoints: list[str] = field(factory=list[str])
    #: Nobody is started here.
    empty: bool = False
    shift: int = 0
    #: Its own wall clock, where one can be made.
    wall: WallClock | None = None
    #: How the worker that is there was started, for whoever asks what killed it.
    armed: str = ""
    lock: threading.RLock = field(factory=threading.RLock)


@frozen
class Pipeline:
    """A pipeline on a branch of its own, and where it began."""

    name: str
    task: str
    target: Target
    first: CommitRef
    strangers: list[CommitRef] = field(factory=list[CommitRef])


@define
class Field:
    """``servers``: by the setting that names their address, so that a worker can be told another one."""

    kind: str
    project: CrashProject
    servers: Mapping[str, Server] = field(factory=dict[str, Server])
    lanes: list[dict[str, FaultyProxy]] = field(factory=list[dict[str, FaultyProxy]])
    scripts: dict[tuple[int, str], list[Script]] = field(factory=dict[tuple[int, str], list[Script]])
    slots: list[Slot] = field(factory=lambda: [Slot() for _ in range(SLOTS)])
    pipelines: list[Pipeline] = field(factory=list[Pipeline])
    #: Several workflows on one branch, with declared reads and writes, instead of one on each of three.
    sharing: Sharing | None = None
    #: One of the tasks is on Spark.
    spark: bool = False
    #: The executions that were accepted, in all rounds.
    accepted: set[str | None] = field(factory=set[str | None])
    _closing: ExitStack = field(factory=ExitStack)
    _starting: threading.Lock = field(factory=threading.Lock)

    @classmethod
    def on(cls, stack: str, folder: Path, policy: str, sharing: Sharing | None = None, *, spark: bool = False) -> Self:
        """Start the systems, the proxies before them, and make the tasks known; with ``spark`` one of them on Spark."""
        project = STACKS[stack](folder, policy)
        made = cls(stack, project, sharing=sharing, spark=spark)
        made._closing.enter_context(project)
        if isinstance(project, ServersProject):
            made.servers = {
                "store.url": project.server,
                "orchestrator.url": project.conductor,
                "coordination.endpoints": project.etcd,
            }
        elif isinstance(project, BucketProject):
            made.servers = {"store.endpoint": shared_versitygw()}
        for _ in range(SLOTS):
            lane = {name: made._closing.enter_context(FaultyProxy(each.url)) for name, each in made.servers.items()}
            made.lanes.append(lane)
        patience = 10.0 if stack == "servers" else 4.0
        if compiler() is not None:
            for number, slot in enumerate(made.slots):
                slot.wall = WallClock.made(folder.with_name(f"clocks-of-{folder.name}"), str(number))
        if spark:
            server = made._closing.enter_context(connect(folder.with_name(f"spark-of-{folder.name}")))
            with (folder / "perago.toml").open("a", encoding="utf-8") as settings:
                settings.write(f'\n[spark]\nremote = "{server.url}"\nkeep = 1\n')
        for task, constants in made._tasks().items():
            source = SPARK_TEMPLATE if task == ON_SPARK else TEMPLATE
            project.add_task(task, {"PATIENCE": patience, **constants}, source)
            project.plan(task, "change")
        return made

    def _tasks(self) -> Mapping[str, Mapping[str, object]]:
        """Name the tasks, each with the constants that make it what it is."""
        if self.sharing is not None:
            return {name: {"RETRIES": 200, **constants} for name, constants in self.sharing.tasks().items()}
        # A branch that a stranger has moved refuses every attempt there is.
        return {
            name: {"RETRIES": 4 if name == STRANGERS_ON else 200, "ON_ABANDONED": on_abandoned}
            for name, on_abandoned in (*TASKS.items(), *(((ON_SPARK, "adopt"),) if self.spark else ()))
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *trouble: object) -> None:
        for server in self.servers.values():
            server.send(signal.SIGCONT)
        self._closing.close()

    @property
    def kinds(self) -> frozenset[Kind]:
        """Return the faults that can be shown here."""
        alone = frozenset(Kind) - NETWORK - {Kind.CLOCK} - ({Kind.WALL} if compiler() is None else frozenset[Kind]())
        # Under a lease there is one writer at a time, and scopes share nothing.
        alone -= {Kind.POLICY} if self.sharing is not None else frozenset[Kind]()
        if not self.servers:
            return alone
        # Who shares a database with others shares their clock: only servers have their own.
        return alone | NETWORK | ({Kind.CLOCK} if namespaces() and self.kind == "servers" else frozenset[Kind]())

    @property
    def traces(self) -> Path:
        """Return where the workers write down what they do."""
        return self.project.folder / ".perago" / "trace"

    def disk(self, slot: int) -> Path:
        """Return where a worker's own small disk is mounted, as it sees it."""
        return self.project.folder / f"disk{slot}"

    # ---- pipelines

    def new_pipelines(self, mark: str) -> None:
        """Declare one pipeline for each task, on fresh branches or a fresh one for all, and make them known."""
        path = self.project.folder / "perago.toml"
        text = path.read_text(encoding="utf-8").partition("\n[pipelines.")[0]
        self.pipelines = []
        shared = None if self.sharing is None else self.project.branch(f"{mark}-shared")
        strangers: list[CommitRef] = []
        for task in self._tasks():
            if shared is None:
                target, first = self.project.branch(f"{mark}-{task}")
                strangers = []
            else:
                target, first = shared
            self.pipelines.append(Pipeline(f"{task}-{mark}", task, target, first, strangers))
            plan = self.project.folder / "plans" / task
            steps = "".join(
                f'{{ name = "s{step}", task = "{task}", params = {{ plan = "{plan}", seconds = {_LASTS} }} }}, '
                for step in range(STEPS)
            )
            text += f'\n[pipelines.{task}-{mark}]\nrepository = "{target.repository}"\nbranch = "{target.branch}"\n'
            text += f"steps = [{steps}]\n"
        path.write_text(text, encoding="utf-8")
        if self.kind == "servers":
            for words in (("register",), ("pipeline", "register")):
                ran = self.project.perago(*words)
                assert ran.returncode == 0, ran.stdout + ran.stderr

    def run(self, pipeline: Pipeline) -> str:
        """Start a pipeline as a person does, and follow it to its end; give what is said if it does not succeed.

        Those of a shared branch are started and followed from one process: as many commands as there are workflows
        take minutes of a small machine to start, and longer than Conductor has to live.
        """
        if self.sharing is not None:
            return self._begin(pipeline)
        on = "conductor" if self.kind == "servers" else "local"
        ran = self.project.perago("run", pipeline.name, "--on", on, limit=600)
        return "" if not ran.returncode else f"{pipeline.name}: {ran.stderr.strip()[-300:]}"

    def _begin(self, pipeline: Pipeline) -> str:
        """Start a pipeline by what ``perago run`` starts it with; give what is said if it cannot be."""
        kind = "conductor" if self.kind == "servers" else "local"
        told = {"tasks": self.project.modules, "orchestrator": {"kind": kind}}
        try:
            with self._starting, closing(Project(self.project.folder, told)) as project:
                begun = make_ready(project, pipeline.name, {}, on=kind).begin()
            while (view := self.project.pipelines.view(begun)) is not None and view.running:
                time.sleep(_GLANCE)
        except (UserError, OrchestratorError) as trouble:
            return f"{pipeline.name}: {trouble}"
        return "" if view is not None and view.succeeded else f"{pipeline.name}: {view}"[:300]

    def under_way(self, *only: str) -> tuple[str, ...]:
        """Name the runs of these pipelines, or only some of them, that have not ended; or why nobody can tell."""
        names = set(only) or {each.name for each in self.pipelines}
        try:
            return tuple(each.workflow_id for each in self.project.pipelines.running() if each.name in names)
        except OrchestratorError as silent:
            return (str(silent),)

    def completed(self, task: str) -> int:
        """Count the runs of a task's pipeline that have come to their end."""
        (name,) = [each.name for each in self.pipelines if each.task == task]
        lines = self.project.pipelines.newest(1000)
        return sum(each.name == name and each.status == "COMPLETED" for each in lines)

    def is_held_up(self) -> bool:
        """Return whether somebody has a database of this machine locked for so long that nobody else can work."""
        for path in (self.project.folder / ".perago").glob("*.db"):
            with closing(sqlite3.connect(path, timeout=_HELD_UP, isolation_level=None)) as opened:
                try:
                    opened.execute("BEGIN IMMEDIATE")
                    opened.execute("ROLLBACK")
                except sqlite3.OperationalError:
                    return True
        return False

    def hand_out_again(self, pipeline: Pipeline) -> bool:
        """Have what runs of a pipeline's task handed out a second time."""
        if isinstance(self.project, ServersProject):
            Operator(self.project.conductor.api, "").requeue(pipeline.task)
            return True
        running = [each for each in self.project.orchestrator.open_tasks() if each.worker_id]
        if running:
            self.project.orchestrator.requeue(running[0].task_id)
        return bool(running)

    def commit_as_stranger(self) -> bool:
        """Have somebody else commit to the branch whose runs may fail, or to that which all share.

        ``False``: the branch moved meanwhile.
        """
        # All pipelines of a shared branch have the same list of strangers.
        pipeline = next(each for each in self.pipelines if self.sharing is not None or each.task == STRANGERS_ON)
        head = done(self.project.store.head(pipeline.target))
        assert head is not None
        try:
            made = self.project.add_strangers(pipeline.target, head.commit.ref, 1)
        except AssertionError:
            return False
        pipeline.strangers.extend(made)
        return True

    # ---- workers

    def supervise(self) -> None:
        """Start a worker wherever none runs, as whoever keeps a cluster alive does."""
        for number, slot in enumerate(self.slots):
            with slot.lock:
                if not slot.empty and (slot.worker is None or slot.worker.process.poll() is not None):
                    self._start(number, slot)

    def _start(self, number: int, slot: Slot) -> None:
        told = tuple(f"{name}={_path_of(name, proxy.url)}" for name, proxy in self.lanes[number].items())
        inside: tuple[str, ...] = ()
        if namespaces() and number == SLOTS - 1:
            disk = self.disk(number)
            disk.mkdir(exist_ok=True)
            told += (f"worker.root={disk}/work",)
            inside = ("unshare", "--map-root-user", "--mount", "sh", "-c", _MOUNT, str(disk))
        if slot.shift:
            clocks = (f"--monotonic={slot.shift}", f"--boottime={slot.shift}")
            inside = ("unshare", "--map-root-user", "--time", *clocks, *inside)
        slot.armed = slot.failpoints.pop(0) if slot.failpoints else ""
        capacity = 2 if self.sharing is None else max(2, self.sharing.workflows // SLOTS)
        seen = None if slot.wall is None else slot.wall.variables
        slot.worker = self.project.worker(
            failpoint=slot.armed, capacity=capacity, settings=told, inside=inside, variables=seen
        )

    def quiet(self) -> None:
        """Take every fault of the network back, wake who sleeps, and arm nobody any more."""
        self.scripts.clear()
        for lane in self.lanes:
            for proxy in lane.values():
                proxy.script = let_pass
        for server in self.servers.values():
            server.send(signal.SIGCONT)
        for slot in self.slots:
            with slot.lock:
                slot.failpoints, slot.shift, slot.empty = [], 0, False
                if slot.wall is not None:
                    slot.wall.jump(0)
                if slot.worker is not None and slot.worker.process.poll() is None:
                    slot.worker.signal(signal.SIGCONT)

    def drain(self) -> None:
        """Have every worker finish and end; whoever stands still on the way, where it was armed to, is woken."""
        for slot in self.slots:
            with slot.lock:
                worker, slot.worker = slot.worker, None
            if worker is not None and worker.process.poll() is None:
                worker.signal(signal.SIGTERM)
                wait_for(partial(_has_ended, worker), f"end of a worker that was told to: {worker.said()[-1500:]}")

    # ---- the network

    def disturb(self, slot: int, server: str, script: Script) -> Callable[[], None]:
        """Add a fault between a worker and a server, and give what takes it back."""
        active = self.scripts.setdefault((slot, server), [])
        active.append(script)
        proxy = self.lanes[slot][server]
        proxy.script = first_of(*active)

        def mend() -> None:
            if script in active:
                active.remove(script)
            proxy.script = first_of(*active)

        return mend

    def wait_for_rest(self, limit: float) -> tuple[str, ...]:
        """Wait until every run has ended, with workers alive and awake; give those that have not after so many seconds.

        Counterexample: one that was armed to stand still and came there only now held its task for ever.
        """
        until = time.monotonic() + limit
        while (left := self.under_way()) and time.monotonic() < until:
            self.quiet()
            self.supervise()
            time.sleep(0.3)
        return left


def is_ready(slot: Slot) -> bool:
    """Say whether a slot's worker has agreed with the others, and polls."""
    worker = slot.worker
    return worker is not None and worker.process.poll() is None and "backing" in worker.said()


def _has_ended(worker: WorkerProcess) -> bool:
    worker.signal(signal.SIGCONT)
    return worker.process.poll() is not None


def _path_of(setting: str, url: str) -> str:
    return f"{url}/api" if setting == "orchestrator.url" else url
