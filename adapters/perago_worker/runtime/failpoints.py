"""Dying on purpose: a worker that kills or stops itself before or after one port call.

For people who want to see what happens then: the demo, the kill matrix, and a team that does not take our word for it.
``PERAGO_FAILPOINT="kill store.publish.after"`` kills the worker right after its first publication;
``"stop store.head.after 2 clean"`` stops it (SIGSTOP) after the second head read of a task named ``clean``.
``"list points.txt"`` does no harm: it writes down every point the worker passes, in the words that would arm it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from attrs import define, evolve, field

from perago_core.answers import Answer
from perago_core.failpoints import Edge, Failpoint, Reached
from perago_core.ports import Assignment, Coordination, ManagedOrchestrator
from perago_core.results import Result
from perago_core.values import Attempt, TaskSnapshot
from perago_worker.api.errors import UserError
from perago_worker.stack import Stack

VARIABLE = "PERAGO_FAILPOINT"
_ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_FORM = "'kill|stop PORT.METHOD.before|after [COUNT] [TASK]' or 'list FILE'"


class Watcher(Protocol):
    """Is told of every point the attempts of a worker pass."""

    def of(self, task: str) -> Reached:
        """Return the watcher of one attempt of this task; of what belongs to no task if it is empty."""
        ...


@define
class FailpointSignal:
    """What is to happen where. Counts over all attempts of the process, and happens once.

    ``quiet`` is held by every thread while it talks to the orchestrator or the coordination store, and by the one that
    stops the worker. A process that is stopped in the middle of a transaction of *another* thread, a poll, a heartbeat
    or a sign of life, keeps everybody out of an embedded one for as long as it sleeps: seen, "database is locked".
    """

    signal: signal.Signals
    point: Failpoint
    count: int = 1
    task: str | None = None
    quiet: threading.Lock = field(factory=threading.Lock, init=False, repr=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    @classmethod
    def parse(cls, words: str) -> FailpointSignal:
        """Read it from an environment variable."""
        parts = words.split()
        if not 2 <= len(parts) <= 4 or parts[0] not in _ACTIONS:  # noqa: PLR2004  the words of the form
            raise ValueError(f"{VARIABLE} must read {_FORM}, not {words!r}")
        count, task = 1, None
        for part in parts[2:]:
            if part.isdigit():
                count = int(part)
            else:
                task = part
        return cls(_ACTIONS[parts[0]], Failpoint.parse(parts[1]), count, task)

    def of(self, task: str) -> Reached:
        """Return the watcher of one attempt of this task."""

        def reached(point: Failpoint) -> None:
            if point == self.point and self.task in {None, task} and self._is_due():
                # To this very thread. A stop that is sent to the process is taken by its main thread, and until then
                # this one runs on: it was found stopped in the middle of the transaction of the *next* call.
                with self.quiet:
                    signal.pthread_kill(threading.get_ident(), self.signal)

        return reached

    def _is_due(self) -> bool:
        with self._lock:
            self.count -= 1
            return self.count == 0


@define
class Witness:
    """Writes down which points are passed, and how often each task has passed each by then."""

    file: Path
    quiet: threading.Lock = field(factory=threading.Lock, init=False, repr=False)
    _seen: Counter[tuple[Failpoint, str]] = field(factory=Counter[tuple[Failpoint, str]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    def of(self, task: str) -> Reached:
        """Return the watcher of one attempt of this task."""

        def reached(point: Failpoint) -> None:
            with self._lock, self.file.open("a", encoding="utf-8") as file:
                self._seen[point, task] += 1
                file.write(f"{point} {self._seen[point, task]} {task}".rstrip() + "\n")

        return reached


class WatchedOrchestrator:
    """Gives failpoints to the two calls that no attempt's conversation makes: polls and heartbeats."""

    def __init__(self, orchestrator: ManagedOrchestrator, watcher: FailpointSignal | Witness) -> None:
        self._orchestrator = orchestrator
        self._reached = watcher.of("")
        self._quiet = watcher.quiet

    def poll(self, worker_id: str, task_names: tuple[str, ...], limit: int) -> Answer[tuple[Assignment, ...]]:
        """Take up to ``limit`` tasks."""
        self._reached(Failpoint("orchestrator", "poll", Edge.BEFORE))
        with self._quiet:
            answer = self._orchestrator.poll(worker_id, task_names, limit)
        self._reached(Failpoint("orchestrator", "poll", Edge.AFTER))
        return answer

    def extend(self, attempt: Attempt) -> Answer[None]:
        """Send one heartbeat."""
        self._reached(Failpoint("orchestrator", "extend", Edge.BEFORE))
        with self._quiet:
            answer = self._orchestrator.extend(attempt)
        self._reached(Failpoint("orchestrator", "extend", Edge.AFTER))
        return answer

    def reload(self, workflow_id: str | None, task_id: str) -> Answer[TaskSnapshot | None]:
        """Read the task; the driver watches its own reloads."""
        with self._quiet:
            return self._orchestrator.reload(workflow_id, task_id)

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        """Send the result; only the driver does, and watches it."""
        with self._quiet:
            return self._orchestrator.report(attempt, result)

    def log(self, task_id: str, line: str, /) -> None:
        """Append to the task's log."""
        with self._quiet:
            self._orchestrator.log(task_id, line)


class QuietCoordination:
    """Whatever a coordination store can do, one call at a time, and none while the worker is being stopped."""

    def __init__(self, coordination: Coordination, watcher: FailpointSignal | Witness) -> None:
        for name in dir(coordination):
            if not name.startswith("_"):
                found = getattr(coordination, name)
                setattr(self, name, _quietly(found, watcher.quiet) if callable(found) else found)


def _quietly(call: Callable[..., Any], quiet: threading.Lock) -> Callable[..., Any]:
    def called(*words: object, **named: object) -> Any:  # noqa: ANN401  whatever the store answers
        with quiet:
            return call(*words, **named)

    return called


def failpoint_from(environment: Callable[[str], str | None] = os.environ.get) -> FailpointSignal | Witness | None:
    """Read what the environment asks for, if anything."""
    setting = environment(VARIABLE)
    if not setting:
        return None
    verb, _space, rest = setting.partition(" ")
    return Witness(Path(rest)) if verb == "list" and rest else FailpointSignal.parse(setting)


def watched(orchestrator: ManagedOrchestrator, watcher: FailpointSignal | Witness | None) -> ManagedOrchestrator:
    """Return the orchestrator with failpoints around its polls and heartbeats, if anybody watches."""
    return orchestrator if watcher is None else WatchedOrchestrator(orchestrator, watcher)


def quiet(stack: Stack, watcher: FailpointSignal | Witness | None) -> Stack:
    """Return the systems with a coordination store in whose calls nobody is stopped, if anybody watches."""
    if watcher is None or stack.coordination is None:
        return stack
    return evolve(stack, coordination=cast("Coordination", QuietCoordination(stack.coordination, watcher)))


def failpoint_from_environment() -> FailpointSignal | Witness | None:
    """Read what is to fail; a misspelt one is a mistake of whoever starts the worker, and found before anything is."""
    try:
        return failpoint_from()
    except ValueError as error:
        raise UserError(str(error)) from None
