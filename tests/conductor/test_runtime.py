"""The whole runtime on a real Conductor: what an attempt costs, what it refuses, what it writes into the task's log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perago_core.values import TaskStatus
from tests.support.conductor.operating import Operator, eventually
from tests.support.crash.conductor_project import ConductorProject
from tests.support.crash.judging import Line, judge_line
from tests.support.crash.project import done
from tests.support.servers.conductor import Conductor
from tests.support.servers.faulty_proxy import LOSE_REQUEST, PASS, FaultyProxy, Handling, Request, let_pass

ROOT = Path(__file__).parents[2]
_TOO_LARGE = '''
from pathlib import Path

from perago_worker import Workspace, task

NAME = "breakable"


@task(name=NAME, workspace=Workspace(), retries=0)
def large(workspace: Path) -> str:
    """Publish something small, and return more than can be read back."""
    (workspace / "token").write_text("never to be seen", encoding="utf-8")
    return "x" * (3 << 20)
'''


@pytest.mark.parametrize(("policy", "backing"), [("auto", "atomic"), ("disable", "locked"), ("soft", "soft")])
def test_a_first_publication_asks_conductor_as_often_as_the_cost_table_says(
    conductor_server: Conductor, operator: Operator, tmp_path: Path, policy: str, backing: str
) -> None:
    """One request for a result; a reload is one read of the task and one of its workflow (ADR 18)."""
    with (
        FaultyProxy(conductor_server.url) as proxy,
        ConductorProject(tmp_path / "p", policy, operator=operator) as project,
    ):
        project.add_task("clean", {"PATIENCE": 600.0})
        project.plan("clean", "change")
        target, first = project.branch("main")
        workflow = project.start("clean", ("clean",), target, first)
        beats = "budget.heartbeat_interval=100"  # a heartbeat is no part of a publication
        worker = project.worker(settings=(f"orchestrator.url={proxy.url}/api", beats), until_idle=True)
        assert operator.until_ended(workflow)["status"] == "COMPLETED", worker.said()
        assert worker.drain() == 0, worker.said()
        asked = proxy.counts(shape)
    expected = calls_of_a_first_publication(backing)
    assert asked["read the task"] + asked["report"] == expected
    assert asked["read the workflow"] == asked["read the task"]
    assert asked["report"] == 1
    assert asked["log"] == 2, "what was written, and the outcome, in a line each"


def shape(request: Request) -> str:
    """Name what a request is for."""
    names = {
        r"GET /api/tasks/poll/": "poll",
        r"POST /api/tasks/[^/]+/log": "log",
        r"POST /api/tasks$": "report",
        r"GET /api/tasks/[^/]+$": "read the task",
        r"GET /api/workflow/[^/]+$": "read the workflow",
    }
    line = f"{request.method} {request.path}"
    return next((name for pattern, name in names.items() if re.match(pattern, line)), line)


def calls_of_a_first_publication(backing: str) -> int:
    """Give how often the core asks the orchestrator, from the generated table."""
    table = (ROOT / "specs" / "cost.md").read_text(encoding="utf-8")
    (row,) = (line for line in table.splitlines() if line.startswith(f"| first publish | `{backing}` | on |"))
    return int(row.split("|")[4])


def test_a_result_too_large_is_refused_before_anything_is_published(operator: Operator, tmp_path: Path) -> None:
    with ConductorProject(tmp_path / "p", "auto", operator=operator) as project:
        source = tmp_path / "large.py"
        source.write_text(_TOO_LARGE, encoding="utf-8")
        project.add_task("large", source=source)
        target, first = project.branch("main")
        workflow = operator.start(("large",), target, first, retries=0)
        worker = project.worker(until_idle=True)
        ended = operator.until_ended(workflow)
        assert worker.drain() == 0, worker.said()
        head = done(project.store.head(target))
        assert head is not None
        assert (ended["status"], head.commit.ref) == ("FAILED", first)
        (task,) = ended["tasks"]
        assert "3080192 bytes" in task["reasonForIncompletion"]
        assert any("3080192 bytes" in line for line in operator.logs(task["taskId"]))


def test_past_its_deadline_an_attempt_publishes_nothing_even_if_conductor_still_takes_it_for_the_owner(
    conductor_server: Conductor, operator: Operator, tmp_path: Path
) -> None:
    """Stock Conductor notices after up to minutes that heartbeats have stopped to come; the worker knows better."""
    operator.response_timeout = timeout = 6
    beats: list[Request] = []

    def only_the_first_arrives(request: Request) -> Handling:
        if b'"extendLease": true' not in request.body:
            return PASS
        beats.append(request)
        return PASS if len(beats) == 1 else LOSE_REQUEST

    with (
        FaultyProxy(conductor_server.url, only_the_first_arrives) as proxy,
        ConductorProject(tmp_path / "p", "auto", operator=operator) as project,
    ):
        project.add_task("clean", {"PATIENCE": float(timeout)})
        project.plan("clean", "change")
        target, first = project.branch("main")
        workflow = project.start("clean", ("clean",), target, first, seconds=timeout + 4.0)
        worker = project.worker(settings=(f"orchestrator.url={proxy.url}/api", "worker.nudge=false"))
        (late,) = eventually(lambda: project.view(workflow).attempts[:1], "an attempt")

        def outcome() -> list[str]:
            return [line for line in operator.logs(late.task_id) if line.startswith("attempt ")]

        (line,) = eventually(outcome, "the outcome in the task's log")
        head = done(project.store.head(target))
        assert head is not None
        assert len(beats) > 1
        assert ("completed" in line, head.commit.ref) == (False, first), line
        proxy.script = let_pass
        assert operator.until_ended(workflow)["status"] == "COMPLETED"
        assert worker.drain() == 0, worker.said()
        assert project.view(workflow).attempts[0].status is not TaskStatus.COMPLETED
        assert judge_line(project, Line(target, first, workflow)) == []
