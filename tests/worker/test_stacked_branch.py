"""Publishing above what nobody has accepted: a dead writer keeps only those waiting who touch what it has written."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_core.names import over_in
from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.values import CommitRef, Scope
from perago_core.verification import Kind
from perago_worker.ops.revert import look, revert_unaccepted
from perago_worker.ops.verify import verify
from tests.worker.embedded import Died, Embedded, Faulty, embedded
from tests.worker.isolated import commits, files
from tests.worker.projects import MAIN, Project, new_project
from tests.worker.sharing import PIPELINES, TASKS

_TWO = PIPELINES.partition("[pipelines.fan]")[0]
#: Two pipelines that stack, each in a folder of its own, and one that waits and reads what the first one writes.
STACKING = (
    _TWO.replace('repository = "lake"', 'repository = "lake"\nstacking = true')
    + """
[pipelines.joins]
repository = "lake"
steps = [{ task = "join" }]
"""
)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "project", TASKS, STACKING) as made:
        yield made


def _completed(outcome: Outcome) -> Completed:
    assert isinstance(outcome.result, Completed), outcome
    return outcome.result


def _left_behind(project: Project) -> tuple[str, CommitRef]:
    """Let `perago run` die once it has published; give the workflow and what lies on the branch."""
    point = "kill store.publish.after 1 left"
    killed = project.process("run", "lefts", "--param", "text=killed", PERAGO_FAILPOINT=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (workflow,) = (view.workflow_id for view in project.views() if view.running)
    return workflow, commits(project.stack())[0].ref


def _run(project: Project, pipeline: str, text: str) -> None:
    ran = project.process("run", pipeline, "--param", f"text={text}")
    assert ran.returncode == 0, ran.stderr


def _text(project: Project, path: str) -> bytes | None:
    stack = project.stack()
    return files(stack, commits(stack)[0].ref).get(path)


def _buried(project: Project) -> tuple[str, CommitRef]:
    """Let two runs of another pipeline be accepted above what a dead writer has left."""
    _run(project, "lefts", "before")
    workflow, published = _left_behind(project)
    _run(project, "rights", "r1")
    _run(project, "rights", "r2")
    newest, below, dead, *_ = commits(project.stack())
    assert [over_in(each.message) for each in (newest, below, dead)] == [(published,), (published,), ()]
    assert (dead.ref, below.parents[0], newest.parents[0]) == (published, published, below.ref)
    assert (_text(project, "left/l.txt"), _text(project, "right/r.txt")) == (b"killed", b"r2")
    assert project.perago("cancel", workflow).code == 0
    return workflow, published


def test_two_runs_are_accepted_above_what_a_dead_writer_left_which_is_adopted_later(tmp_path: Path) -> None:
    """The one that lies lowest is accepted last, and every result is there."""
    with new_project(tmp_path / "project", TASKS, STACKING) as project:
        workflow, published = _buried(project)
        head = commits(project.stack())[0].ref
        told = project.perago("verify", "lake/main", width=200)
        assert (told.code, f"never accepted: {published}" in told.out) == (1, True)
        again = project.perago("retry", workflow)
        assert (again.code, commits(project.stack())[0].ref) == (0, head), again.err
        proved = project.perago("verify", "lake/main", width=200)
        assert (proved.code, "4 accepted results are there" in proved.out) == (0, True), proved.out
        assert _text(project, "left/l.txt") == b"killed"


def test_what_a_dead_writer_left_is_reverted_below_them_and_nothing_else_is(tmp_path: Path) -> None:
    with new_project(tmp_path / "project", TASKS, STACKING) as project:
        _, published = _buried(project)
        done = project.perago("recover", "lake/main", "--roll-back", width=200)
        assert (done.code, f"{published}: reverted" in done.out) == (0, True), done.out
        assert (_text(project, "left/l.txt"), _text(project, "right/r.txt")) == (b"before", b"r2")
        assert project.perago("verify", "lake/main").code == 0
        _run(project, "rights", "r3")
        _run(project, "lefts", "after")
        assert over_in(commits(project.stack())[0].message) == ()
        assert (_text(project, "left/l.txt"), _text(project, "right/r.txt")) == (b"after", b"r3")


def _killed(worker: Embedded, task: str, text: str = "killed") -> tuple[str, CommitRef]:
    workflow = worker.start(task, text=text)
    mine = worker.poll((task,))

    def die(*_words: object) -> object:
        raise Died

    with pytest.raises(Died):
        worker.run(mine, orchestrator=Faulty(worker.orchestrator, report=die))
    return workflow, worker.head()


def test_who_touches_what_it_has_written_waits_and_who_waits_says_for_whom(
    worker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the newest commit's name of the dead one: that commit itself was accepted long ago."""
    monkeypatch.setattr("perago_core.attempt.run.TURN_LONGEST", 0.2)
    _, published = _killed(worker, "left")
    worker.start("right", text="r")
    _completed(worker.run(worker.poll(("right",))))
    worker.start("join")
    blocked = worker.run(worker.poll(("join",))).result
    assert isinstance(blocked, Failed)
    assert blocked.refusal.classification is Classification.UNACCEPTED_IN_THE_WAY
    assert published in blocked.refusal.actual
    verdict = verify(worker.stack, worker.words, MAIN)
    assert [each.kind for each in verdict.findings[:2]] == [Kind.ACCEPTED, Kind.UNDER_WAY]
    assert verdict.broken == ()
    assert _completed(worker.run(worker.poll(("left",)))).ref == published
    assert _completed(worker.run(worker.poll(("join",)))).ref == worker.head()
    assert verify(worker.stack, worker.words, MAIN).broken == ()


