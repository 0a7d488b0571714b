"""What an orchestrator may also do: hand a task out again under its old id, rerun it, end the workflow (N-07)."""

from __future__ import annotations

import pytest

from perago_core.attempt import Phase
from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.runs.path import RunPath
from perago_simulation.world.model import Model
from perago_simulation.world.settings import setting
from perago_simulation.world.state import CANCELED, COMPLETED, ENDED, OPEN, World

STRONG = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED)
by_backing = pytest.mark.parametrize("backing", list(Backing), ids=lambda each: each.value)
by_strong = pytest.mark.parametrize("backing", STRONG, ids=lambda each: each.value)


def handed_out(backing: Backing, **bounds: object) -> RunPath:
    return RunPath(Model(setting(backing, crashes=0, **bounds))).take("hand out t0 to e0 (changed)")


def phase(world: World, run: int) -> Phase:
    state = world.runs[run].state
    assert state is not None
    return Phase(state.phase)


@by_backing
def test_a_requeued_task_is_told_apart_by_all_but_soft(backing: Backing) -> None:
    """N-01, N-07, P-02: id, retry count and status are equal for both; only the poll count tells them apart."""
    before = handed_out(backing, attempts=1, requeues=1)
    after = before.take("requeue t0 to e1 (changed)")
    assert [task.polls for task in before.world.tasks] == [0]
    assert [(task.polls, task.status) for task in after.world.tasks] == [(1, OPEN)]
    assert [run.task for run in after.world.runs] == [0, 0]
    first = phase(after.take("e0 ReloadTask").world, 0)
    assert first is (Phase.STAGING if backing is Backing.SOFT else Phase.CLEAN_UP)
    assert phase(after.take("e1 ReloadTask").world, 1) is Phase.STAGING


@by_backing
def test_a_requeue_costs_soft_an_accepted_result_and_nobody_else_anything(backing: Backing) -> None:
    """S-01, S-02, S-02b, S-03, S-04 with one requeue and one lost answer: the figures of decision 12."""
    found = explore(setting(backing, crashes=0, attempts=1, requeues=1, losses=1, no_ops=True))
    assert found.complete
    expected = {"S-01": 17, "S-02": 24, "S-02b": 17, "S-03": 21, "S-04": 21} if backing is Backing.SOFT else {}
    assert found.broken() == expected


def test_soft_lets_a_rerun_replace_what_was_accepted_before() -> None:
    """N-07: the operator asked for it, so the old acceptance is taken back with the rerun, not lost by it."""
    before = handed_out(Backing.SOFT, attempts=1, reruns=1).until(0)
    assert [(task.status, task.ref) for task in before.world.tasks] == [(COMPLETED, "M0")]
    again = before.take("rerun t0 to e1 (changed)")
    assert [(task.status, task.ref, task.polls) for task in again.world.tasks] == [(OPEN, "", 1)]
    after = again.until(1)
    assert (after.world.head, after.world.tasks[0].ref) == ("C1", "C1")


@by_strong
def test_a_rerun_after_acceptance_is_silent_until_a_fresh_attempt_comes(backing: Backing) -> None:
    """N-07, S-40: the task's claim is spent. The rerun cannot tell itself from a duplicate; the next attempt can."""
    rerun = handed_out(backing, attempts=2, reruns=1).until(0).take("rerun t0 to e1 (changed)").until(1)
    assert rerun.world.runs[1].fate is ENDED
    assert (rerun.world.head, rerun.world.tasks[0].status) == ("M0", OPEN)
    after = rerun.take("give up t0").take("hand out t1 to e2 (changed)").until(2)
    assert (after.world.head, after.world.tasks[1].ref) == ("C2", "C2")


@by_strong
def test_nothing_breaks_by_a_rerun_beside_a_worker_that_still_lives(backing: Backing) -> None:
    """N-07, S-01 to S-04: rerun after failure, after a timeout and after acceptance, at any later moment."""
    found = explore(setting(backing, crashes=0, attempts=1, reruns=1, losses=1, no_ops=True))
    assert (found.complete, found.broken()) == (True, {})


def test_only_a_workflow_that_has_ended_can_be_rerun() -> None:
    """N-07: the orchestrator refuses to rerun one that is running; a requeue is what it offers there."""
    way = handed_out(Backing.ATOMIC, attempts=2, reruns=1)
    assert not way.can("rerun")
    timed_out = way.take("give up t0")
    assert not timed_out.can("rerun")
    assert timed_out.take("hand out t1").take("give up t1").can("rerun t1")


@by_backing
def test_a_terminated_workflow_ignores_what_comes_late(backing: Backing) -> None:
    """N-07, L-01: the task is cancelled, nothing is handed out any more, and the worker's report changes nothing."""
    before = handed_out(backing, attempts=2, terminations=1).until(0, "install")
    after = before.take("terminate t0")
    assert [task.status for task in after.world.tasks] == [CANCELED]
    assert not after.can("hand out")
    rest = after.until(0)
    assert rest.model.at_rest(rest.world)
    assert (rest.world.head, rest.world.tasks) == ("M0", after.world.tasks)


@by_strong
def test_termination_leaves_at_most_one_abandoned_publication(backing: Backing) -> None:
    """N-07, S-02: whatever a cancelled worker still had on its way."""
    found = explore(setting(backing, crashes=0, terminations=1, no_ops=True))
    assert (found.complete, found.broken()) == (True, {})


@by_backing
def test_a_cancelled_task_is_stale_for_its_worker(backing: Backing) -> None:
    """P-02, P-06: the fence is what stops it; soft reports FAILED, the others are silent."""
    stopped = handed_out(backing, terminations=1).take("terminate t0").take("e0 ReloadTask")
    assert phase(stopped.world, 0) is (Phase.REPORT if backing is Backing.SOFT else Phase.CLEAN_UP)


def test_termination_between_two_steps_hands_out_no_second_one() -> None:
    """N-07: what was accepted stays accepted."""
    done = handed_out(Backing.ATOMIC, steps=2, terminations=1).until(0)
    assert done.can("hand out t1")
    over = done.take("terminate")
    assert not over.can("hand out t1")
    assert [task.status for task in over.world.tasks] == [COMPLETED]
