"""What costs an attempt and breaks no promise (ADR 34): each is reachable, safe, and over with the next attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve

from perago_core.values import Backing
from perago_simulation.explore.first_violation import first_violation
from perago_simulation.explore.search import explore
from perago_simulation.mutants.kills import ENVIRONMENTS, possible_mutants
from perago_simulation.properties.publication import NOTHING_ALIVE_CAN_BE_REPLACED
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.runs.path import RunPath
from perago_simulation.testing import strategies
from perago_simulation.world.history import maker
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import COMPLETED, FAILED, RUNNING, World

by_strong = pytest.mark.parametrize(
    "backing", [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED], ids=lambda each: each.value
)
WORD_UNREAD = possible_mutants()["word unread"]
(BY_THE_LETTER,) = [each for each in JUDGED if each.id == "S-16"]


def _failed_under_its_claimant(_setting: Setting, world: World) -> str | None:
    """Return a task that ended while the execution that claimed it still works."""
    for claim in world.claims:
        task, run = int(claim.task_id[1:]), int(claim.execution[1:])
        if world.tasks[task].status == FAILED and world.runs[run].fate == RUNNING:
            return f"t{task} failed, and e{run} works on it"
    return None


def _second_step_failed(_setting: Setting, world: World) -> str | None:
    last = world.tasks[-1]
    return "found" if last.step == 1 and last.status == FAILED else None


def _second_step_done_by_a_retry(_setting: Setting, world: World) -> str | None:
    last = world.tasks[-1]
    return "found" if (last.step, last.number, last.status) == (1, 2, COMPLETED) else None


def _sight(judge: object) -> Property:
    return Property("seen", "never", When.ALWAYS, judge)  # type: ignore[arg-type]


@by_strong
def test_a_duplicate_that_fails_before_its_claim_may_end_the_winners_attempt_and_harms_nothing(
    backing: Backing,
) -> None:
    """S-01 to S-04 hold; what the winner had published is replaced like any abandoned publication."""
    of = setting(backing, attempts=1, crashes=0, duplicates=1, refusals=1, pauses=False)
    found = explore(of, [*PROPERTIES, _sight(_failed_under_its_claimant)])
    assert found.complete
    assert set(found.broken()) == {"seen"}


def test_the_next_step_may_meet_a_busy_lease_and_the_retry_completes_it() -> None:
    """L-04: the worker of the accepted step gives its lease back after the report; until then the next is refused."""
    for sight, attempts in ((_second_step_failed, 1), (_second_step_done_by_a_retry, 2)):
        of = setting(Backing.LOCKED, attempts=attempts, steps=2, crashes=0, pauses=False)
        assert set(explore(of, [*PROPERTIES, _sight(sight)]).broken()) == {"seen"}


@by_strong
def test_of_three_attempts_with_equal_trees_a_stale_one_may_send_what_the_store_refuses(backing: Backing) -> None:
    """S-16 at its letter: it listed the claims before the third attempt came, and takes its commit for the first's.

    The third has raised the claim, or revoked the name, so that nothing lands: S-01 to S-04 hold.
    """
    of = setting(backing, attempts=3, crashes=0, same_tree=True)
    found = explore(of, [*PROPERTIES, BY_THE_LETTER, evolve(NOTHING_ALIVE_CAN_BE_REPLACED, id="may land")])
    assert found.complete
    assert set(found.broken()) == {"S-16"}


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "around the pin"])
def test_what_the_next_workflow_published_is_not_taken_for_the_own_tasks_by_its_tree(*, pinned: bool) -> None:
    """S-16: the third of three equal trees is the next workflow's, and says so; nothing is sent over it."""
    of = setting(Backing.ATOMIC, attempts=2, workflows=2, crashes=0, same_tree=True, pinned=pinned)
    way = _to_a_stale_look_at_the_next_workflows_commit(Model(of)).until(1, "Report")
    assert way.world.requests == ()
    assert (way.world.head, way.world.tasks[2].ref) == ("E2", "E2")
    assert BY_THE_LETTER.judge(of, way.world) is None


def _to_a_stale_look_at_the_next_workflows_commit(model: Model) -> RunPath:
    way = RunPath(model).take("hand out t0").until(0, "MakeClaim").take("give up t0")
    way = way.take("hand out t1").until(1, "ReadOwners").take("give up t1")
    return way.take("hand out t2").until(2)


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "around the pin"])
def test_unless_its_word_is_heard_it_is_and_without_the_pin_the_result_is_lost(*, pinned: bool) -> None:
    """S-16: whoever starts a workflow revokes the names of those before it, and the store refuses what they send.

    A start around the pin does not; an attempt on ``atomic`` revokes nobody, and what was accepted is replaced (S-01,
    decision 22). What may land is told from what is refused.
    """
    of = setting(Backing.ATOMIC, attempts=2, workflows=2, crashes=0, same_tree=True, pinned=pinned)
    way = RunPath(WORD_UNREAD.make(of)).take("hand out t0").until(0, "MakeClaim").take("give up t0")
    way = way.take("hand out t1").until(1, "ReadOwners").take("give up t1")
    way = way.take("hand out t2").until(2, "Report").until(1, "Publish replace")
    assert [(each.expected, each.commit) for each in (request.plan for request in way.world.requests)] == [("E2", "D1")]
    assert BY_THE_LETTER.judge(of, way.world) is not None
    assert (NOTHING_ALIVE_CAN_BE_REPLACED.judge(of, way.world) is None) is pinned
    assert way.until(1).world.head == ("E2" if pinned else "D1")


