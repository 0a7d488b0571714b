"""SIGTERM under load on a real Conductor, where the SDK's own runner kills bodies and drops results (N-13)."""

from __future__ import annotations

import signal
from pathlib import Path

from perago_core.pipelines import AttemptView
from perago_core.values import TaskStatus
from tests.support.conductor.operating import Operator
from tests.support.crash.conductor_project import ConductorProject
from tests.support.crash.judging import Line, judge_line
from tests.support.crash.project import wait_for

#: Bodies last longer than Conductor waits without a heartbeat: that they are accepted shows that their hearts beat on.
#: Both well above what a busy machine may stall a heart for; below the project's drain limit.
TIMEOUT = 20
SECONDS = 26.0


def test_sigterm_under_load_strands_no_task_kills_no_body_and_lets_hearts_beat(
    operator: Operator, tmp_path: Path
) -> None:
    operator.response_timeout = TIMEOUT
    with ConductorProject(tmp_path / "p", "auto", operator=operator) as project:
        project.add_task("slow", {"PATIENCE": float(TIMEOUT)})
        project.plan("slow", "change")
        lines: list[Line] = []
        for number in range(5):
            target, first = project.branch(f"b{number}")
            lines.append(Line(target, first, project.start("slow", ("slow",), target, first, seconds=SECONDS)))

        def attempts(status: TaskStatus) -> list[AttemptView]:
            operator.decide()  # a task whose heart did not beat is given up now, not in a minute
            return [each for line in lines for each in project.view(line.workflow).attempts if each.status is status]

        worker = project.worker(capacity=2)
        wait_for(lambda: len(attempts(TaskStatus.IN_PROGRESS)) == 2, "two tasks that run", worker)
        worker.signal(signal.SIGTERM)
        wait_for(lambda: "draining" in worker.said(), "drain", worker)
        wait_for(lambda: len(attempts(TaskStatus.COMPLETED)) == 2, "two results of a draining worker")
        assert worker.wait() == 0, worker.said()
        assert len(attempts(TaskStatus.COMPLETED)) == 2
        assert len(attempts(TaskStatus.SCHEDULED)) == 3, "a task was polled and is run by nobody"
        assert attempts(TaskStatus.TIMED_OUT) == [], "a heart stopped while its body went on"
        finisher = project.worker(capacity=3, until_idle=True)
        for line in lines:
            operator.until_ended(line.workflow)
        assert finisher.drain() == 0, finisher.said()
        assert [sentence for line in lines for sentence in judge_line(project, line)] == []
        for line in lines:
            (attempt,) = project.view(line.workflow).attempts
            assert any("completed" in each for each in operator.logs(attempt.task_id)), "the outcome is in the task log"
