"""What a collector may remove (S-33, S-34, RT-10; architecture 5, life of a claim)."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from perago_core.garbage import Living, abandoned_names, run_branch_may_go, settled_claims, stray_intents, unknown_names
from perago_core.ledger import Intent
from perago_core.names import staging_name, task_id_of
from perago_core.pipelines import PipelineView
from perago_core.values import Claim, CommitRef, Target
from tests.core.ledger_world import intent_of

TARGET = Target("lake", "main")
tasks = st.sampled_from(["wf/clean", "wf/clean-1", "wf-clean", "other"])
numbers = st.integers(0, 12)
living_attempts = st.builds(Living, tasks, numbers)


def name(task: str, number: int) -> str:
    return staging_name(TARGET, task, number, 0, f"t{number}", "e1")


def claim(task: str, number: int) -> Claim:
    return Claim(TARGET, task, "wf", f"t{number}", number, f"e{number}", CommitRef("A"))


@given(st.lists(st.tuples(tasks, numbers), unique=True), st.frozensets(tasks), st.frozensets(living_attempts))
def test_a_name_goes_exactly_if_its_own_attempt_lives_no_more(
    made: list[tuple[str, int]],
    known: frozenset[str],
    living: frozenset[Living],
) -> None:
    """S-22, S-33: never a living attempt's name, always a dead one's, and never one nobody has heard of."""
    gone = abandoned_names([name(*each) for each in made], known, living)
    assert set(gone) == {name(*each) for each in made if each[0] in known and Living(*each) not in living}
    all_gone = abandoned_names([name(*each) for each in made], None, living)
    assert set(all_gone) == {name(*each) for each in made if Living(*each) not in living}


@given(st.lists(st.tuples(tasks, numbers), unique=True), st.frozensets(tasks))
def test_a_name_is_unknown_exactly_if_its_task_is(made: list[tuple[str, int]], known: frozenset[str]) -> None:
    """Another orchestrator's attempts publish to the same repository; theirs are not dead because ours are not."""
    unknown = unknown_names([name(*each) for each in made], known)
    assert set(unknown) == {name(*each) for each in made if each[0] not in known}


def test_names_that_are_not_ours_are_left_alone() -> None:
    """P-23: a user's branch is a user's branch, however it is called."""
    users = [
        "main",
        "feature/perago-1",
        "perago-notes",
        "perago-12345678-123456789abc",
        "perago-12345678-12345678901-x",
    ]
    assert abandoned_names(users, None, []) == unknown_names(users, []) == ()


@pytest.mark.clause("P-41")
@given(tasks, numbers, numbers, st.from_regex(r"[0-9a-f]+(-[0-9a-f]+)*", fullmatch=True))
def test_a_name_tells_the_task_id_it_was_made_for(task: str, number: int, retry: int, task_id: str) -> None:
    """P-41: so that whoever collects can ask about this very attempt."""
    assert task_id_of(staging_name(TARGET, task, number, retry, task_id, "0123456789abcdef")) == task_id[:48]


@pytest.mark.parametrize("other", ["main", "perago-01234567-0123456789ab-target"])
def test_a_name_that_is_no_attempts_tells_no_task_id(other: str) -> None:
    assert task_id_of(other) is None


@given(
    st.lists(st.tuples(tasks, numbers), unique=True),
    st.frozensets(tasks),
    st.lists(st.tuples(tasks, numbers), max_size=3),
    st.frozensets(living_attempts, max_size=3),
)
def test_claims_go_only_when_their_task_is_settled_quiet_and_without_names(
    made: list[tuple[str, int]],
    settled: frozenset[str],
    names: list[tuple[str, int]],
    living: frozenset[Living],
) -> None:
    """RT-10: a claim removed too early lets a paused duplicate win a fresh one."""
    going = settled_claims([claim(*each) for each in made], settled, [name(*each) for each in names], living)
    busy = {task for task, _ in names} | {attempt.logical_task for attempt in living}
    assert {each.logical_task for each in going} == {task for task, _ in made if task in settled - busy}


def intent(task: str, number: int) -> Intent:
    return evolve(intent_of(operation_id=f"{task} {number}"), logical_task=task, number=number)


@given(
    st.lists(st.tuples(tasks, numbers), unique=True),
    st.frozensets(st.tuples(tasks, numbers)),
    st.frozensets(tasks),
    st.frozensets(living_attempts, max_size=3),
)
def test_an_intent_goes_only_when_no_target_points_to_it_and_its_task_is_settled_and_quiet(
    made: list[tuple[str, int]],
    pointed: frozenset[tuple[str, int]],
    settled: frozenset[str],
    living: frozenset[Living],
) -> None:
    """S-18, S-21: removed too early, the owner would publish what no record speaks of."""
    operations = {intent(*each).operation_id for each in pointed}
    going = stray_intents([intent(*each) for each in made], operations, settled, living)
    busy = {attempt.logical_task for attempt in living}
    assert set(going) == {intent(*each) for each in made if each not in pointed and each[0] in settled - busy}


@pytest.mark.parametrize(
    ("status", "goes"),
    [("RUNNING", (False, False)), ("PAUSED", (False, False)), ("COMPLETED", (True, True)), ("FAILED", (False, True))],
)
def test_a_promoted_runs_branch_goes_at_once_and_a_failed_ones_in_time(status: str, goes: tuple[bool, bool]) -> None:
    run = PipelineView("w", "orders", status, ended_at=1000)
    assert tuple(run_branch_may_go(run, now, 10.0) for now in (10_999, 11_000)) == goes


def test_the_branch_of_a_run_nobody_knows_goes_only_if_somebody_says_so() -> None:
    assert not run_branch_may_go(None, 10**15, 0.0)
    assert run_branch_may_go(None, 0, 10.0, unknown=True)