@by_strong
def test_drawn_runs_are_judged_by_what_may_land_only_where_that_differs_from_what_is_sent(backing: Backing) -> None:
    """S-16 is left out nowhere; by its letter it is judged where trees differ, retries adopt or a task has two."""

    def says(more: Mapping[str, Any]) -> set[str]:
        of = setting(backing, **{"attempts": 3, "same_tree": True, **more})
        return {each.says for each in strategies.judged(of) if each.id == "S-16"}

    may_land, sent = {NOTHING_ALIVE_CAN_BE_REPLACED.says}, {BY_THE_LETTER.says}
    assert says({}) == may_land
    for more in ({"same_tree": False}, {"adopts": True}, {"attempts": 2}, {"attempts": 2, "workflows": 2}):
        assert says(more) == sent


def test_what_may_land_over_a_stranger_is_still_noticed() -> None:
    """S-16, narrowed: without the owner rule a live attempt relocates the branch off a stranger's commit."""
    of = setting(Backing.ATOMIC, **ENVIRONMENTS["stranger"])
    found = first_violation(possible_mutants()["no owner rule"].make(of), [NOTHING_ALIVE_CAN_BE_REPLACED])
    assert found is not None


def _twins_done_and_the_second_step_abandoned(_setting: Setting, world: World) -> str | None:
    """Return whether both tasks of the first step are completed, and what the second published is not accepted."""
    done = [task.step for task in world.tasks if task.status == COMPLETED]
    return "found" if done == [0, 0] and maker(world.head) == len(world.runs) - 1 else None


@by_strong
def test_a_workflow_is_done_when_each_step_is_however_often_one_is_scheduled(backing: Backing) -> None:
    """S-02b: twins complete the first of two steps, the second publishes and dies; two tasks are done, one step is."""
    of = setting(backing, attempts=1, steps=2, twins=1, adopts=True, pauses=False)
    found = explore(of, [*PROPERTIES, evolve(_sight(_twins_done_and_the_second_step_abandoned), when=When.AT_REST)])
    assert found.complete
    assert set(found.broken()) == {"seen"}


def test_a_step_that_is_scheduled_twice_hides_no_tip_that_is_not_the_workflows_own() -> None:
    """S-02b is judged of two steps with twins: ``soft`` breaks it there."""
    of = setting(Backing.SOFT, attempts=1, steps=2, twins=1, crashes=0, pauses=False)
    found = first_violation(Model(of), [each for each in PROPERTIES if each.id == "S-02b"])
    assert found is not None
    assert sum("hand out" in label or "schedule twice" in label for label in found.trace) == 3


#: Where a twin may come upon a tree that its own task has claimed and the next step has published.
TWO_STEPS: Mapping[str, Any] = {
    "attempts": 2, "crashes": 0, "steps": 2, "twins": 1, "adopts": True, "no_ops": True, "same_tree": True,
}  # fmt: skip


def _to_a_stalled_twin_at_the_next_steps_commit(model: Model) -> World:
    """An attempt claims a tree and is given up; its retry completes with the input; the next step publishes the tree.

    The twin has read the claims before, and looks at the head now.
    """
    way = RunPath(model).take("hand out t0").until(0, "MakeClaim").take("schedule twice t1")
    way = way.until(1, "ReadHead").take("e1 RunBody unchanged").until(1, "ReadOwners").take("give up t0")
    return way.take("hand out t2").until(2).take("hand out t3").until(3).until(1).world


def _broken(of: Setting, world: World) -> set[str]:
    return {each.id for each in JUDGED if each.when is When.ALWAYS and each.judge(of, world) is not None}


@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL], ids=lambda each: each.value)
def test_a_twin_that_stalls_does_not_take_the_next_steps_commit_for_its_own(backing: Backing) -> None:
    """S-06, S-41 (ADR 65): their trees and inputs are equal, and the commit says whose it is."""
    of = setting(backing, **TWO_STEPS)
    world = _to_a_stalled_twin_at_the_next_steps_commit(Model(of))
    assert [(task.step, task.ref) for task in world.tasks] == [(0, ""), (0, ""), (0, "A"), (1, "E3")]
    assert world.head == "E3"
    assert _broken(of, world) == set()


