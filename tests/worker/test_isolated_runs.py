"""A whole run, or nothing: what an isolated pipeline shows on its branch, and when."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Done
from perago_core.ledger.records import open_prefix
from perago_core.names import run_branch
from perago_core.pipelines import OPENING, PROMOTION
from perago_core.ports import Assignment
from perago_core.results import Classification, Completed, FailedTerminally
from perago_core.values import Target
from perago_worker.config.load import load
from perago_worker.ops.run_branches import written_targets
from perago_worker.pipelines.run_tasks import run_tasks
from tests.worker import sharing
from tests.worker.embedded import Died, Embedded, Faulty, embedded
from tests.worker.isolated import PIPELINES, TASKS, commits, files, run_branches, succeed
from tests.worker.projects import MAIN, Project, create, new_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project", TASKS, PIPELINES) as made:
        yield made


@contextmanager
def _started(folder: Path, tasks: str = TASKS, pipelines: str = PIPELINES) -> Generator[Embedded]:
    """Start a run of ``whole`` with a worker that does nothing by itself."""
    with embedded(folder, tasks, pipelines) as worker:
        settings = load(worker.project.folder, {}, {})
        ours = run_tasks(settings, worker.stack, worker.tasks).values()
        worker.words.register(evolve(each, response_timeout=3.0) for each in ours)
        worker.words.start("whole", settings.pipelines["whole"], worker.first, {"text": "a"})
        yield worker


def _take(worker: Embedded) -> Assignment:
    """Take the next task, whether the project's or one of ours."""
    return worker.poll((*worker.tasks, "whole-open-run", "whole-promote"))


def _until_promotion(worker: Embedded, tasks: int = 4) -> Assignment:
    for _ in range(tasks):
        assert isinstance(worker.run(_take(worker)).result, Completed)
    return _take(worker)


def _keep_no_failed_run(project: Project) -> None:
    configuration = project.folder / "perago.toml"
    text = configuration.read_text()
    configuration.write_text(text.replace('isolation = "run"', 'isolation = "run"\nkeep_failed_days = 0'))


def _own(workflow_id: str) -> Target:
    return Target(MAIN.repository, run_branch(workflow_id))


def test_a_run_of_several_steps_is_one_commit_on_its_branch(project: Project) -> None:
    succeed(project, "run", "whole", "--param", "text=a")
    stack = project.stack()
    (promoted, first) = commits(stack)
    (view,) = project.views()
    head, *_ = commits(stack, _own(view.workflow_id))
    assert promoted.parents == (first.ref,)
    assert promoted.tree == head.tree
    assert files(stack, promoted.ref) == {"data/0.txt": b"a", "data/1.txt": b"a", "data/2.txt": b"a", "total.txt": b"3"}
    assert view.reached == promoted.ref
    verified = project.perago("verify", "lake/main", "--json").data
    assert [each["task"] for each in verified["commits"] if each["kind"] == "accepted"] == [
        f"{view.workflow_id}/{PROMOTION}"
    ]


def test_what_a_run_removes_and_changes_is_promoted_too(project: Project) -> None:
    succeed(project, "run", "whole", "--param", "text=a")
    succeed(project, "run", "swap")
    stack = project.stack()
    found = files(stack, commits(stack)[0].ref)
    assert found == {"data/1.txt": b"a", "data/2.txt": b"a", "data/new.txt": b"swapped", "total.txt": b"3"}


def test_a_run_that_changes_nothing_makes_no_commit(project: Project) -> None:
    for _ in range(2):
        succeed(project, "run", "whole", "--param", "text=same")
    assert len(commits(project.stack())) == 2
    assert project.views()[-1].reached == commits(project.stack())[0].ref


