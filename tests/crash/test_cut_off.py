"""A worker really cut off its etcd: it loses nothing that it has, takes nothing new, and costs nobody a retry.

Its requests go through a proxy that loses all of them for as long as it is told to; everybody else goes straight.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from perago_core.values import TaskStatus
from tests.support.crash.judging import Line, judge_line
from tests.support.crash.project import CrashProject, WorkerProcess, wait_for
from tests.support.crash.seeds import FULL
from tests.support.etcd.server import running
from tests.support.servers.faulty_proxy import LOSE_REQUEST, FaultyProxy, always, let_pass

STARTED_MEANWHILE = 3
#: Seconds it stays cut off after its body has ended, so that it needs etcd and does not get it.
CUT_OFF_FOR = 3.0


def on_etcd(address: str) -> tuple[str, ...]:
    return ("coordination.kind=etcd", f"coordination.endpoints={address}")


def line_of(project: CrashProject, task: str, branch: str) -> Line:
    place = project.branch(branch)
    return Line(*place, project.start(branch, (task,), *place))


def ended(project: CrashProject, line: Line, worker: WorkerProcess) -> None:
    wait_for(lambda: not project.view(line.workflow).running, "end of a workflow", worker)


@pytest.mark.parametrize("policy", ["disable", "auto"] if FULL else ["disable"])
def test_a_worker_cut_off_etcd_costs_nobody_a_retry_and_takes_nothing_meanwhile(tmp_path: Path, policy: str) -> None:
    """Seen before: one that was cut off for 15 s ran 13 bodies to their end for nothing, and used up all retries."""
    (tmp_path / "etcd").mkdir()
    with (
        running(tmp_path / "etcd") as etcd,
        FaultyProxy(etcd.endpoint) as proxy,
        CrashProject(tmp_path / "p", policy) as project,
    ):
        # No second attempt: whatever cost one would fail the workflow.
        project.add_task("task", {"RETRIES": 0, "PATIENCE": 60.0})
        project.plan("task", "wait")
        under_way = line_of(project, "task", "under-way")
        cut = project.worker(capacity=2, settings=on_etcd(proxy.url))
        (task,) = wait_for(lambda: [each for each in project.orchestrator.open_tasks() if each.worker_id], "work", cut)
        wait_for(lambda: "-> BODY" in cut.said(), "body", cut)

        proxy.script = always(LOSE_REQUEST)
        wait_for(lambda: "taking no task" in cut.said(), "worker that notices", cut)
        free = project.worker(settings=on_etcd(etcd.endpoint))
        project.plan("task", "change")
        meanwhile = [line_of(project, "task", f"meanwhile-{number}") for number in range(STARTED_MEANWHILE)]
        for line in meanwhile:
            ended(project, line, free)
        proxy.forget()
        wait_for(lambda: len(proxy.seen) > 1, "worker that asks again", cut)
        time.sleep(CUT_OFF_FOR)
        assert project.view(under_way.workflow).running, "it waits for etcd with its result in hand"

        proxy.script = let_pass
        ended(project, under_way, cut)
        assert [each.drain() for each in (cut, free)] == [0, 0]
        for line in (under_way, *meanwhile):
            assert judge_line(project, line) == []
            (attempt,) = project.view(line.workflow).attempts
            assert attempt.status is TaskStatus.COMPLETED
            assert (attempt.worker_id == task.worker_id) is (line is under_way)
