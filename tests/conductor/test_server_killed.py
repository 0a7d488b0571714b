"""Conductor is killed at each phase of an attempt and comes back on the same database (S-01 to S-06, L-01).

Attempts are held, each at a phase of its own, in a worker that lives; then the server dies under all of them at once.
They go on while it is away, or when it is back. Each ends accepted or abandoned, what it says is what Conductor says,
the branch agrees, and whoever comes next can finish.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from attrs import define, evolve, field

from perago_core.failpoints import Failpoint, Reached
from perago_core.ports import Assignment
from perago_core.results import Acceptance, Completed, Outcome
from perago_core.values import TaskStatus
from perago_worker.api.registry import load_tasks
from perago_worker.config.load import load
from perago_worker.runtime.assembly import assemble
from perago_worker.runtime.attempt import Runtime
from tests.support.conductor.operating import PATIENCE, Operator, eventually
from tests.support.crash.conductor_project import ConductorProject
from tests.support.crash.judging import Line, judge_line
from tests.support.crash.project import done
from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.sharing import demand

#: The calls of a first publication, each with how manyth of its kind it is. The server dies right after them.
PHASES = (
    ("workspace.prepare.after", 1),
    ("workspace.run.after", 1),
    ("orchestrator.reload.after", 1),
    ("store.commit.after", 1),
    ("orchestrator.reload.after", 2),
    ("store.claim.after", 1),
    ("store.publish.before", 1),
    ("store.publish.after", 1),
    ("orchestrator.report.before", 1),
    ("orchestrator.report.after", 1),
    ("orchestrator.reload.after", 3),
)


@define
class Gate:
    """Holds an attempt at one of its calls until it is opened."""

    point: Failpoint
    count: int
    came: threading.Event = field(factory=threading.Event)
    opened: threading.Event = field(factory=threading.Event)

    def __call__(self, point: Failpoint) -> None:
        if point == self.point:
            self.count -= 1
            if self.count == 0:
                self.came.set()
                assert self.opened.wait(10 * PATIENCE)


@define
class Gates:
    """A gate for each task, by name."""

    gates: Mapping[str, Gate]

    def of(self, task: str) -> Reached:
        return self.gates[task]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Conductor]:
    demand(CONDUCTOR)
    with Conductor(folder=tmp_path / "conductor") as started:
        yield started


@pytest.mark.parametrize("wake", ["when it is back", "while it is away"])
def test_conductor_is_killed_at_each_phase_of_an_attempt(server: Conductor, tmp_path: Path, wake: str) -> None:
    names = tuple(f"t{number}" for number in range(len(PHASES)))
    gates = {name: Gate(Failpoint.parse(point), count) for name, (point, count) in zip(names, PHASES, strict=True)}
    with (
        closing(Operator(server.api, uuid.uuid4().hex[:12])) as operator,
        ConductorProject(tmp_path / "p", "auto", operator=operator) as project,
    ):
        lines = {name: _start(project, name) for name in names}
        settings = load(project.folder, {"tasks": names}, {})
        with assemble(settings, project.stack, load_tasks(settings, project.folder)) as made:
            runtime = made.runtime
            with ThreadPoolExecutor(len(names)) as pool:
                held = evolve(runtime, failpoint=Gates(gates))
                running = {name: pool.submit(held.run, _polled(runtime, name), runtime.clock.now()) for name in names}
                for name, gate in gates.items():
                    assert gate.came.wait(PATIENCE), f"{name} did not come to {gate.point}"
                server.kill()
                if wake == "when it is back":
                    server.start()
                for gate in gates.values():
                    gate.opened.set()
                outcomes = {name: each.result(10 * PATIENCE) for name, each in running.items()}
            if wake == "while it is away":
                server.start()
            for name, outcome in outcomes.items():
                _agree(project, lines[name], outcome)
                _finish(operator, runtime, lines[name], name)
        assert [sentence for line in lines.values() for sentence in judge_line(project, line)] == []
    if wake == "when it is back":
        late = {name for name, each in outcomes.items() if each.acceptance is not Acceptance.ACCEPTED}
        assert late == set(), "the server was back in time, and an attempt was not accepted"


def _start(project: ConductorProject, name: str) -> Line:
    project.add_task(name, {"PATIENCE": float(project.operator.response_timeout)})
    project.plan(name, "change")
    target, first = project.branch(name)
    return Line(target, first, project.start(name, (name,), target, first))


def _polled(runtime: Runtime, name: str) -> Assignment:
    (assignment,) = eventually(lambda: done(runtime.orchestrator.poll("worker-1", (name,), 1)), f"a task {name}")
    return assignment


def _agree(project: ConductorProject, line: Line, outcome: Outcome) -> None:
    """What the attempt believes is never more than what Conductor says and the branch shows."""
    if outcome.acceptance is not Acceptance.ACCEPTED:
        return
    assert isinstance(outcome.result, Completed)
    (attempt,) = project.view(line.workflow).attempts
    head = done(project.store.head(line.target))
    assert head is not None
    assert (attempt.status, attempt.ref, head.commit.ref) == (
        TaskStatus.COMPLETED,
        outcome.result.ref,
        outcome.result.ref,
    )


def _finish(operator: Operator, runtime: Runtime, line: Line, name: str) -> None:
    """Have whatever was given up run again until the workflow is over; silence is shortened by an operator."""
    while (workflow := operator.workflow(line.workflow))["status"] == "RUNNING":
        (*_, last) = operator.tasks(line.workflow)
        if last["status"] == "IN_PROGRESS":
            operator.update(line.workflow, last["taskId"], "FAILED", reasonForIncompletion="its worker is gone")
        else:
            runtime.run(_polled(runtime, name), runtime.clock.now())
    assert workflow["status"] == "COMPLETED", workflow.get("reasonForIncompletion")