def test_a_failed_audit_leaves_nothing_on_the_branch_and_the_run_to_look_at(project: Project) -> None:
    ran = project.perago("run", "refused", width=200)
    assert ran.code == 1
    (view,) = project.views()
    own = _own(view.workflow_id)
    assert f"its steps are on {own}; nothing of them is on lake/main" in ran.out
    stack = project.stack()
    assert len(commits(stack)) == 1
    assert len(files(stack, commits(stack, own)[0].ref)) == 6
    shown = project.perago("show", "refused", "--json").data
    assert shown["branch"] == str(own)
    assert [each["step"] for each in shown["attempts"]] == [OPENING, "write", "total", "audit"]
    assert project.perago("history", str(own)).out.count("●") == 3
    assert project.perago("verify", "lake/main").code == 0
    assert project.perago("verify", str(own)).code == 0


def test_the_audit_of_a_failed_run_is_tried_again_on_what_the_run_left(project: Project) -> None:
    project.perago("run", "refused")
    again = project.perago("retry", "refused", width=200)
    assert again.code == 1
    assert "audit, attempt 2" in again.out
    (module,) = project.folder.glob("project_tasks_*.py")
    module.write_text(module.read_text().replace("found != params.count", "found < params.count"))
    assert project.process("retry", "refused").returncode == 0
    assert len(commits(project.stack())) == 2


def test_branches_of_promoted_runs_are_collected_and_those_of_failed_ones_kept(project: Project) -> None:
    succeed(project, "run", "whole", "--param", "text=a")
    project.perago("run", "refused")
    promoted, failed = (run_branch(each.workflow_id) for each in project.views())
    # The worker of the second run has found the first one over.
    assert run_branches(project.stack()) == (failed,)
    succeed(project, "run", "whole", "--param", "text=b")
    newest = run_branch(project.views()[-1].workflow_id)
    dry = project.perago("gc", "--dry-run", "--json").data["run_branches"]
    assert dry == {"removed": [newest], "kept": [failed], "unknown": []}
    assert set(run_branches(project.stack())) == {failed, newest}
    told = project.perago("gc", width=200).out
    assert f"removed {newest}" in told
    assert f"kept {failed}" in told
    assert promoted not in told
    assert run_branches(project.stack()) == (failed,)


def test_a_failed_runs_branch_goes_when_its_time_is_over_and_its_claims_after_it(project: Project) -> None:
    project.perago("run", "refused")
    (view,) = project.views()
    _keep_no_failed_run(project)
    succeed(project, "gc")
    stack = project.stack()
    assert run_branches(stack) == ()
    ran = project.perago("retry", "refused", width=200)
    assert ran.code != 0
    assert f"{_own(view.workflow_id)} is gone" in ran.err
    claims: Any = stack.store.all_claims(MAIN.repository)
    assert {each.target for each in claims.value} == {_own(view.workflow_id)}
    succeed(project, "gc", "--older-than", "0")
    claims = stack.store.all_claims(MAIN.repository)
    assert claims == Done(())


def test_the_branch_of_a_run_this_orchestrator_does_not_know_stays(project: Project) -> None:
    project.perago("run", "refused")
    (view,) = project.views()
    succeed(project, "rm", view.workflow_id)
    succeed(project, "gc")
    assert run_branches(project.stack()) == (run_branch(view.workflow_id),)
    succeed(project, "gc", "--unknown")
    assert run_branches(project.stack()) == ()


def test_a_branch_that_moved_meanwhile_is_not_overwritten_by_a_promotion(tmp_path: Path) -> None:
    with _started(tmp_path) as worker:
        promotion = _until_promotion(worker)
        worker.start("write", text="in between")
        assert isinstance(worker.run(worker.poll()).result, Completed)
        between = worker.head()
        assert not isinstance(worker.run(promotion).result, Completed)
        assert worker.head() == between


SHARING = """
[pipelines.whole]
repository = "lake"
isolation = "run"
steps = [{ task = "left", params = { text = "mine" } }, { task = "join" }]
"""
#: Looks at the whole branch, and does not say so.
AUDITED = SHARING + 'audits = [{ task = "look" }]\n'
LOOK = """

@task(name="look", workspace=Workspace(read_only=True), **QUICK)
def look(workspace: Path) -> Seen:
    return _files(workspace)
"""