def test_two_dead_writers_are_both_found_and_both_reverted(worker: Embedded) -> None:
    dead = [_killed(worker, task) for task in ("left", "right")]
    for workflow, _ in dead:
        assert worker.project.perago("cancel", workflow).code == 0
    refs = {published for _, published in dead}
    assert {each.found.commit.ref for each in look(worker.stack, MAIN) if each.found is not None} == refs
    marked = worker.project.perago("history", "lake/main", "--json").data
    assert {each["ref"] for each in marked if each["never_accepted"]} == refs
    assert all(each.by is not None for each in revert_unaccepted(worker.stack, MAIN))
    assert files(worker.stack, worker.head()) == files(worker.stack, worker.first)
    assert verify(worker.stack, worker.words, MAIN).broken == ()


def test_the_tasks_of_a_pipeline_that_stacks_keep_apart_from_all_that_it_declares(tmp_path: Path) -> None:
    more = """
[pipelines.pair]
repository = "lake"
stacking = true
steps = [{ task = "left" }, { task = "join" }]
"""
    with embedded(tmp_path / "project", TASKS, more) as worker:
        apart = ("both/", "left/", "right/")
        assert worker.tasks["left"].scope == Scope((), ("left/",), apart)
        assert worker.tasks["join"].scope == Scope(("left/", "right/"), ("both/",), apart)


def test_the_promotion_of_an_isolated_run_stacks_if_its_pipeline_does(tmp_path: Path) -> None:
    """It is published as one commit above what nobody has accepted, and begins where its pipeline's last run ended."""
    isolated = STACKING.replace("[pipelines.rights]", '[pipelines.rights]\nisolation = "run"')
    with new_project(tmp_path / "project", TASKS, isolated) as project:
        _, published = _buried_by_promotions(project)
        assert project.perago("recover", "lake/main", "--roll-back").code == 0
        assert (_text(project, "left/l.txt"), _text(project, "right/r.txt")) == (None, b"r2")
        assert published not in over_in(commits(project.stack())[0].message)


def _buried_by_promotions(project: Project) -> tuple[str, CommitRef]:
    workflow, published = _left_behind(project)
    _run(project, "rights", "r1")
    _run(project, "rights", "r2")
    newest, below = commits(project.stack())[:2]
    assert over_in(newest.message) == over_in(below.message) == (published,)
    assert project.perago("cancel", workflow).code == 0
    return workflow, published


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param('steps = [{ task = "plain" }]', "found none for plain", id="nothing declared"),
        pytest.param('steps = [{ task = "left" }, { task = "plain" }]', "found none for plain", id="one of two"),
        pytest.param(
            'steps = [{ task = "left" }]\n\n[pipelines.other]\nrepository = "lake"\nsteps = [{ task = "left" }]',
            "waits in other",
            id="elsewhere it waits",
        ),
    ],
)
def test_stacking_that_cannot_be_meant_is_refused_before_anything_starts(tmp_path: Path, more: str, said: str) -> None:
    wrong = f'[pipelines.wrong]\nrepository = "lake"\nstacking = true\n{more}\n'
    with new_project(tmp_path / "project", TASKS, wrong) as project:
        told = project.perago("check", width=400)
        assert told.code != 0
        assert said in told.out + told.err


def test_stacking_is_refused_where_no_branch_can_be_shared(tmp_path: Path) -> None:
    with new_project(tmp_path / "project", TASKS, STACKING) as project:
        told = project.perago("--set", "fence.policy=soft", "run", "lefts", "--param", "text=x", width=400)
        assert told.code != 0
        assert "stacking = true of lefts, rights wants a store" in told.out + told.err
        assert "soft" in told.out + told.err
