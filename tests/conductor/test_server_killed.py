"""Conductor is killed at each phase of an attempt and comes back on the same database (S-01 to S-06, L-01).

Each worker stands still at a phase of its own; then the server dies, for all of them at once. They go on while it is
away, or when it is back. Every attempt ends accepted or abandoned, the branch agrees, and a healthy worker can finish.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conductor.operating import Operator
from tests.conductor.yard import ConductorYard
from tests.crash.judging import Line, judge_line
from tests.crash.yard import WorkerProcess, wait_for
from tests.servers.conductor import CONDUCTOR, Conductor
from tests.servers.sharing import demand

#: The calls of a first publication that are about the task, and those between which it is published.
PHASES = (
    "orchestrator.poll.after",
    "orchestrator.extend.after",
    "workspace.run.after",
    "orchestrator.reload.after 1",
    "store.commit.after",
    "orchestrator.reload.after 2",
    "store.claim.after",
    "store.publish.before",
    "store.publish.after",
    "orchestrator.report.before",
    "orchestrator.report.after",
    "orchestrator.reload.after 3",
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Conductor]:
    demand(CONDUCTOR)
    with Conductor(folder=tmp_path / "conductor") as started:
        yield started


@pytest.mark.parametrize("wake", ["when it is back", "while it is away"])
def test_conductor_is_killed_at_each_phase_of_an_attempt(server: Conductor, tmp_path: Path, wake: str) -> None:
    with closing(Operator(server.api, uuid.uuid4().hex[:12])) as operator:
        # Back before anybody is given up, the attempts go on; away for longer than that, they are given up.
        operator.response_timeout = 600 if wake == "when it is back" else 20
        with ConductorYard(tmp_path / "p", "auto", operator=operator) as yard:
            plays = [_play(yard, number, operator.response_timeout) for number in range(len(PHASES))]
            victims = [
                yard.worker(f"t{number}", fate=f"stop {phase}{_task_of(phase, number)}")
                for number, phase in enumerate(PHASES)
            ]
            for phase, victim in zip(PHASES, victims, strict=True):
                wait_for(victim.is_stopped, f"worker that stands at {phase}", victim)
            server.kill()
            if wake == "while it is away":
                _wake(victims)
            server.start()
            _wake(victims)
            for line in plays:
                _finish(yard, operator, line, victims)
            for victim in victims:
                assert victim.drain() == 0, victim.said()
            assert [sentence for line in plays for sentence in judge_line(yard, line)] == []
            if wake == "when it is back":
                retried = [line.workflow for line in plays if len(yard.view(line.workflow).attempts) > 1]
                assert retried == [], "an attempt was given up although its server was back in time"


def _play(yard: ConductorYard, number: int, patience: float) -> Line:
    """Give each phase a task, a branch and a workflow of its own."""
    name = f"t{number}"
    yard.add_task(name, {"PATIENCE": float(patience)})
    yard.plan(name, "change")
    target, first = yard.branch(name)
    return Line(target, first, yard.start(name, (name,), target, first, seconds=2.5))


def _task_of(phase: str, number: int) -> str:
    """Polls and heartbeats belong to no task; each worker has but one anyway."""
    return "" if ".poll." in phase or ".extend." in phase else f" t{number}"


def _wake(victims: list[WorkerProcess]) -> None:
    for victim in victims:
        victim.signal(signal.SIGCONT)


def _finish(yard: ConductorYard, operator: Operator, line: Line, victims: list[WorkerProcess]) -> None:
    """Wait for the end; the workers themselves take what was given up, since they still poll."""
    ended = operator.until_ended(line.workflow)
    assert ended["status"] == "COMPLETED", (
        ended.get("reasonForIncompletion"),
        [each.said()[-2000:] for each in victims],
    )
    assert yard.view(line.workflow).succeeded
