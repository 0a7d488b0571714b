"""Several targets in one task: published together and adopted together, or refused with what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perago_conformance.support import attempt_at, done, plan_for, stage
from perago_core.answers import Answer, Done
from perago_core.ledger import Audit, SettlementKind
from perago_core.ledger.records import AUDITS
from perago_core.machine.codec import loads
from perago_core.results import Classification, Completed, Failed
from perago_core.values import Target
from perago_worker.api.errors import UserError
from perago_worker.api.task import Workspace, task
from perago_worker.config.load import SettingsError, load
from perago_worker.folders.several import MARK
from perago_worker.runtime.assembly import assemble
from tests.worker.embedded import Died, Embedded, Faulty, embedded
from tests.worker.isolated import commits, files
from tests.worker.projects import IMPATIENT, MAIN, Project, create, new_project

REPORTS = Target("lake", "reports")
TASKS = (
    IMPATIENT
    + '''

@task(name="report", workspace=Workspace(prefix="data", targets=["reports"]), retries=2, retry_delay=0.1,
      response_timeout=3)
def report(workspace: Path, params: Params) -> Sum:
    """Write a row, and a report of all rows to another branch."""
    (workspace / "row.txt").write_text(params.text)
    (workspace / "reports" / "all.txt").write_text(f"report of {params.text}")
    (workspace / "reports" / "old.txt").unlink(missing_ok=True)
    return Sum(count=1)


@task(name="only_report", workspace=Workspace(targets=["reports"]), retries=2, retry_delay=0.1, response_timeout=3)
def only_report(workspace: Path) -> Sum:
    """Write to the other branch only."""
    (workspace / "reports" / "all.txt").write_text("alone")
    return Sum(count=1)


@task(name="look", workspace=Workspace(targets=["reports"]), retries=0, response_timeout=3)
def look(workspace: Path) -> Sum:
    """Change nothing."""
    return Sum(count=len(list((workspace / "reports").iterdir())))
'''
)
MORE = """
[targets]
reports = "lake/reports"

[pipelines.reporting]
repository = "lake"
steps = [{ task = "report", params = { text = "one" } }]

[pipelines.looking]
repository = "lake"
steps = [{ task = "look" }]
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "project", TASKS, MORE) as made:
        create(made.stack, REPORTS)
        yield made


def audits(worker: Embedded) -> list[Audit]:
    coordination: Any = worker.stack.coordination
    listed: Answer[Any] = coordination.list(AUDITS)
    assert isinstance(listed, Done)
    return [loads(each.value, Audit) for each in listed.value]


def test_a_run_publishes_to_both_branches_and_the_books_name_both(tmp_path: Path) -> None:
    with new_project(tmp_path / "project", TASKS, MORE) as project:
        ran = project.perago("run", "reporting")
        assert ran.code == 0, ran.out
        stack = project.stack()
        main, reports = commits(stack)[0], commits(stack, REPORTS)[0]
        shown = files(stack, main.ref)
        assert shown.pop(f"data/{MARK}") is not None
        assert shown == {"data/row.txt": b"one"}
        assert files(stack, reports.ref) == {"all.txt": b"report of one"}
        audit = project.perago("audit", "--json").data
        assert json.dumps(audit).count("lake/reports") >= 1


def test_what_changes_only_the_further_target_moves_the_first_too(worker: Embedded) -> None:
    worker.start("only_report")
    outcome = worker.run()
    assert isinstance(outcome.result, Completed), outcome
    main, reports = commits(worker.stack)[0], commits(worker.stack, REPORTS)[0]
    assert outcome.result.ref == main.ref
    mark = json.loads(files(worker.stack, main.ref)[MARK])
    assert mark["from"] == {str(MAIN): worker.first, str(REPORTS): reports.parents[0]}
    (audit,) = audits(worker)
    assert audit.kind is SettlementKind.ACCEPTED
    assert [(each.target, each.after) for each in audit.movements] == [(MAIN, main.ref), (REPORTS, reports.ref)]
    assert worker.names() == []


def test_a_task_that_changes_nothing_moves_neither(worker: Embedded) -> None:
    worker.start("look")
    outcome = worker.run()
    assert isinstance(outcome.result, Completed), outcome
    assert outcome.result.ref == worker.first
    assert len(commits(worker.stack)) == len(commits(worker.stack, REPORTS)) == 1


