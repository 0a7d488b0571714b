"""Trivial tasks per second on a real Conductor: our poll loop beside the SDK's own runner, on one server in one run.

Both call a function in a thread and report what it gave. In flight are the functions: both have the next task in hand
while the result of the last is on its way, the SDK's from the same request, ours from one beside it. The server's own
clock says how long the tasks took, from the first that was handed out to the last that ended, so neither starting up
nor watching is counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import frozen

from perago_clock import MachineClock
from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conformance.support import MAIN, attempt_of
from perago_core.answers import Done
from perago_core.ports import Assignment
from perago_core.results import Acceptance, Completed, Outcome
from perago_core.values import Backing, CommitRef
from perago_worker.runtime.bootstrap import worker_id
from perago_worker.runtime.worker import Worker
from tests.support.conductor.operating import Operator, eventually
from tests.support.servers.conductor import CONDUCTOR, Conductor

TASKS = 120
ROUNDS = 3
IN_FLIGHT = (1, 8)
FIRST = CommitRef("a" * 40)
_ROOT = Path(__file__).parents[2]

#: The SDK's runner as its documentation starts it, in a process of its own because it takes over its process.
_RUNNER = """
import sys
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker

def trivial(task):
    return {"rows": 3}

if __name__ == "__main__":
    url, domain, threads = sys.argv[1:]
    worker = Worker("trivial", trivial, domain=domain, thread_count=int(threads), poll_interval=1)
    with TaskHandler([worker], Configuration(server_api_url=url), scan_for_annotated_workers=False) as handler:
        handler.start_processes()
        handler.join_processes()
"""


@frozen
class Rates:
    """Tasks per second: of our loop and of the SDK's runner, the best of several rounds that took turns."""

    in_flight: int
    ours: float
    theirs: float


def figures(server: Conductor, folder: Path) -> Iterator[Rates]:
    """Measure both at each number of tasks in flight."""
    for in_flight in IN_FLIGHT:
        ours, theirs = 0.0, 0.0
        for _ in range(ROUNDS):
            ours = max(ours, _rate(server, _ours, in_flight, folder))
            theirs = max(theirs, _rate(server, _theirs, in_flight, folder))
        yield Rates(in_flight, ours, theirs)


def _rate(server: Conductor, work: Any, in_flight: int, folder: Path) -> float:  # noqa: ANN401  one of the two below
    """Start workflows of one trivial task, have them worked off, and give tasks per second by the server's clock."""
    with closing(Operator(server.api, uuid.uuid4().hex[:12])) as operator:
        for _ in range(TASKS):
            operator.start(("trivial",), MAIN, FIRST)
        work(operator, in_flight, folder)
        tasks = [operator.tasks(workflow)[0] for workflow in operator.started]
    assert all(each["status"] == "COMPLETED" for each in tasks)
    begun: int = min(each["startTime"] for each in tasks)
    ended: int = max(each["endTime"] for each in tasks)
    return TASKS / ((ended - begun) / 1000)


def _all_ended(operator: Operator) -> bool:
    """Ask as rarely as can be: asking costs the server what is being measured."""
    running = operator.call("GET", f"/workflow/running/suite-{operator.domain}").json()
    threading.Event().wait(0.3)
    return not running


def _ours(operator: Operator, in_flight: int, _folder: Path) -> None:
    with closing(ConductorOrchestrator(operator.url, domain=operator.domain)) as port:

        def run(assignment: Assignment, _polled_at: float, free: Callable[[], object]) -> Outcome:
            free()  # the body has run; as the runtime does
            attempt = attempt_of(assignment, uuid.uuid4().hex, Backing.ATOMIC)
            result = Completed(FIRST, json.dumps({"rows": 3}), attempt.execution)
            assert isinstance(port.report(attempt, result), Done)
            return Outcome(result, Acceptance.UNREAD, Backing.ATOMIC)

        worker = Worker(
            port,
            run,
            lambda _why: None,
            clock=MachineClock(),
            worker_id=worker_id(),
            task_names=("trivial",),
            capacity=in_flight,
            poll_interval=0.2,
            drain_limit=60.0,
        )
        thread = threading.Thread(target=worker.run)
        thread.start()
        eventually(lambda: _all_ended(operator), "our loop to finish")
        worker.drain()
        thread.join()


def _theirs(operator: Operator, in_flight: int, folder: Path) -> None:
    script = folder / "runner.py"
    script.write_text(_RUNNER, encoding="utf-8")
    command = [sys.executable, str(script), operator.url, operator.domain, str(in_flight)]
    environment = {**os.environ, "CONDUCTOR_LOG_LEVEL": "ERROR"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603  ours
        try:
            eventually(lambda: _all_ended(operator), "the SDK's runner to finish")
        finally:
            process.terminate()


def main() -> None:
    """Print the figures, if there is a server."""
    if not CONDUCTOR.is_there():
        print(f"Conductor {CONDUCTOR.version} was not obtained: make servers")
        return
    with tempfile.TemporaryDirectory() as folder, Conductor(folder=Path(folder) / "conductor") as server:
        for each in figures(server, Path(folder)):
            ratio = each.ours / each.theirs
            print(
                f"trivial tasks on Conductor, {each.in_flight} in flight {each.ours:6.1f}/s = "
                f"{ratio:4.2f}x the SDK's runner ({each.theirs:.1f}/s)"
            )


if __name__ == "__main__":
    main()
