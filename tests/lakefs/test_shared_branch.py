"""Several workflows on one branch of a real server: merged three ways, with the head checked by the hook."""

from __future__ import annotations

from io import BytesIO

from attrs import evolve

from perago_conformance.support import done
from perago_core.driver import run
from perago_core.names import over_in
from perago_core.ports import Stored
from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.revert import revert, unaccepted
from perago_core.values import Attempt, CommitRef, Scope, Target, TaskStatus
from tests.lakefs.scene import Scene, doing


def _of(scene: Scene, task: str, number: int = 1, *, reads: tuple[str, ...] = ()) -> Attempt:
    """Hand out an attempt of a task that declares a folder of its own."""
    plain = scene.attempt(number, task=task)
    return evolve(plain, scope=Scope(reads, (f"{task}/",)))


def _completed(outcome: Outcome) -> Completed:
    assert isinstance(outcome.result, Completed), outcome
    return outcome.result


def test_disjoint_work_is_published_onto_what_came_between_and_the_hook_has_seen_that_head(scene: Scene) -> None:
    """The first merge is refused by the hook, because another landed meanwhile; the second joins it."""
    mine, others = _of(scene, "left"), _of(scene, "right")
    between = doing("store.publish.before", lambda: _completed(scene.run(others, {"right/r.txt": b"r"})))
    result = _completed(scene.run(mine, {"left/l.txt": b"l"}, between))
    joined, other, first = scene.history()
    assert (result.ref, first) == (joined, scene.input)
    assert (scene.file("left/l.txt"), scene.file("right/r.txt"), scene.file()) == (b"l", b"r", b"of the input")
    assert scene.orchestrator.accepted() == [joined, other]


def test_other_writers_leave_the_scratch_branch_of_an_open_task_alone(scene: Scene) -> None:
    """They drop the names of tasks that have ended, or that nobody has heard of: so a name must say whose it is."""
    mine, others = _of(scene, "left"), _of(scene, "right")
    sink = scene.store.sink(mine.target, mine.staging_name)
    stored: list[Stored] = []

    def put_while_others_publish() -> None:
        stored.append(done(sink.put("left/l.txt", BytesIO(b"l"))))
        _completed(scene.run(others, {"right/r.txt": b"r"}))
        done(sink.put("left/m.txt", BytesIO(b"m")))
        done(sink.link(tuple(stored)))

    _completed(scene.run(mine, {"left/n.txt": b"n"}, doing("workspace.upload.before", put_while_others_publish)))
    assert [scene.file(f"left/{name}.txt") for name in "lmn"] == [b"l", None, b"n"]


def test_what_was_read_and_is_changed_is_a_conflict_that_names_path_and_writer(scene: Scene) -> None:
    mine, others = _of(scene, "left", reads=("right/",)), _of(scene, "right")
    between = doing("store.claim.before", lambda: _completed(scene.run(others, {"right/r.txt": b"r"})))
    refused = scene.run(mine, {"left/l.txt": b"l"}, between).result
    assert isinstance(refused, Failed)
    assert refused.refusal.classification is Classification.CONFLICT
    assert "right/r.txt by" in refused.refusal.actual
    assert scene.file("left/l.txt") is None


def test_a_killed_attempts_publication_is_adopted_below_a_persons_commit(scene: Scene) -> None:
    """Nothing is reset, and the body does not run again."""
    published = scene.abandon(_of(scene, "left"), {"left/l.txt": b"first"})
    scene.stranger.commits(scene.target, {"person.txt": b"p"})
    outcome = scene.run(_of(scene, "left", 2), {"left/l.txt": b"second"})
    assert (_completed(outcome).ref, outcome.adopted) == (published, True)
    assert (scene.file("left/l.txt"), scene.file("person.txt")) == (b"first", b"p")


def test_an_input_that_was_taken_off_the_branch_is_not_merged_from(scene: Scene) -> None:
    """lakeFS would take a base below it, and bring back what was removed."""
    before = scene.input
    scene.input = scene.stranger.commits(scene.target, {"gone.txt": b"g"})
    mine = _of(scene, "left")
    scene.stranger.resets(scene.target, before)
    scene.stranger.commits(scene.target, {"person.txt": b"p"})
    refused = scene.run(mine, {"left/l.txt": b"l"}).result
    assert isinstance(refused, Failed)
    assert refused.refusal.classification is Classification.HEAD_ELSEWHERE
    assert (scene.file("gone.txt"), scene.file("left/l.txt")) == (None, None)