def test_a_retry_adopts_what_was_published_to_both_and_computes_nothing(worker: Embedded) -> None:
    def die(*_words: object) -> object:
        raise Died

    worker.start("report", text="first")
    assignment = worker.poll()
    with pytest.raises(Died):
        worker.run(assignment, orchestrator=Faulty(worker.orchestrator, report=die))
    published = commits(worker.stack)[0], commits(worker.stack, REPORTS)[0]
    outcome = worker.run(worker.poll())
    assert isinstance(outcome.result, Completed), outcome
    assert outcome.adopted
    assert (commits(worker.stack)[0], commits(worker.stack, REPORTS)[0]) == published
    assert worker.project.perago("recover", "lake/main").code == 0
    assert worker.project.perago("recover", "lake/reports").code == 0
    assert SettlementKind.ACCEPTED_LOST not in {each.kind for each in audits(worker)}


def test_a_further_target_that_moved_meanwhile_costs_an_attempt_and_nothing_else(worker: Embedded) -> None:
    store: Any = worker.stack.store

    def after_a_stranger(real: Any, *words: object) -> Any:  # noqa: ANN401  as the port
        if len(commits(worker.stack, REPORTS)) == 1:
            harness: Any = SimpleNamespace(port=store)
            stranger = attempt_at(commits(worker.stack, REPORTS)[0].ref, target=REPORTS)
            done(store.publish(plan_for(harness, stranger, stage(harness, stranger, {"all.txt": b"stranger"}))))
        return real(*words)

    worker.start("report", text="late")
    refused = worker.run(worker.poll(), store=Faulty(store, commit=after_a_stranger))
    assert isinstance(refused.result, Failed)
    assert refused.result.refusal.classification is Classification.HEAD_ELSEWHERE
    assert worker.head() == worker.first
    assert files(worker.stack, commits(worker.stack, REPORTS)[0].ref) == {"all.txt": b"stranger"}
    again = worker.run(worker.poll())
    assert isinstance(again.result, Completed)
    assert files(worker.stack, commits(worker.stack, REPORTS)[0].ref) == {"all.txt": b"report of late"}


def started_with(folder: Path, tasks: str, more: str) -> str:
    """Give why a worker does not start."""
    with new_project(folder, tasks, more) as project, pytest.raises((UserError, SettingsError)) as caught:
        _start(project)
    return str(caught.value)


def _start(project: Project) -> None:
    from perago_worker.api.registry import load_tasks  # noqa: PLC0415  only here

    settings = load(project.folder, {}, {})
    with assemble(settings, project.stack(), load_tasks(settings, project.folder)):
        pass


def test_a_worker_does_not_start_with_targets_that_cannot_move_together(tmp_path: Path) -> None:
    elsewhere = started_with(tmp_path / "a", TASKS, MORE.replace("lake/reports", "lab/reports"))
    assert "branches of one repository" in elsewhere
    unnamed = started_with(tmp_path / "b", TASKS, MORE.replace("reports = ", "others = "))
    assert "publishes to 'reports', which [targets] of perago.toml does not name" in unnamed
    soft = started_with(tmp_path / "c", TASKS, MORE + '\n[fence]\npolicy = "soft"\n')
    assert "needs a store that moves several branches in one step" in soft
    shapeless = started_with(tmp_path / "d", TASKS, MORE.replace("lake/reports", "reports"))
    assert "targets.reports: expected repository/branch" in shapeless


def test_a_run_that_is_seen_as_a_whole_does_not_publish_beside_it(tmp_path: Path) -> None:
    isolated = MORE.replace(
        '[pipelines.reporting]\nrepository = "lake"', '[pipelines.reporting]\nrepository = "lake"\nisolation = "run"'
    )
    with new_project(tmp_path / "project", TASKS, isolated) as project:
        ran = project.perago("run", "reporting", width=300)
        assert ran.code == 1
        assert "Set isolation = 'step'" in ran.out
        assert len(commits(project.stack(), REPORTS)) == 1


def test_what_cannot_have_several_targets_is_refused_where_it_is_declared() -> None:
    def body(workspace: Path) -> None:
        """Do nothing."""

    with pytest.raises(UserError, match="targets wants names"):
        Workspace(targets=["a/b"])
    with pytest.raises(UserError, match="targets wants names"):
        Workspace(targets="reports")
    with pytest.raises(UserError, match="a folder that may be written to"):
        task(name="t", workspace=Workspace(read_only=True, targets=["reports"]))(body)
    with pytest.raises(UserError, match="is never replaced"):
        task(name="t", workspace=Workspace(targets=["reports"]), on_abandoned="replace")(body)
