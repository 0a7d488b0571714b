"""A worker from its settings: import the tasks, open the systems, agree on a backing, settle what was left open."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from attrs import frozen

from perago_core.values import Attempt
from perago_worker.body.bodies import Bodies
from perago_worker.body.notes import Note
from perago_worker.body.running import as_text
from perago_worker.failing import Watcher, fate_from, watched
from perago_worker.files.cache import Cache
from perago_worker.registry import Registry
from perago_worker.runtime import Runtime, Tell
from perago_worker.settings import Settings
from perago_worker.stack import Stack
from perago_worker.starting import StartError, settle_open_intents, settle_policy, targets_of, worker_id
from perago_worker.telemetry import instruments, log
from perago_worker.worker import Worker
from perago_worker.workspace import Limits, LocalWorkspace, to_log

_MEGABYTE = 1 << 20
#: What bodies do not see of the worker's environment: they run other people's code.
_PRIVATE = ("PERAGO_", "CONDUCTOR_", "LAKECTL_", "ETCDCTL_")


@frozen
class Assembled:
    """A worker ready to run, with what it is made of."""

    runtime: Runtime
    worker: Worker
    workspace: LocalWorkspace


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
    settle_open_intents(stack, targets_of(settings), name)
    own = settings.worker
    bodies = Bodies(tasks.modules(), environment=_for_bodies(os.environ))
    tell = _teller(stack.orchestrator)
    workspace = LocalWorkspace(
        stack.store,
        tasks,
        bodies,
        own.root,
        Cache(own.cache, own.cache_limit_mb * _MEGABYTE),
        limits=Limits(transfers=own.parallel_transfers),
        listener=_listener(tell),
    )
    swept = workspace.sweep()
    if swept:
        log.info("removed the folders of %d dead execution(s)", len(swept))
    orchestrator = watched(stack.orchestrator, fate)
    runtime = Runtime(
        orchestrator=orchestrator,
        store=stack.store,
        workspace=workspace,
        tasks=tasks,
        coordination=stack.coordination,
        clock=stack.clock,
        node=node,
        instruments=instruments(),
        tell=tell,
        traces=own.trace,
        fate=fate,
    )
    worker = Worker(
        orchestrator,
        runtime.run,
        workspace.cancel_all,
        clock=stack.clock,
        worker_id=name,
        task_names=tuple(tasks),
        capacity=own.capacity,
        poll_interval=own.poll_interval,
        drain_limit=own.drain_limit,
    )
    try:
        bodies.warm()
        yield Assembled(runtime, worker, workspace)
    finally:
        bodies.close()


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


def _fate() -> Watcher | None:
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


def _listener(tell: Tell) -> Callable[[Attempt, Note], object]:
    def listen(attempt: Attempt, note: Note) -> None:
        to_log(attempt, note)
        tell(attempt.task_id, as_text(note))

    return listen