def test_what_nobody_accepted_is_reverted_below_others_and_a_rerun_does_not_adopt_it(scene: Scene) -> None:
    """lakeFS commits the tree before it by its id, and merges that three ways with the publication as its base."""
    dead = _of(scene, "left")
    published = scene.abandon(dead, {"left/l.txt": b"first"})
    person = scene.stranger.commits(scene.target, {"person.txt": b"p"})
    over = evolve(scene.orchestrator.tasks[dead.task_id], status=TaskStatus.TIMED_OUT, workflow_running=False)
    scene.orchestrator.tasks[dead.task_id] = over
    (found,) = done(run(unaccepted(scene.target), scene.ports({})))
    assert (found.commit.ref, found.stays) == (published, "")
    reverted = done(run(revert(scene.target, found.commit, found.task, "recovery"), scene.ports({})))
    assert scene.history()[:3] == [reverted, person, published]
    assert (scene.file("left/l.txt"), scene.file("person.txt"), scene.file()) == (None, b"p", b"of the input")
    assert done(run(unaccepted(scene.target), scene.ports({}))) == ()
    again = scene.run(_of(scene, "left", 2), {"left/l.txt": b"second"})
    assert (again.adopted, scene.file("left/l.txt"), _completed(again).ref) == (False, b"second", scene.history()[0])


def _stacking(scene: Scene, task: str, number: int = 1, *, at: CommitRef | None = None) -> Attempt:
    """Hand out an attempt of a task that may be published above unaccepted work that is apart from its folder."""
    own = _of(scene, task, number)
    return evolve(own, scope=Scope((), (f"{task}/",), (f"{task}/",)), input=at or own.input)


def _says(scene: Scene, ref: CommitRef) -> tuple[str, ...]:
    """Give what a commit says that it lies above."""
    commit = done(scene.store.look(scene.target.repository, ref))
    assert commit is not None
    return over_in(commit.message)


def test_work_is_published_above_a_dead_writers_which_is_adopted_or_reverted_below_it(scene: Scene) -> None:
    """The merge says in its message above what it lies, also where the head is its input."""
    dead = [_stacking(scene, task) for task in ("left", "right")]
    left, right = (scene.abandon(each, {f"{each.logical_task}/x": b"d"}) for each in dead)
    first = _completed(scene.run(_stacking(scene, "one"), {"one/x": b"1"})).ref
    second = _completed(scene.run(_stacking(scene, "two", at=first), {"two/x": b"2"})).ref
    assert scene.history() == [second, first, right, left, scene.input]
    assert [_says(scene, each) for each in (second, first, right)] == [(right, left), (right, left), (left,)]
    adopted = scene.run(_stacking(scene, "right", 2), {"right/x": b"again"})
    assert (_completed(adopted).ref, adopted.adopted) == (right, True)
    over = evolve(scene.orchestrator.tasks[dead[0].task_id], status=TaskStatus.TIMED_OUT, workflow_running=False)
    scene.orchestrator.tasks[dead[0].task_id] = over
    (found,) = done(run(unaccepted(scene.target), scene.ports({})))
    assert (found.commit.ref, found.stays) == (left, "")
    reverted = done(run(revert(scene.target, found.commit, found.task, "recovery"), scene.ports({})))
    assert scene.history()[:2] == [reverted, second]
    assert [scene.file(f"{each}/x") for each in ("left", "right", "one", "two")] == [None, b"d", b"1", b"2"]
    third = _completed(scene.run(_stacking(scene, "three"), {"three/x": b"3"})).ref
    assert _says(scene, third) == ()


def test_the_branch_of_others_is_left_alone(scene: Scene) -> None:
    """A publication on one branch says nothing about another."""
    elsewhere = Target(scene.target.repository, "other")
    scene.stranger.create_branch(elsewhere, scene.input)
    _completed(scene.run(_of(scene, "left"), {"left/l.txt": b"l"}))
    assert scene.stranger.head(elsewhere) == scene.input
