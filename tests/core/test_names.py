"""Staging names: what stores accept, whose they are, and how to read the attempt back."""

from __future__ import annotations

import re

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from perago_core.names import (
    attempt_number,
    is_of_task,
    is_staging_name,
    recovery_name,
    staging_name,
    target_prefix,
    task_id_of,
    task_prefix,
)
from perago_core.values import Target
from tests.core.attempts import make_attempt

TEXTS = st.text(min_size=1).filter(str.strip)
NUMBERS = st.integers(0, 10**9)
MAIN = Target("lake", "main")
TARGETS = st.builds(Target, TEXTS, TEXTS)
NAMES = st.builds(staging_name, TARGETS, TEXTS, NUMBERS, NUMBERS, TEXTS, st.uuids().map(str))


@pytest.mark.clause("T-P3")
@given(NAMES)
def test_name_has_only_letters_digits_underscore_and_dash(name: str) -> None:
    """P-41, T-P3: stores refuse anything else; and it is not so long that one would."""
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name)
    assert len(name) < 200


@given(TEXTS, NUMBERS, NUMBERS, TEXTS)
def test_name_says_whose_it_is(logical_task: str, number: int, retry: int, task: str) -> None:
    """P-41: logical task, attempt, retry, task and execution, to be read by people and found by listing."""
    name = staging_name(MAIN, logical_task, number, retry, task, "0b5e")
    assert name.startswith(f"{task_prefix(MAIN, logical_task)}{number}-r{retry}-")
    assert name.endswith("-0b5e")


def test_name_can_be_read_at_a_glance() -> None:
    """P-41: pinned, because operators search for it."""
    assert make_attempt().staging_name == "perago-0d6e4079-51fa8037253e-workflow-1-load-0-2-r1-task-2-run_2"


@given(TEXTS, NUMBERS, NUMBERS, TEXTS, TEXTS)
def test_attempt_number_can_be_read_back(logical_task: str, number: int, retry: int, task: str, execution: str) -> None:
    """S-30, W-23: older names are found by their number."""
    assert attempt_number(staging_name(MAIN, logical_task, number, retry, task, execution), logical_task) == number


@pytest.mark.clause("S-32")
@given(TEXTS, TEXTS, NUMBERS, TEXTS)
def test_name_of_one_task_is_never_taken_for_anothers(ours: str, theirs: str, number: int, task: str) -> None:
    """S-32, T-P1: else revoking older names would delete a stranger's."""
    name = staging_name(MAIN, theirs, number, 0, task, "0b5e")
    assert (attempt_number(name, ours) is None) == (ours != theirs)
    assert is_of_task(name, ours) == (ours == theirs)


@given(TEXTS, TEXTS)
def test_no_prefix_begins_another(ours: str, theirs: str) -> None:
    """S-32: listing by prefix gives this task's names and no other's."""
    assert task_prefix(MAIN, theirs).startswith(task_prefix(MAIN, ours)) == (ours == theirs)


def test_tasks_that_read_alike_have_different_names() -> None:
    """P-41, S-31: the same letters after reduction, the same first 48 letters, and a name made to be mistaken."""
    assert task_prefix(MAIN, "a.b") != task_prefix(MAIN, "a-b")
    assert task_prefix(MAIN, "x" * 60 + "1") != task_prefix(MAIN, "x" * 60 + "2")
    inside = task_prefix(MAIN, "a").removeprefix(target_prefix(MAIN))
    for theirs in (f"{inside}7", f"a-{inside}7", f"perago-{inside}7", task_prefix(MAIN, "a") + "7"):
        assert attempt_number(staging_name(MAIN, theirs, 1, 0, "task", "0b5e"), "a") is None


@pytest.mark.clause("R-29")
def test_what_is_no_staging_name_has_no_number() -> None:
    """S-32, R-29: branches of people, of other programs, and of recovery's own anchors without a number."""
    prefix = task_prefix(MAIN, "a")
    for name in ("main", "", "perago-", prefix, prefix + "x-r0", prefix + "-1", prefix + "1_0-r0", prefix + "²-r0"):
        assert attempt_number(name, "a") is None
    assert attempt_number(recovery_name(MAIN, "a", 12, "task", "0b5e"), "a") == 12


@given(TARGETS, TEXTS, NUMBERS, TEXTS)
def test_one_prefix_reaches_the_names_of_one_target_attempts_and_recoveries(
    target: Target, logical_task: str, number: int, task: str
) -> None:
    """S-01: whoever is about to move a target lists everybody who may, of whatever task, and of no other branch."""
    names = (
        staging_name(target, logical_task, number, 0, task, "0b5e"),
        recovery_name(target, logical_task, number, task, "0b5e"),
    )
    other = target_prefix(Target(target.repository, target.branch + "2"))
    for name in names:
        assert is_staging_name(name)
        assert name.startswith(target_prefix(target))
        assert not name.startswith(other)
        assert (attempt_number(name, logical_task), is_of_task(name, logical_task)) == (number, True)


@given(st.uuids().map(str), TEXTS, NUMBERS, st.uuids().map(str))
def test_the_task_id_can_be_read_back_whatever_the_execution_is_called(
    task_id: str, logical_task: str, number: int, execution: str
) -> None:
    """S-01: the orchestrator is asked whether that very task has ended."""
    assert task_id_of(staging_name(MAIN, logical_task, number, 0, task_id, execution)) == task_id
    assert task_id_of(recovery_name(MAIN, logical_task, number, task_id, execution)) == task_id


@pytest.mark.clause("S-31")
@given(st.uuids(), st.uuids())
def test_two_executions_never_share_a_name(one: object, other: object) -> None:
    """S-31, P-40, P-42: also of one attempt, delivered twice."""
    names = {evolve(make_attempt(), execution=str(each)).staging_name for each in (one, other)}
    assert len(names) == len({one, other})
