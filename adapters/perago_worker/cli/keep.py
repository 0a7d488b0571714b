"""Pipelines that a worker keeps running: when a run has ended, and ``every`` seconds are over, it starts the next.

Each run is an ordinary one: a logical task with attempts of its own, fenced, claimed, published and reported, and
worked off by this worker or another. So a stream that never ends is batches of which each is published or not, and two
workers that start the same batch are two runs at one head, of which the second to publish is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from perago_core.errors import one_line
from perago_core.pipelines import UNDER_WAY, OrchestratorError
from perago_worker.api.errors import UserError
from perago_worker.cli.project import Project
from perago_worker.cli.run import make_ready
from perago_worker.logger import log
from perago_worker.runtime.worker import Worker

#: Seconds that what could not be started is waited with at most.
_PATIENCE = 60.0


@contextmanager
def keeping(project: Project, worker: Worker) -> Generator[None]:
    """Start runs of the pipelines that are kept, until the worker drains or the block ends; what runs goes on."""
    ended = threading.Event()
    kept = {name: each.every for name, each in project.settings.pipelines.items() if each.every is not None}
    helpers = [
        threading.Thread(target=_keep, args=(project, worker, name, every, ended), name=f"keep {name}")
        for name, every in kept.items()
    ]
    for each in helpers:
        each.start()
    try:
        yield
    finally:
        ended.set()
        for each in helpers:
            each.join()


def _keep(project: Project, worker: Worker, name: str, every: float, ended: threading.Event) -> None:
    pause = every
    while not ended.wait(pause) and not worker.draining:
        try:
            if not project.pipelines().newest(1, name=name, states=UNDER_WAY):
                log.info("started the next run of %s: %s", name, make_ready(project, name, {}).begin())
            pause = every
        except (UserError, OrchestratorError) as error:
            pause = min(max(2 * pause, 1.0), _PATIENCE)
            log.warning("no run of %s was started, next try in %g s: %s", name, pause, one_line(str(error)))