def test_a_run_whose_tasks_declare_is_promoted_onto_disjoint_work_of_others_also_by_its_next_attempt(
    tmp_path: Path,
) -> None:
    """Its own work is a difference from its pin: nothing that others have published since is taken off with it."""
    with _started(tmp_path, sharing.TASKS, SHARING) as worker:
        promotion = _until_promotion(worker, 3)
        worker.start("other", text="theirs")
        assert isinstance(worker.run(worker.poll(("other",))).result, Completed)
        between = worker.head()

        def die(*_words: object) -> object:
            raise Died

        with pytest.raises(Died):
            worker.run(promotion, orchestrator=Faulty(worker.orchestrator, report=die))
        promoted = worker.head()
        outcome = worker.run(_take(worker))
        assert isinstance(outcome.result, Completed)
        assert (outcome.result.ref, outcome.adopted) == (promoted, True)
        assert commits(worker.stack)[0].parents[0] == between
        assert files(worker.stack, promoted) == {
            "left/l.txt": b"mine",
            "both/b.txt": b"mine",
            "other/o.txt": b"theirs",
        }


def test_a_run_that_read_what_others_have_changed_since_fails_and_is_not_begun_elsewhere(tmp_path: Path) -> None:
    """Its last step has read ``right``; from a newer commit the same difference would be another run's work."""
    with _started(tmp_path, sharing.TASKS, SHARING) as worker:
        promotion = _until_promotion(worker, 3)
        worker.start("right", text="theirs")
        assert isinstance(worker.run(worker.poll(("right",))).result, Completed)
        between = worker.head()
        refused = worker.run(promotion).result
        assert isinstance(refused, FailedTerminally)
        assert refused.refusal.classification is Classification.CONFLICT
        assert "right/r.txt by" in refused.refusal.actual
        assert worker.head() == between


