"""The owner rule: whose commit is this head, and may it be replaced?"""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from perago_core.fence import Allowed, Case, Standing, decide, objection, standing
from perago_core.names import commit_message
from perago_core.results import Classification
from perago_core.values import Backing, Claim, Commit, CommitRef, TaskSnapshot, TaskStatus
from tests.core.attempts import CHILD_TREE, INPUT, ON_CHILD, commit, head, make_attempt, older_claim, staged_ref

ATTEMPT = make_attempt(Backing.CONDITIONAL)
OLDER = older_claim(ATTEMPT)
DEAD = (("task-1", Standing.DEAD),)


def may_replace(
    claims: tuple[Claim, ...], standings: tuple[tuple[str, Standing], ...], seen: Commit = ON_CHILD.commit
) -> bool:
    return objection(seen, ATTEMPT, claims, standings) is None


# ---------------------------------------------------------------------------------------------------------------------
# What the orchestrator's word makes of an attempt


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (TaskStatus.SCHEDULED, Standing.LIVE),
        (TaskStatus.IN_PROGRESS, Standing.LIVE),
        (TaskStatus.COMPLETED, Standing.ACCEPTED),
        (TaskStatus.FAILED, Standing.DEAD),
        (TaskStatus.FAILED_WITH_TERMINAL_ERROR, Standing.DEAD),
        (TaskStatus.TIMED_OUT, Standing.DEAD),
        (TaskStatus.CANCELED, Standing.DEAD),
    ],
)
def test_standing_follows_from_the_task_alone(status: TaskStatus, expected: Standing) -> None:
    """S-16, N-07: open is live, completed is accepted whichever execution's result was taken, ended is dead."""
    snapshot = TaskSnapshot("workflow-1", "task-1", 0, status, result_execution="run-9")
    assert standing(snapshot) is expected


def test_task_that_is_gone_proves_nothing() -> None:
    """2.9, N-07: purged is not dead."""
    assert standing(None) is Standing.UNPROVEN


# ---------------------------------------------------------------------------------------------------------------------
# The truth table


@pytest.mark.clause("S-16")
@pytest.mark.parametrize(
    ("state", "replaceable"),
    [(Standing.DEAD, True), (Standing.LIVE, False), (Standing.ACCEPTED, False), (Standing.UNPROVEN, False)],
)
def test_older_owner_must_be_dead(state: Standing, replaceable: bool) -> None:
    """2.5 rows 5 and 7, K-08, S-16: replace only what was abandoned, never the possibly alive, never the accepted."""
    assert may_replace((OLDER,), (("task-1", state),)) == replaceable


def test_owner_nobody_asked_about_is_unproven() -> None:
    """S-16: no word is not a good word."""
    assert not may_replace((OLDER,), ())
    assert not may_replace((OLDER,), (("task-9", Standing.DEAD),))


@pytest.mark.parametrize(("number", "replaceable"), [(0, True), (1, True), (2, False), (3, False)])
def test_only_older_attempts_are_replaced(number: int, replaceable: bool) -> None:
    """2.5 row 5, N-03: equal is this attempt or its duplicate, greater is a successor; a zombie replaces neither."""
    assert may_replace((evolve(OLDER, number=number),), DEAD) == replaceable


def test_head_without_a_record_is_a_strangers() -> None:
    """S-15, P-22, K-08, N-08, H-15: no record at all, or records that fit another parent or another tree."""
    assert not may_replace((), DEAD)
    assert not may_replace((evolve(OLDER, parent=CommitRef("X")),), DEAD)
    assert not may_replace((evolve(OLDER, tree="tree-X"),), DEAD)
    assert not may_replace((evolve(OLDER, tree=None),), DEAD), "a no-op publishes no commit"


def test_a_head_that_says_it_is_another_tasks_is_not_replaced_however_equal_its_tree() -> None:
    """S-01, S-16: a workflow beside has published the very tree that an attempt of this task had claimed and died."""
    anothers = evolve(ON_CHILD.commit, message=commit_message("wf-2/load", 1, "task-9"))
    refusal = objection(anothers, ATTEMPT, (OLDER,), DEAD)
    assert refusal is not None
    assert "another task" in refusal.actual
    own = evolve(ON_CHILD.commit, message=commit_message(ATTEMPT.logical_task, 1, "task-1"))
    assert objection(own, ATTEMPT, (OLDER,), DEAD) is None


def test_merge_commit_has_no_owner() -> None:
    """K-09, T-P9: a record names one parent, so it never fits a head with two."""
    assert not may_replace((OLDER,), DEAD, commit("M", INPUT, "W"))
    assert not may_replace((OLDER,), DEAD, commit("M"))