@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL], ids=lambda each: each.value)
def test_a_twin_that_does_not_hear_what_the_head_says_takes_it_for_its_own(backing: Backing) -> None:
    """S-06, S-41: the branch is right, and the twin's answer is not."""
    of = setting(backing, **TWO_STEPS)
    world = _to_a_stalled_twin_at_the_next_steps_commit(WORD_UNREAD.make(of))
    assert [(task.step, task.ref) for task in world.tasks] == [(0, ""), (0, "E3"), (0, "A"), (1, "E3")]
    assert _broken(of, world) == {"S-06", "S-41"}


#: Two workflows from one input that write the same, side by side; one of their attempts may die.
EQUAL_TREES_ABREAST: Mapping[str, Any] = {
    "attempts": 2, "workflows": 2, "abreast": True, "crashes": 1, "pauses": False, "same_tree": True,
}  # fmt: skip


@pytest.mark.parametrize("adopts", [True, False], ids=["adopting", "replacing"])
def test_of_two_workflows_that_write_the_same_neither_takes_the_others_commit_for_its_own(*, adopts: bool) -> None:
    """S-06, S-01: the retry of one that died with a claim meets what the other has published, and fails."""
    found = explore(setting(Backing.ATOMIC, adopts=adopts, **EQUAL_TREES_ABREAST), JUDGED)
    assert found.complete
    assert found.broken() == {}


@pytest.mark.parametrize(
    ("adopts", "broken"), [(True, {"S-06": 37}), (False, {"S-01": 36, "S-16": 32})], ids=["adopting", "replacing"]
)
def test_unless_its_word_is_heard_one_adopts_the_others_commit_or_removes_what_was_accepted(
    *, adopts: bool, broken: Mapping[str, int]
) -> None:
    found = explore(WORD_UNREAD.make(setting(Backing.ATOMIC, adopts=adopts, **EQUAL_TREES_ABREAST)), JUDGED)
    assert found.broken() == broken


@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL], ids=lambda each: each.value)
def test_what_is_found_after_a_lost_answer_is_not_called_ours_if_it_says_it_is_anothers(backing: Backing) -> None:
    """S-06: of two workflows side by side one loses an answer, and finds the other's equal tree at the head."""
    of = setting(backing, **ENVIRONMENTS["side by side, equal trees"])
    assert explore(of, JUDGED).broken() == {}
    assert set(explore(WORD_UNREAD.make(of), JUDGED).broken()) == {"S-06"}


@by_strong
def test_what_a_twin_answers_is_judged_everywhere(backing: Backing) -> None:
    """S-06, S-41: drawn runs leave them out nowhere."""
    assert {each.id for each in strategies.judged(setting(backing, **TWO_STEPS))} == {each.id for each in JUDGED}


@pytest.mark.parametrize("backing", [Backing.CONDITIONAL, Backing.LOCKED], ids=lambda each: each.value)
@pytest.mark.parametrize(
    "stranger", ["strangers", "foreign_merges", "foreign_resets", "recreations", "foreign_writes", "resends"]
)
def test_who_fails_because_of_a_stranger_has_not_overlooked_what_landed(backing: Backing, stranger: str) -> None:
    """C8: what lies on a stranger's merge is not called ours; a branch that is gone shows nothing, a dirty one waits.

    With the same strangers, one who does not look at all is noticed.
    """
    c8 = [each for each in JUDGED if each.id == "C8"]
    of = setting(backing, attempts=1, crashes=0, losses=1, pauses=False, **{stranger: 1})
    found = explore(of, c8)
    assert found.complete
    assert found.broken() == {}
    assert first_violation(possible_mutants()["no OWN_HEAD"].make(of), c8) is not None


@pytest.mark.parametrize(
    "more",
    [
        {"attempts": 1, "twins": 1, "duplicates": 1, "pauses": False, "adopts": True},
        {"attempts": 2, "same_tree": True, "collector": True},
    ],
    ids=["twin delivered twice", "claims collected under a stalled attempt"],
)
def test_a_report_that_changes_nothing_is_no_report_of_a_loser_or_of_another(more: Mapping[str, Any]) -> None:
    """S-40: a second delivery repeats what its twin was accepted with. S-06: one that is given up reports to nobody."""
    of = setting(Backing.ATOMIC, crashes=0, **more)
    found = explore(of, [each for each in JUDGED if each.id in {"S-06", "S-40"}])
    assert found.complete
    assert found.broken() == {}


@pytest.mark.parametrize(
    ("backing", "broken"), [(Backing.ATOMIC, {}), (Backing.CONDITIONAL, {"S-33c": 38}), (Backing.LOCKED, {})]
)
def test_a_delivery_whose_claim_was_collected_leaves_its_intent_to_the_next_sweep(
    backing: Backing, broken: dict[str, int]
) -> None:
    """S-33c beside S-17: a second delivery past its fence claims anew what the collector has just forgotten.

    It reports to nobody, and is not the one that was accepted, so it does not know what its intent has come to.
    """
    bounds: dict[str, Any] = {"attempts": 1, "crashes": 0, "duplicates": 1, "pauses": False, "no_ops": True}
    found = explore(setting(backing, **bounds, adopts=True, ledger=True, collector=True), JUDGED)
    assert (found.complete, found.broken()) == (True, broken)
