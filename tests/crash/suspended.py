"""A worker on a machine that sleeps for an hour between taking a task and working on it; prints what came of it.

A process of one thread enters a time namespace in which the clock that counts sleep is an hour ahead and the one that
does not is where it was: exactly what a suspended machine does to both. It needs rights over namespaces.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path

from attrs import evolve

from perago_core.answers import Done
from perago_core.ports import Assignment
from perago_core.values import CommitRef
from perago_worker.api.registry import Registry, load_tasks
from perago_worker.config.load import load
from perago_worker.config.settings import PipelineSettings, StepSettings
from perago_worker.runtime.assembly import assemble
from perago_worker.stack import Stack, pipelines_of
from tests.worker.embedded import Embedded, Faulty, always
from tests.worker.projects import MAIN, TASKS, create, new_project

HOUR = 3600
_NEW_TIME = 0x80


def sleep_an_hour() -> None:
    """Have the machine sleep, as far as this process can tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_TIME):
        raise OSError(ctypes.get_errno(), "no time namespace")
    Path("/proc/self/timens_offsets").write_text(f"boottime {HOUR} 0\n", encoding="ascii")
    inside = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    if libc.setns(inside, _NEW_TIME):
        raise OSError(ctypes.get_errno(), "the time namespace cannot be entered")
    os.close(inside)


def play(folder: Path) -> dict[str, object]:
    """Take a task, sleep, work on it; then have it worked on again by whoever is handed it next."""
    with new_project(folder, TASKS) as project:
        settings = load(folder, {}, {})
        tasks, stack = load_tasks(settings, folder), project.stack()
        pipelines_of(stack).register(tasks.values())
        first = create(stack)
        before = time.monotonic()
        taken_at = stack.clock.now()
        workflow, taken = _taken(stack, tasks, first)
        sleep_an_hour()
        assert time.monotonic() - before < HOUR
        with assemble(settings, stack, tasks) as made:
            awake = Embedded(project, stack, tasks, made, first)
            # As an orchestrator that has not looked at its time-outs yet: only the worker's own clock can say.
            slow = Faulty(stack.orchestrator, reload=always(Done(taken.snapshot)), extend=always(Done(None)))
            late = evolve(made.runtime, orchestrator=slow).run(taken, taken_at)
            untouched = awake.head() == first
            again = awake.run()
            view = awake.words.view(workflow)
        return {
            "late": None if late.silence is None else late.silence.classification.value,
            "untouched": untouched,
            "again": str(again.acceptance),
            "ended": view is not None and view.succeeded,
        }


def _taken(stack: Stack, tasks: Registry, first: CommitRef) -> tuple[str, Assignment]:
    """Start a workflow, and take its task."""
    steps = (StepSettings(task="write"),)
    pipeline = PipelineSettings(repository=MAIN.repository, branch=MAIN.branch, steps=steps)
    workflow = pipelines_of(stack).start("write", pipeline, first)
    polled = stack.orchestrator.poll("tester", tuple(tasks), 1)
    assert isinstance(polled, Done)
    (taken,) = polled.value
    return workflow, taken


if __name__ == "__main__":
    print(json.dumps(play(Path(sys.argv[1]))))  # noqa: T201  what the test reads