def test_every_possible_owner_must_be_dead() -> None:
    """S-16: deterministic tasks give equal trees, so one head may have two possible owners."""
    other = evolve(OLDER, task_id="task-0", number=0, execution="run-0")
    both = (OLDER, other)
    assert may_replace(both, (*DEAD, ("task-0", Standing.DEAD)))
    assert not may_replace(both, (*DEAD, ("task-0", Standing.LIVE)))
    assert not may_replace(both, (("task-1", Standing.ACCEPTED), ("task-0", Standing.DEAD)))
    assert not may_replace((OLDER, evolve(OLDER, task_id="task-3", number=3)), (*DEAD, ("task-3", Standing.DEAD)))


@pytest.mark.clause("S-16")
@pytest.mark.parametrize(
    ("state", "replaceable"),
    [(Standing.DEAD, True), (Standing.UNPROVEN, True), (Standing.LIVE, False), (Standing.ACCEPTED, False)],
)
def test_whoever_may_have_adopted_the_head_counts_too(state: Standing, replaceable: bool) -> None:
    """S-01: what it staged itself says nothing of what it reports.

    1. t1 publishes and times out; 2. its twin finds that, claims, and is going to report it; 3. t2 outranks the twin,
    truthfully sees t1 ended and unaccepted, and plans the replacement; 4. the twin is accepted with t1's commit; 5. the
    replacement lands, and what was accepted is gone.

    One that is forgotten blocks nobody: it was accepted nowhere as far as anybody can tell, and cannot be any more.
    """
    twin = evolve(OLDER, task_id="task-0", execution="run-0", tree="tree-X")
    assert may_replace((OLDER, twin), (*DEAD, ("task-0", state))) == replaceable
    refusal = objection(ON_CHILD.commit, ATTEMPT, (OLDER, twin), (*DEAD, ("task-0", state)))
    assert refusal is None or refusal.actual == f"task task-0, which may have adopted it, is {state.value}"


def test_equal_trees_never_turn_a_live_owner_into_a_dead_one() -> None:
    """T-O1, S-16: our own staged tree equals the head's; permission comes from the records all the same."""
    attempt = ATTEMPT
    same = evolve(staged_ref(attempt), tree=CHILD_TREE)
    for state, allowed in ((Standing.DEAD, True), (Standing.LIVE, False)):
        decision = decide(
            Case(attempt, same, ON_CHILD, claims=(OLDER,), standings=(("task-1", state),)),
        )
        assert isinstance(decision, Allowed) == allowed


@pytest.mark.parametrize("backing", Backing)
def test_owner_rule_belongs_to_every_backing_but_soft(backing: Backing) -> None:
    """Architecture 5, K-08: soft replaces a stranger's child, as the seed does; nobody else does."""
    attempt = make_attempt(backing)
    for staged in (None, staged_ref(attempt)):
        decision = decide(Case(attempt, staged, head("X", INPUT)))
        assert isinstance(decision, Allowed) == (backing is Backing.SOFT)


def test_refusal_says_whose_it_may_be_and_what_to_do() -> None:
    """L-10, L-03: three reasons, three different next actions."""
    cases = [
        objection(ON_CHILD.commit, ATTEMPT, (), ()),
        objection(ON_CHILD.commit, ATTEMPT, (evolve(OLDER, number=5),), DEAD),
        objection(ON_CHILD.commit, ATTEMPT, (OLDER,), (("task-1", Standing.LIVE),)),
    ]
    found = [refusal for refusal in cases if refusal is not None]
    assert [refusal.classification for refusal in found] == [Classification.HEAD_NOT_REPLACEABLE] * 3
    assert [refusal.actual for refusal in found] == [
        "no claim record: a stranger's commit",
        "attempt 5 may own it, and this is attempt 2",
        "its owner, task task-1, is live",
    ]
    assert len({refusal.next_action for refusal in found}) == 3


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([INPUT, CommitRef("X")]), st.sampled_from([CHILD_TREE, None])),
        max_size=4,
    ),
    st.dictionaries(st.integers(0, 3), st.sampled_from(Standing)),
)
def test_permission_needs_an_owner_every_possible_owner_older_and_dead_and_nobody_who_may_adopt(
    records: list[tuple[int, CommitRef, str | None]], word: dict[int, Standing]
) -> None:
    """S-16 as a sentence: the rule is the same whatever the order of the records."""
    claims = tuple(
        evolve(OLDER, number=number, task_id=f"task-{index}", parent=parent, tree=tree)
        for index, (number, parent, tree) in enumerate(records)
    )
    standings = tuple((f"task-{index}", state) for index, state in word.items())
    possible = [
        (claim.number, word.get(index))
        for index, claim in enumerate(claims)
        if (claim.parent, claim.tree) == (INPUT, CHILD_TREE)
    ]
    proven = all(number < ATTEMPT.number and state is Standing.DEAD for number, state in possible)
    adopted = any(word.get(index) in {Standing.ACCEPTED, Standing.LIVE} for index in range(len(claims)))
    expected = bool(possible) and proven and not adopted
    assert may_replace(claims, standings) == expected
    assert may_replace(claims[::-1], standings) == expected
