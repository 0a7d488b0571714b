"""How long it takes from the SIGKILL of a worker until its task is handed out again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from perago_core.pipelines import AttemptView
from perago_core.values import TaskStatus
from tests.conductor.deployment import Deployment, new_deployment
from tests.support.conductor.operating import eventually
from tests.worker.projects import create, running_worker

#: Seconds of silence after which Conductor should give an attempt up, and for which a worker beats before it is killed.
PATIENCE = 3
_BEATS = 2 * PATIENCE + 1


def failover(folder: Path, url: str, *, nudge: bool, limit: float) -> float:
    """Measure it once, in seconds; ``limit`` if it took longer."""
    with new_deployment(folder, url, patience=PATIENCE) as deployment:
        deployment.register()
        first = create(deployment.stack)
        name = deployment.named("sleep")
        workflow = deployment.words().start(name, deployment.settings.pipelines[name], first)

        def attempts() -> list[AttemptView]:
            view = deployment.words().view(workflow)
            assert view is not None
            return [each for each in view.attempts if each.started_at]

        with _worker(deployment, nudge=nudge) as victim:
            (begun,) = eventually(attempts, "the victim to begin")
            with _worker(deployment, nudge=nudge) as peer:
                log = deployment.project.folder / "worker.log"
                eventually(lambda: log.read_text().count(": backing ") == 2, "the peer to look out")
                # Past its first response time-out: what is noticed late is the silence after that.
                time.sleep(_BEATS)
                assert peer.poll() is None
                held = attempts()[-1]
                owned = (held.task_id, held.status) == (begun.task_id, TaskStatus.IN_PROGRESS)
                assert owned, "the victim had lost its task before it was killed"
                victim.kill()
                killed = time.monotonic()
                while (now := attempts()) and now[-1].task_id == begun.task_id:
                    if time.monotonic() - killed > limit:
                        return limit
                    time.sleep(0.05)
                seconds = time.monotonic() - killed
                assert now[0].status is TaskStatus.TIMED_OUT
                if nudge:  # else it would be luck: at times Conductor notices by itself
                    eventually(lambda: "given up after a nudge" in log.read_text(), "word of a nudge")
                return seconds


def _worker(deployment: Deployment, *, nudge: bool) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return running_worker(deployment.project.folder, "--set", f"worker.nudge={str(nudge).lower()}")


def failovers(folder: Path, url: str, delays: Iterable[float], *, patience: int) -> list[float]:
    """Kill a worker each time it has held a task for so long; measure until another worker has begun it again.

    Three workers share the work, and a killed one is replaced at once, so that there is always somebody to notice.
    """
    with new_deployment(folder, url, patience=patience) as deployment, ExitStack() as ending:
        deployment.register()
        first = create(deployment.stack)
        name = deployment.named("sleep")
        workers: dict[int, subprocess.Popen[bytes]] = {}
        for _ in range(3):
            started = ending.enter_context(_worker(deployment, nudge=True))
            workers[started.pid] = started
        log = deployment.project.folder / "worker.log"
        eventually(lambda: log.read_text().count(": backing ") == len(workers), "three workers to look out")
        measured: list[float] = []
        for delay in delays:
            workflow = deployment.words().start(name, deployment.settings.pipelines[name], first)
            held = eventually(partial(_begun, deployment, workflow, 1), "a worker to begin")
            time.sleep(delay)
            victim = workers.pop(int(held.worker_id.split("-")[-2]))
            victim.kill()
            killed = time.monotonic()
            replacement = ending.enter_context(_worker(deployment, nudge=True))
            workers[replacement.pid] = replacement
            eventually(partial(_begun, deployment, workflow, 2), "another worker to begin")
            measured.append(time.monotonic() - killed)
            deployment.words().stop(workflow, "measured")
        return measured


def _begun(deployment: Deployment, workflow: str, number: int) -> AttemptView | None:
    view = deployment.words().view(workflow)
    assert view is not None
    begun = [each for each in view.attempts if each.started_at]
    return begun[number - 1] if len(begun) >= number else None