def test_a_run_whose_audit_declares_nothing_has_looked_at_everything(tmp_path: Path) -> None:
    with _started(tmp_path, sharing.TASKS + LOOK, AUDITED) as worker:
        promotion = _until_promotion(worker, 4)
        worker.start("other", text="theirs")
        assert isinstance(worker.run(worker.poll(("other",))).result, Completed)
        between = worker.head()
        assert not isinstance(worker.run(promotion).result, Completed)
        assert worker.head() == between


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('isolation = "run"\n', "set isolation = 'run'"),
        ('task = "audit"', "looks at the run and must not change it"),
        ('steps = [{ task = "replace"', "is the name of a step that isolation = 'run' adds"),
        ('repository = "lake"\nisolation', "branches that begin with perago_run- belong to runs"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(project: Project, change: str, told: str) -> None:
    configuration = project.folder / "perago.toml"
    put = {
        'isolation = "run"\n': "",
        'task = "audit"': 'task = "write"',
        'steps = [{ task = "replace"': 'steps = [{ name = "promote", task = "replace"',
        'repository = "lake"\nisolation': 'repository = "lake"\nbranch = "perago_run-mine"\nisolation',
    }
    configuration.write_text(configuration.read_text().replace(change, put[change]))
    ran = project.perago("check", width=300)
    assert ran.code != 0
    assert told in ran.err


def test_a_branch_somebody_else_made_under_the_runs_name_is_not_touched(tmp_path: Path) -> None:
    with _started(tmp_path) as worker:
        (view,) = worker.words.everything()
        create(worker.stack, _own(view.workflow_id))
        before = commits(worker.stack, _own(view.workflow_id))
        ended = worker.run(_take(worker))
        assert not isinstance(ended.result, Completed)
        assert "somebody else made it" in worker.words.everything()[0].reason
        assert commits(worker.stack, _own(view.workflow_id)) == before


def test_a_workflow_cannot_have_another_branch_promoted(tmp_path: Path) -> None:
    with _started(tmp_path) as worker:
        taken = _until_promotion(worker)
        given = json.loads(taken.input)
        given["params"]["run"]["branch"] = "perago_run-another"
        assert not isinstance(worker.run(evolve(taken, input=json.dumps(given))).result, Completed)
        assert worker.head() == worker.first


def test_no_step_is_visible_before_the_promotion(tmp_path: Path) -> None:
    with _started(tmp_path) as worker:
        promotion = _until_promotion(worker)
        assert worker.head() == worker.first
        assert isinstance(worker.run(promotion).result, Completed)
        assert len(commits(worker.stack)) == 2


def _dies(*_words: object) -> object:
    raise Died


def _dies_afterwards(real: Callable[..., object], *words: object) -> object:
    real(*words)
    raise Died


@pytest.mark.parametrize(("call", "published"), [(_dies, False), (_dies_afterwards, True)])
def test_a_promotion_killed_around_its_publication_is_made_once_by_the_next_attempt(
    tmp_path: Path, call: Callable[..., object], published: bool
) -> None:
    with _started(tmp_path) as worker:
        promotion = _until_promotion(worker)
        with pytest.raises(Died):
            worker.run(promotion, store=Faulty(worker.stack.store, publish=call))
        seen = worker.head()
        assert (seen != worker.first) is published
        ended = worker.run(_take(worker))
        assert isinstance(ended.result, Completed)
        assert ended.adopted is published
        assert not published or ended.result.ref == seen
        assert len(commits(worker.stack)) == 2
        assert worker.words.everything()[0].succeeded
        assert worker.project.perago("verify", "lake/main").code == 0


def test_of_two_releases_of_one_run_one_is_promoted(tmp_path: Path) -> None:
    """The second is handed out while the first one is at work, and ends before it."""
    with _started(tmp_path) as worker:
        first = _until_promotion(worker)
        worker.orchestrator.requeue(first.snapshot.task_id)
        second = _take(worker)
        assert isinstance(worker.run(second).result, Completed)
        promoted = worker.head()
        worker.run(first)
        assert worker.head() == promoted
        assert len(commits(worker.stack)) == 2
        assert worker.project.perago("verify", "lake/main").code == 0


def test_a_branch_that_an_earlier_attempt_made_is_taken_however_far_the_run_is(tmp_path: Path) -> None:
    with _started(tmp_path) as worker:
        opening = _take(worker)
        with pytest.raises(Died):
            worker.run(opening, orchestrator=Faulty(worker.stack.orchestrator, report=_dies))
        assert isinstance(worker.run(_take(worker)).result, Completed)
        assert isinstance(worker.run(_take(worker)).result, Completed)
        late = worker.run(opening)
        assert not isinstance(late.result, Completed) or late.result.ref == worker.first
        (view,) = worker.words.everything()
        assert view.running
        assert len(commits(worker.stack, _own(view.workflow_id))) == 2


def test_what_a_dead_worker_left_open_on_the_branch_of_a_run_is_settled_before_that_goes(tmp_path: Path) -> None:
    with _started(tmp_path) as worker:
        project, coordination = worker.project, worker.stack.coordination
        assert coordination is not None
        worker.run(_take(worker))
        with pytest.raises(Died):
            worker.run(_take(worker), store=Faulty(worker.stack.store, publish=_dies_afterwards))
        (view,) = worker.words.everything()
        own = _own(view.workflow_id)
        worker.words.stop(view.workflow_id, "enough")
        assert written_targets(worker.stack, load(project.folder, {}, {})) == (MAIN, own)
        refused = project.perago("rm", view.workflow_id, width=200)
        assert refused.code != 0
        assert f"publications to {own} are not settled yet" in refused.err
        _keep_no_failed_run(project)
        succeed(project, "gc")
        assert run_branches(worker.stack) == ()
        assert coordination.list(open_prefix(own)) == Done(())
        succeed(project, "rm", view.workflow_id)
        assert project.perago("verify", "lake/main").code == 0
