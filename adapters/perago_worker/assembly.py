"""A worker from its settings: import the tasks, open the systems, agree on a backing, settle what was left open."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType

from attrs import field, frozen

from perago_core.values import Attempt, Target
from perago_worker.body.bodies import Bodies
from perago_worker.body.notes import Note, Progressed, Transferred
from perago_worker.body.running import as_text
from perago_worker.collecting import sweep_names
from perago_worker.datasets import with_spark
from perago_worker.failing import Fate, Witness, fate_from, watched
from perago_worker.files.cache import Cache
from perago_worker.nudging import Lookout, can_nudge
from perago_worker.pipelines import pipelines_of
from perago_worker.recovering import own_tasks
from perago_worker.registry import Registry
from perago_worker.runtime import Runtime, Tell
from perago_worker.settings import Settings, WorkerSettings
from perago_worker.stack import Stack
from perago_worker.starting import StartError, settle_open_intents, settle_policy, targets_of, worker_id
from perago_worker.task import TaskDefinition
from perago_worker.telemetry import instruments, log
from perago_worker.worker import Worker
from perago_worker.workspace import Limits, LocalWorkspace, to_log

_MEGABYTE = 1 << 20
#: How many tasks' progress is kept: a worker may run for months.
_REMEMBERED = 1000
#: What bodies do not see of the worker's environment: they run other people's code.
_PRIVATE = ("PERAGO_", "CONDUCTOR_", "LAKECTL_", "ETCDCTL_", "SPARK_REMOTE")


@frozen
class Assembled:
    """A worker ready to run, with what it is made of. ``progress``: how far each body said it is, by task id."""

    runtime: Runtime
    worker: Worker
    progress: Mapping[str, Progressed] = field(factory=dict[str, Progressed])


def load_tasks(settings: Settings, project: Path) -> Registry:
    """Import the task modules of a project, which need not be installed."""
    folder = str(project)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return Registry.of_modules(*settings.tasks)


@contextmanager
def assemble(settings: Settings, stack: Stack, tasks: Registry) -> Generator[Assembled]:
    """Make a worker; on leaving, its template process is ended and nothing of it runs any more."""
    name = worker_id()
    fate = _fate()
    node = settle_policy(stack, settings, name)
    log.info("worker %s: backing %s, epoch %d, ledger %s", name, node.backing.value, node.epoch, node.ledger)
    counters = instruments()
    settle_open_intents(stack, targets_of(settings), name, counters)
    _sweep_names(stack, targets_of(settings))
    own = settings.worker
    environment = _for_bodies(os.environ)
    bodies = Bodies(tasks.modules(), environment=environment)
    orchestrator = watched(stack.orchestrator, fate)
    tell = _teller(orchestrator)
    progress: dict[str, Progressed] = {}
    listener = _listener(tell, progress)
    files = LocalWorkspace(
        stack.store,
        tasks,
        bodies,
        own.root,
        Cache(own.cache, own.cache_limit_mb * _MEGABYTE),
        limits=Limits(transfers=own.parallel_transfers),
        listener=listener,
    )
    swept = files.sweep()
    if swept:
        log.info("removed the folders of %d dead execution(s)", len(swept))
    inside = own_tasks(settings, stack)
    lookout = _lookout(stack, own, name, {**tasks, **inside})
    with ExitStack() as ending:
        ending.enter_context(closing(bodies))
        spark = with_spark(
            files,
            stack.store,
            tasks,
            settings.spark,
            environment=environment,
            root=own.root / "spark",
            keep=own.capacity,
            listener=listener,
        )
        workspace = ending.enter_context(spark)
        runtime = Runtime(
            orchestrator=orchestrator,
            store=stack.store,
            workspace=workspace,
            tasks=tasks,
            coordination=stack.coordination,
            clock=stack.clock,
            node=node,
            instruments=counters,
            tell=tell,
            traces=own.trace,
            own=inside,
            fate=fate,
            lookout=lookout,
        )
        worker = Worker(
            orchestrator,
            runtime.run,
            workspace.cancel_all,
            clock=stack.clock,
            worker_id=name,
            task_names=(*tasks, *inside),
            capacity=own.capacity,
            poll_interval=own.poll_interval,
            drain_limit=own.drain_limit,
        )
        bodies.warm()
        if lookout is not None:
            ending.enter_context(lookout.open())
        yield Assembled(runtime, worker, progress)


@contextmanager
def draining_on_signals(worker: Worker) -> Generator[None]:
    """Let SIGTERM and SIGINT drain the worker, and the second one stop it."""

    def stop(number: int, _frame: FrameType | None) -> None:
        log.info("%s: draining; again to stop at once", signal.Signals(number).name)
        # Not here: a handler interrupts the main thread, which may hold the lock that stopping needs.
        threading.Thread(target=worker.drain, name="drain").start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _sweep_names(stack: Stack, targets: Iterable[Target]) -> None:
    """Drop the staging names of attempts that ended. What is in the way of that is not in the way of working."""
    for target in {each.repository: each for each in targets}.values():
        try:
            swept = sweep_names(stack, pipelines_of(stack), target)
        except Exception as error:  # noqa: BLE001  as above
            log.warning("staging names of ended attempts stay in %s: %s", target.repository, error)
            continue
        if swept:
            log.info("removed %d staging name(s) of ended attempts from %s", len(swept), target.repository)


def _lookout(stack: Stack, own: WorkerSettings, name: str, tasks: Mapping[str, TaskDefinition]) -> Lookout | None:
    """Look out for the other workers where the orchestrator needs that, and there is a place to show signs of life."""
    if not own.nudge or stack.coordination is None or not can_nudge(stack.orchestrator):
        return None
    patience = max(each.response_timeout for each in tasks.values())
    return Lookout(stack.orchestrator, stack.coordination, stack.clock, name, patience)


def _fate() -> Fate | Witness | None:
    """Read what is to fail; a misspelt one is a mistake of whoever starts the worker, and found before anything is."""
    try:
        return fate_from()
    except ValueError as error:
        raise StartError(str(error)) from None


def _for_bodies(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_PRIVATE)}


def _teller(orchestrator: object) -> Tell:
    """Write to the orchestrator's task log, if it keeps one. A log that fails is a log line, never a failed task."""
    write: Callable[..., object] | None = getattr(orchestrator, "log", None)

    def tell(task_id: str, line: str) -> None:
        if write is None:
            return
        try:
            write(task_id, line)
        except Exception as error:  # noqa: BLE001  whatever a log's trouble is, it is not the task's
            log.warning("the task log of %s was not written: %s", task_id, error)

    return tell


def _listener(tell: Tell, progress: dict[str, Progressed]) -> Callable[[Attempt, Note], object]:
    def listen(attempt: Attempt, note: Note) -> None:
        if isinstance(note, Progressed):
            progress.pop(attempt.task_id, None)
            progress[attempt.task_id] = note
            if len(progress) > _REMEMBERED:
                progress.pop(next(iter(progress)), None)
        if isinstance(note, Transferred):
            return
        to_log(attempt, note)
        tell(attempt.task_id, as_text(note))

    return listen
