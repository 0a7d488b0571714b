"""A warm process: it has Spark running and runs one task after the other in it.

The main thread receives the worker's messages; the task runs in a thread of its own. A fresh thread has none of the
properties that an earlier task set on its own one (job groups, scheduler pools). When the worker is gone the channel
closes, and this process ends with everything it has started.
"""

from __future__ import annotations

import importlib
import io
import os
import queue
import resource
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from perago_core.errors import one_line
from perago_core.ports import Sink, Source
from perago_spark.api.datasets import SparkDatasets
from perago_spark.diagnosis.failures import explained
from perago_spark.errors import DatasetError, StoppedError
from perago_spark.process.messages import (
    BodyFailure,
    Channel,
    CommitsOpened,
    CommitsWanted,
    Ended,
    InputPinned,
    InputSeen,
    Returned,
    RunTask,
    SinkGranted,
    SinkWanted,
    Stop,
    read_order,
    write_report,
)
from perago_spark.process.pool import HOME
from perago_spark.process.session import Spark, open_spark
from perago_spark.process.settings import read_settings

#: Runs a body by its name: data sets and parameters in, JSON or a failure out.
Call: TypeAlias = Callable[[str, SparkDatasets, str], Returned | BodyFailure]
#: Tasks one process runs, and bytes it may grow to, before another takes its place.
_TASKS: Final = 200
_BYTES: Final = 2 << 30
#: Seconds that a server has for ending jobs of a process whose worker is gone.
_LEAVING: Final = 5.0


def main() -> NoReturn:
    """Serve one worker until it is gone."""
    _path, entry, scratch, descriptor = sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # what a body prints is read while it runs
    channel = Channel(socket.socket(fileno=int(descriptor)))
    body = WarmProcess(channel, Path(scratch))
    try:
        body.start(entry, (channel.receive() or b"{}").decode("utf-8"))
        body.serve()
    finally:
        body.leave()
        # Java and everything else in this group, at once: the worker is gone, or is about to give up on us.
        os.killpg(0, signal.SIGKILL)
    raise AssertionError


