"""Leaves abandoned publications behind: ``python -m tests.crash.abandoning PROJECT MODULES COUNT``.

Takes ``COUNT`` tasks one after the other, gives each up right after its publication, and dies of SIGKILL with all of
them in its hands. One process instead of one for each: what they leave behind is the same.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from attrs import evolve

from perago_core.answers import Done
from perago_core.failpoints import Edge, Failpoint, Reached
from perago_worker.api.registry import load_tasks
from perago_worker.config.load import load
from perago_worker.runtime.assembly import assemble
from perago_worker.stack import open_stack

_POINT = Failpoint("store", "publish", Edge.AFTER)


class Died(BaseException):
    """Not an ``Exception``: nobody in between may think that the call has failed."""


class AfterPublication:
    """Ends each attempt where a kill would end it."""

    def of(self, task: str) -> Reached:
        """Return the watcher of one attempt."""
        del task

        def reached(point: Failpoint) -> None:
            if point == _POINT:
                raise Died

        return reached


def main(project: str, modules: str, count: str) -> None:
    """Abandon so many publications, then die."""
    settings = load(Path(project), {"tasks": modules})
    tasks = load_tasks(settings, Path(project))
    stack = open_stack(settings)
    with assemble(settings, stack, tasks) as assembled:
        runtime = evolve(assembled.runtime, failpoint=AfterPublication())
        for _ in range(int(count)):
            polled = stack.orchestrator.poll(runtime.node.worker_id, tuple(tasks), 1)
            assert isinstance(polled, Done), polled
            (assignment,) = polled.value
            with suppress(Died):
                outcome = runtime.run(assignment, stack.clock.now())
                raise SystemExit(f"nothing was published: {outcome}")
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