class WarmProcess:
    """One channel, one Spark, one task at a time."""

    def __init__(self, channel: Channel, scratch: Path) -> None:
        self._channel = channel
        self._scratch = scratch
        self._spark: Spark | None = None
        self._call: Call | None = None
        self._trouble: str | None = None
        self._sinks: queue.SimpleQueue[Sink | None] = queue.SimpleQueue()
        self._inputs: queue.SimpleQueue[InputPinned | None] = queue.SimpleQueue()
        self._commits: queue.SimpleQueue[CommitsOpened | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._tasks = 0
        self._remote = False

    def start(self, entry: str, settings: str) -> None:
        """Start Spark and import the function that runs tasks. A failure is kept, and reported by the first task."""
        module, _, name = entry.partition(":")
        try:
            self._call = getattr(importlib.import_module(module), name)
            known = read_settings(settings)
            self._remote = bool(known.remote)
            self._spark = open_spark(known, self._scratch)
        except Exception as error:  # noqa: BLE001  whatever it is, no task can run here
            traceback.print_exc()
            self._trouble = one_line(f"Spark did not start: {type(error).__name__}: {error}")

    def serve(self) -> None:
        """Handle the worker's messages until it is gone."""
        while (payload := self._channel.receive()) is not None:
            match read_order(payload):
                case RunTask() as order:
                    # No daemon: threads inherit that, and those a body leaves must be told from Spark's own.
                    threading.Thread(target=self._run, args=(order,), name="body", daemon=False).start()
                case SinkGranted(sink):
                    self._sinks.put(sink)
                case InputPinned() as pinned:
                    self._inputs.put(pinned)
                case CommitsOpened() as opened:
                    self._commits.put(opened)
                case Stop():
                    self._stopped.set()
                    self._sinks.put(None)
                    self._inputs.put(None)
                    self._commits.put(None)
                    if self._spark is not None:
                        self._spark.interrupt()

    def leave(self) -> None:
        """End what still runs on a server: killing this process does not. A server that does not answer is left."""
        if self._remote and self._spark is not None:
            ending = threading.Thread(target=self._spark.interrupt, daemon=True)
            ending.start()
            ending.join(_LEAVING)

    def _run(self, order: RunTask) -> None:
        self._tasks += 1
        before = _entered(self._scratch / HOME)
        try:
            ended = self._ran(order)
        finally:
            _restore(before)
            sys.stdout.flush()
            sys.stderr.flush()
        self._channel.send(write_report(ended))

    def _ran(self, order: RunTask) -> Ended:
        if self._spark is None or self._call is None:
            return Ended(BodyFailure(self._trouble or "Spark did not start"), spent="it never started")
        threads = _threads()
        datasets = None
        try:
            session = self._spark.task_session(order.scope.execution, order.session)
            datasets = SparkDatasets(session, order.scope, self._staging, self._pinned, self._opened)
            ending = self._call(order.body, datasets, order.params)
            if isinstance(ending, Returned) and not datasets.unfinished:
                datasets.finish()
        except BaseException as error:  # noqa: BLE001  whatever it is, it is how the body ended
            traceback.print_exc()
            ending = BodyFailure(one_line(f"{type(error).__name__}: {explained(error)}"))
        if datasets is not None and datasets.unfinished and isinstance(ending, Returned):
            names = ", ".join(datasets.unfinished)
            ending = BodyFailure(
                f"the body went on although its write of {names} had failed. Let it raise, or write again"
            )
        spent = self._spent(threads)
        if datasets is None:
            return Ended(ending, spent=spent)
        return Ended(ending, datasets.changed, spent, datasets.gated, datasets.failed)

    def _staging(self) -> Sink:
        """Ask the worker for a sink and wait: the core first checks that the attempt is still ours."""
        if not self._channel.send(write_report(SinkWanted())):
            raise StoppedError("the worker is gone")
        sink = self._sinks.get()
        if sink is None:
            raise StoppedError("the attempt was stopped before it had written anything")
        return sink

    def _pinned(self, path: str, identity: str) -> str:
        """Tell the worker what an input is and wait for what the first attempt of this task has read there."""
        if not self._channel.send(write_report(InputSeen(path, identity))):
            raise StoppedError("the worker is gone")
        pinned = self._inputs.get()
        if pinned is None:
            raise StoppedError("the attempt was stopped before it had read its input")
        if pinned.trouble:
            raise DatasetError(f"a record of what {path} is", pinned.trouble, "Try the task again once it answers")
        return pinned.identity

    def _opened(self, base: str, folder: str) -> tuple[tuple[str, Source], ...]:
        """Ask the worker for a commit of the branch, or for those above it that a stream has to look at, and wait."""
        if not self._channel.send(write_report(CommitsWanted(base, folder))):
            raise StoppedError("the worker is gone")
        opened = self._commits.get()
        if opened is None:
            raise StoppedError("the attempt was stopped before it had read its input")
        if opened.trouble:
            raise DatasetError(f"commit {base} below the input of this task", opened.trouble, "See the store's own log")
        return opened.commits

    def _spent(self, threads: set[str]) -> str | None:
        """Return the reason why this process must run no other task; ``None``: it may."""
        if self._stopped.is_set():
            return "it was interrupted"
        left = sorted(_threads() - threads)
        if left:
            return f"the body left {len(left)} thread(s) running: {', '.join(left[:3])}"
        if self._tasks >= _TASKS:
            return f"it has run {self._tasks} tasks"
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > _BYTES:
            return "it has grown too large"
        assert self._spark is not None
        try:
            return self._spark.tidy()
        except Exception as error:  # noqa: BLE001  Java is gone, or does not answer as it should
            return one_line(f"it cannot be tidied: {type(error).__name__}: {error}")


def _threads() -> set[str]:
    """List the threads that keep running by themselves. Spark's own are daemons."""
    return {f"{thread.name} ({thread.ident})" for thread in threading.enumerate() if not thread.daemon}


_Before: TypeAlias = tuple[Path, dict[str, str]]


def _entered(home: Path) -> _Before:
    """Enter the empty folder that relative paths and temporary files are in; Java has been there from its start."""
    os.chdir(home)
    tempfile.tempdir = str(home)
    return home, dict(os.environ)


def _restore(before: _Before) -> None:
    home, environment = before
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(home)
    tempfile.tempdir = None
    for entry in home.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
