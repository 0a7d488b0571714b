"""Values that cannot exist are not made: one ``ValueError`` that names class, field and value; nothing is coerced.

The table of kinds below is written by hand, field by field, so that a validator that is dropped is missed here.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from math import inf, nan
from types import ModuleType
from typing import Any, TypeAlias

import pytest
from attrs import asdict, evolve, fields
from hypothesis import assume, given
from hypothesis import strategies as st

from perago_core import budget, fence, results, start, values
from perago_core.budget import PublishBudget
from perago_core.contract import output_document, workspace_document, workspace_schema
from perago_core.errors import ExplainedError, one_line
from perago_core.names import (
    LONGEST,
    attempt_number,
    is_ignored,
    is_of_task,
    is_staging_name,
    problem_of,
    recovery_name,
    staging_name,
    target_prefix,
    task_id_of,
    task_prefix,
)
from perago_core.results import (
    Acceptance,
    Classification,
    Completed,
    Failed,
    FailedTerminally,
    Outcome,
    Refusal,
    Result,
    status_of,
)
from perago_core.value import Value
from perago_core.values import (
    Attempt,
    Backing,
    Beside,
    Between,
    Claim,
    Commit,
    CommitRef,
    Content,
    Head,
    Landed,
    Maintained,
    OnAbandoned,
    OnConflict,
    Operation,
    Scope,
    StagedBeside,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
    claim_of,
)
from tests.core.attempts import make_attempt

Sample: TypeAlias = Mapping[str, tuple[Any, list[Any]]]

NOT_TEXT = [None, 0, 1.5, True, b"c1", ["c1"], ("c1",)]
NO_TEXT = ["", " ", "\t\n", *NOT_TEXT]
NOT_TEXT_OR_NONE = [each for each in NO_TEXT if each is not None]
NO_COUNT = [-1, True, False, 1.0, nan, "1", None]
NO_FLAG = [0, 1, "True", "", None]
NO_SECONDS = [-1, -0.5, nan, -inf, True, "1", None]

COMMIT = Commit(CommitRef("c1"), (CommitRef("c0"),), "tree")
REFUSAL = Refusal(Classification.BODY_FAILED, "a body", "a ruin", "Build again.")
TARGET = Target("lake", "main")


def not_a(kind: type) -> list[Any]:
    """Things that look like an instance of a kind to somebody in a hurry."""
    names = [member.value for member in kind] if issubclass(kind, Enum) else []
    return [None, "", {}, kind, object(), *names[:1]]


def text(value: str = "something") -> tuple[str, list[Any]]:
    return value, NO_TEXT


def line(value: str = "") -> tuple[str, list[Any]]:
    return value, NOT_TEXT


def maybe_text(value: str | None = None) -> tuple[str | None, list[Any]]:
    return value, NOT_TEXT_OR_NONE


def count(value: int = 0) -> tuple[int, list[Any]]:
    return value, NO_COUNT


def flag(value: bool) -> tuple[bool, list[Any]]:
    return value, NO_FLAG


def a(value: object) -> tuple[object, list[Any]]:
    return value, not_a(type(value))


def maybe_a(kind: type) -> tuple[None, list[Any]]:
    return None, [each for each in not_a(kind) if each is not None]


def seconds(value: float) -> tuple[float, list[Any]]:
    return value, NO_SECONDS


#: Each class with, for each field, a value that is fine and values that are not.
SAMPLES: Mapping[type[Value], Sample] = {
    Target: {"repository": text(), "branch": text()},
    Commit: {
        "ref": text("c1"),
        "parents": ((CommitRef("c0"),), [["c0"], "c0", {"c0"}, None]),
        "tree": text(),
        "message": line(),
        "metadata": ((("k", "v"),), [[("k", "v")], "kv", None]),
    },
    Head: {"commit": a(COMMIT), "dirty": flag(value=False)},
    StagedRef: {
        "repository": text(),
        "branch": text(),
        "commit": text(),
        "tree": text(),
        "beside": ((), [[], "c1", None]),
    },
    StagedBeside: {"target": a(TARGET), "commit": text(), "tree": text()},
    Beside: {"target": a(TARGET), "input": text("c0")},
    Attempt: {
        "workflow_id": text(),
        "task_id": text(),
        "retry_count": count(),
        "logical_task": text(),
        "number": count(),
        "execution": text(),
        "target": a(TARGET),
        "input": text("c0"),
        "backing": a(Backing.SOFT),
        "worker_id": line(),
        "started_at": count(),
        "poll_count": count(),
        "read_only": flag(value=False),
        "operation": a(Operation.LOGICAL),
        "over_maintenance": flag(value=False),
        "on_abandoned": a(OnAbandoned.ADOPT),
        "ledger": flag(value=True),
        "epoch": count(),
        "budget": a(PublishBudget()),
        "scope": maybe_a(Scope),
        "on_conflict": a(OnConflict.RERUN),
        "beside": ((), [[], "main", None]),
    },
    Scope: {
        "reads": (("raw/",), [["raw/"], "raw/", None]),
        "writes": (("clean/",), [["clean/"], "clean/", None]),
        "apart": (("clean/",), [["clean/"], "clean/", None]),
    },
    Landed: {"commit": a(COMMIT), "touched": (("raw/a",), [["raw/a"], "raw/a", None])},
    Between: {
        "commits": (None, ["c1", [], 1]),
        "unaccepted": maybe_text("c1"),
        "owner": line(),
        "waited": seconds(0.0),
        "waited_for": line(),
        "over": (("c1",), [["c1"], "c1", None]),
    },
    TaskSnapshot: {
        "workflow_id": text(),
        "task_id": text(),
        "retry_count": count(),
        "status": a(TaskStatus.IN_PROGRESS),
        "worker_id": line(),
        "started_at": count(),
        "poll_count": count(),
        "workflow_running": flag(value=True),
        "result_execution": maybe_text(),
        "result_ref": maybe_text("c1"),
    },
    Claim: {
        "target": a(TARGET),
        "logical_task": text(),
        "workflow_id": text(),
        "task_id": text(),
        "number": count(),
        "execution": text(),
        "parent": text("c0"),
        "tree": maybe_text(),
        "result": ("{}", [each for each in NOT_TEXT if each is not None]),
        "staged": maybe_text("c1"),
        "reverts": maybe_text("c0"),
        "turn": count(),
        "stacks": flag(value=True),
    },
    Content: {"before": text("rows"), "after": text("rows")},
    Maintained: {"parent": text("c0"), "ref": text("c1")},
    PublishBudget: {
        "publish_timeout": seconds(5.0),
        "publish_p99": seconds(1.0),
        "margin": seconds(1.0),
        "completion_reserve": seconds(10.0),
        "heartbeat_interval": seconds(5.0),
        "shutdown_grace": seconds(10.0),
        "lease_ttl": seconds(10.0),
        "lease_margin": seconds(2.0),
        "takeover_wait": seconds(30.0),
    },
    Refusal: {
        "classification": a(Classification.BODY_FAILED),
        "expected": text(),
        "actual": text(),
        "next_action": text(),
    },
    Completed: {"ref": text("c1"), "output": line("{}"), "execution": text()},
    Failed: {"refusal": a(REFUSAL)},
    FailedTerminally: {"refusal": a(REFUSAL)},
    Outcome: {
        "result": (None, ["done", 1, REFUSAL]),
        "acceptance": a(Acceptance.UNREAD),
        "backing": a(Backing.SOFT),
        "silence": maybe_a(Refusal),
        "left_behind": (("workspace",), [["workspace"], "workspace", None]),
        "adopted": flag(value=False),
        "faults": (("store.claim raised",), [["store.claim raised"], "store.claim raised", None]),
    },
}


def make(kind: type[Value], **changes: Any) -> Value:  # noqa: ANN401  also values that cannot exist
    good = {name: value for name, (value, _) in SAMPLES[kind].items()}
    return kind(**{**good, **changes})


def malformed() -> Iterator[Any]:
    for kind, sample in SAMPLES.items():
        for name, (_, bad) in sample.items():
            for number, value in enumerate(bad):
                yield pytest.param(kind, name, value, id=f"{kind.__name__}.{name}-{number}")


@pytest.mark.parametrize(("kind", "name", "bad"), list(malformed()))
def test_a_malformed_value_is_refused_by_name(kind: type[Value], name: str, bad: object) -> None:
    with pytest.raises(ValueError, match=f"^{kind.__name__}\\.{name} must be ") as caught:
        make(kind, **{name: bad})
    assert str(caught.value).endswith(f", not {bad!r}")


@pytest.mark.parametrize(
    ("kind", "name", "elements", "culprit"),
    [
        (Commit, "parents", ("c0", ""), ""),
        (Commit, "parents", (1,), 1),
        (Commit, "parents", ("c0", None), None),
        (Outcome, "left_behind", (" ",), " "),
        (Outcome, "left_behind", ("workspace", b"name"), b"name"),
    ],
)
def test_a_malformed_element_is_refused_by_name(
    kind: type[Value], name: str, elements: tuple[object, ...], culprit: object
) -> None:
    with pytest.raises(ValueError, match=f"^{kind.__name__}\\.{name} must be a non-empty string") as caught:
        make(kind, **{name: elements})
    assert str(caught.value).endswith(f", not {culprit!r}")


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_nothing_is_coerced(kind: type[Value]) -> None:
    """What went in is what is there, the very same objects."""
    value = make(kind)
    changed = [name for name, (given_, _) in SAMPLES[kind].items() if getattr(value, name) is not given_]
    assert changed == []


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_every_field_that_can_be_wrong_is_tried(kind: type[Value]) -> None:
    tried = {f"{kind.__name__}.{name}" for name in SAMPLES[kind]}
    assert {f"{kind.__name__}.{each.name}" for each in fields(kind) if each.init} == tried
    assert [each.name for each in fields(kind) if each.name in SAMPLES[kind] and each.validator is None] == []


@pytest.mark.parametrize("module", [values, budget, results], ids=lambda module: module.__name__)
def test_every_class_is_tried(module: ModuleType) -> None:
    made = {each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__}
    assert {each for each in made if issubclass(each, Value)} <= set(SAMPLES)


def test_the_number_of_malformed_values_is_known() -> None:
    assert len(list(malformed())) == 738


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_equal_values_have_equal_hashes_and_print_alike(kind: type[Value]) -> None:
    one, other = make(kind), make(kind)
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    assert repr(one).startswith(f"{kind.__name__}(")


def test_spaces_around_a_name_are_kept() -> None:
    assert Target(" lake", "main ") == Target(" lake", "main ") != Target("lake", "main")


def test_a_root_commit_has_no_parents() -> None:
    assert Commit(CommitRef("c0"), (), "tree").parents == ()


# ----------------------------------------------------------------------------------------------------------------------
# Single promises

ATTEMPT = Attempt("wf", "t2", 1, "clean", 2, "e2", TARGET, CommitRef("c0"), Backing.SOFT)


def test_publishing_over_maintenance_needs_the_ledger() -> None:
    """H-15: only the ledger proves a commit to be maintenance."""
    with pytest.raises(ValueError, match=r"Attempt\.over_maintenance needs ledger=True"):
        evolve(ATTEMPT, over_maintenance=True)
    assert evolve(ATTEMPT, over_maintenance=True, ledger=True).over_maintenance


def test_a_claim_says_who_wants_to_publish_what_on_what() -> None:
    staged = StagedRef("lake", "staging", CommitRef("c2"), "tree")
    claim = claim_of(ATTEMPT, staged)
    assert claim == Claim(TARGET, "clean", "wf", "t2", 2, "e2", CommitRef("c0"), "tree", "{}")
    assert claim_of(ATTEMPT, None) == evolve(claim, tree=None)


def test_only_a_task_that_has_not_ended_is_open() -> None:
    assert {status for status in TaskStatus if status.is_open} == {TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS}


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (Completed(CommitRef("c1"), "{}", "e2"), TaskStatus.COMPLETED),
        (Failed(REFUSAL), TaskStatus.FAILED),
        (FailedTerminally(REFUSAL), TaskStatus.FAILED_WITH_TERMINAL_ERROR),
    ],
    ids=["completed", "failed", "failed terminally"],
)
def test_each_result_has_its_status(result: Result, status: TaskStatus) -> None:
    assert status_of(result) is status


def test_a_refusal_reads_as_a_sentence() -> None:
    """L-10: expected, found, class and what to do next."""
    assert str(REFUSAL) == "body-failed: expected a body; found a ruin. Build again."


def test_a_target_reads_as_a_path() -> None:
    assert str(TARGET) == "lake/main"


# ----------------------------------------------------------------------------------------------------------------------
# The publish budget


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        pytest.param({"publish_timeout": 1.5}, ("publish_timeout 1.5 s", "1 + 1 = 2 s"), id="P-35 p99"),
        pytest.param({"margin": 4.25}, ("publish_timeout 5 s", "1 + 4.25 = 5.25 s"), id="P-35 margin"),
        pytest.param({"lease_margin": 10.0}, ("lease_margin 10 s", "lease_ttl 10 s"), id="K-14 equal"),
        pytest.param({"lease_ttl": 1.0}, ("lease_margin 2 s", "lease_ttl 1 s"), id="K-14 less"),
        pytest.param({"lease_ttl": inf, "lease_margin": inf}, ("lease_margin inf s", "lease_ttl inf s"), id="K-14 inf"),
        pytest.param({"takeover_wait": 5.5}, ("takeover_wait 5.5 s", "5 + 1 = 6 s"), id="N-16 takeover"),
        pytest.param({"publish_timeout": 30.0}, ("takeover_wait 30 s", "30 + 1 = 31 s"), id="N-16 timeout"),
    ],
)
def test_a_budget_that_contradicts_itself_is_refused_with_its_numbers(
    changes: dict[str, float], numbers: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=r"^PublishBudget contradicts itself: ") as caught:
        PublishBudget(**changes)
    assert [number for number in numbers if number not in str(caught.value)] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"publish_timeout": 2.0},
        {"takeover_wait": 6.0},
        {"lease_margin": 9.999},
        {"publish_p99": 0, "margin": 0, "publish_timeout": 0},
        {"publish_timeout": inf, "takeover_wait": inf},
    ],
    ids=["just the p99", "just the wait", "a little lease", "no time", "no limit"],
)
def test_a_budget_that_just_fits_is_accepted(changes: dict[str, float]) -> None:
    made = PublishBudget(**changes)
    assert {name: getattr(made, name) for name in changes} == changes


@pytest.mark.clause("P-35")
def test_the_total_is_what_a_publication_may_need() -> None:
    """P-35: the publish call, the completion reserve, heartbeat and shutdown grace."""
    assert PublishBudget().total == 5.0 + 10.0 + 5.0 + 10.0


@pytest.mark.parametrize(
    ("made", "response_timeout", "expected"),
    [
        (PublishBudget(), 30.0, []),
        (PublishBudget(), 29.5, ["response timeout 29.5 s is shorter than the publish budget 30 s"]),
        (
            PublishBudget(),
            5.0,
            ["response timeout 5 s is shorter", "heartbeat interval 5 s is not shorter than the response timeout 5 s"],
        ),
        (
            PublishBudget(publish_timeout=8.5),
            60.0,
            ["publish_timeout 8.5 s and margin 1 s exceed what is left of a fresh lease (10 - 2 s)"],
        ),
        (PublishBudget(publish_timeout=6.9), 60.0, []),
    ],
    ids=["fits", "too short", "between two beats", "longer than the lease", "just the lease"],
)
def test_what_does_not_fit_is_named_with_its_numbers(
    made: PublishBudget, response_timeout: float, expected: list[str]
) -> None:
    found = made.warnings(response_timeout)
    assert len(found) == len(expected)
    assert [part for part, warning in zip(expected, found, strict=True) if part not in warning] == []


TIMES = st.floats(min_value=0, max_value=1e6) | st.integers(min_value=0, max_value=10**6) | st.just(inf)


@pytest.mark.clause("T-P5")
@given(st.fixed_dictionaries({each.name: TIMES for each in fields(PublishBudget)}), TIMES)
def test_a_budget_is_refused_or_sound_and_never_changed(given_: dict[str, float], response_timeout: float) -> None:
    """T-P5: warnings never shorten, lengthen or hide anything."""
    try:
        made = PublishBudget(**given_)
    except ValueError as error:
        assert str(error).startswith("PublishBudget contradicts itself: ")  # noqa: PT017  either way is an answer
        return
    assert made.publish_timeout >= made.publish_p99 + made.margin
    assert made.lease_margin < made.lease_ttl
    assert made.takeover_wait >= made.publish_timeout + made.margin
    before = hash(made)
    assert made.warnings(response_timeout) == made.warnings(response_timeout)
    assert asdict(made) == given_
    assert hash(made) == before


@given(TIMES, TIMES)
def test_more_time_never_gives_more_warnings(some: float, more: float) -> None:
    assume(some <= more)
    made = PublishBudget()
    assert len(made.warnings(more)) <= len(made.warnings(some))


@pytest.mark.parametrize("nonsense", [float("nan"), -1.0])
def test_a_response_timeout_that_is_no_time_is_refused(nonsense: float) -> None:
    """P-35: a warning that cannot be computed is not the same as no warning."""
    with pytest.raises(ValueError, match="response_timeout"):
        PublishBudget().warnings(nonsense)


# ---- Staging names: what stores accept, whose they are, and how to read the attempt back.


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


# ---- Which paths of objects may be stored: nothing that escapes, nothing a file system cannot hold.


@pytest.mark.parametrize("path", ["a", "a/b.parquet", "a/", "ä/ö", "a b/c", "...", "_x", "x" * LONGEST])
def test_ordinary_and_odd_paths_may_be_stored(path: str) -> None:
    assert problem_of(path) is None


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "where a name should be"),
        ("/", "absolute"),
        ("/etc/passwd", "absolute"),
        ("../x", "'..' where"),
        ("a/../b", "'..' where"),
        ("a/./b", "'.' where"),
        ("a//b", "'' where"),
        ("a//", "'' where"),
        ("a\0b", "NUL"),
        ("\udc80", "Unicode"),
        ("ä" * LONGEST, f"{2 * LONGEST} bytes"),
    ],
)
def test_a_path_that_cannot_be_a_file_is_refused_with_what_to_do(path: str, problem: str) -> None:
    assert problem in (found := problem_of(path) or "")
    assert ";" in found


@pytest.mark.parametrize(
    ("path", "ignored"), [("a/_SUCCESS", True), (".x", True), ("_a/b", False), ("a/b_", False), ("", False)]
)
def test_readers_skip_names_that_begin_with_an_underscore_or_a_dot(path: str, *, ignored: bool) -> None:
    assert is_ignored(path) is ignored


# ---- Values cross process boundaries whole: a plan to a racer, a state to another explorer.


SENT = Attempt("wf", "task", 0, "wf/step", 1, "run", Target("lake", "main"), CommitRef("A"), Backing.ATOMIC)
CASE = fence.Case(SENT, StagedRef("lake", "name", CommitRef("C"), "tree"), Head(Commit(CommitRef("A"), (), "t")))
DECISION = fence.decide(CASE)
STATE = start(SENT).state


@pytest.mark.parametrize("value", [SENT, CASE, DECISION, STATE, STATE.known], ids=lambda value: type(value).__name__)
def test_a_value_survives_being_sent_elsewhere(value: Value) -> None:
    """Without slots a class takes the state of its slotted base, which has no fields: every field was lost."""
    if not isinstance(value, fence.Case):
        hash(value)  # a cached hash must not travel: strings hash differently in every process
    sent = pickle.loads(pickle.dumps(value))  # noqa: S301  our own pickle
    assert sent == value
    assert b"_attrs_cached_hash" not in pickle.dumps(value)
    assert copy.deepcopy(value) == copy.copy(value) == value


# ---- The documents of the outer contract, key by key: other programs read them.


def test_a_workspace_names_a_commit_of_a_branch() -> None:
    expected = {"repository": "lake", "branch": "main", "refType": "commit", "ref": "abc"}
    assert workspace_document(MAIN, CommitRef("abc")) == expected


def test_an_output_shows_the_result_and_who_made_which_commit() -> None:
    shown = output_document(MAIN, CommitRef("abc"), '{"rows":3}', "task-1", "run-1")
    assert shown == {
        "result": {"rows": 3},
        "workspace": {
            "repository": "lake",
            "branch": "main",
            "refType": "commit",
            "ref": "abc",
            "task": "task-1",
            "execution": "run-1",
        },
    }
    assert output_document(MAIN, CommitRef("abc"), "no JSON", "task-1", "run-1")["result"] == "no JSON"


def test_the_schemas_have_the_keys_of_the_documents() -> None:
    made = output_document(MAIN, CommitRef("abc"), "null", "task-1", "run-1")["workspace"]
    assert workspace_schema(made=True)["required"] == list(workspace_schema(made=True)["properties"]) == list(made)
    given = workspace_schema(made=False)
    assert list(given["properties"]) == list(workspace_document(MAIN, CommitRef("abc")))
    assert given["required"] == ["repository", "branch", "ref"]


# ---- Errors: what was expected, what was found, what to do.


def test_an_error_says_what_was_expected_what_was_found_and_what_to_do() -> None:
    error = ExplainedError("a commit", "a branch", "Give the full id")
    assert str(error) == "expected a commit; found a branch. Give the full id"
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (again.expected, again.found, again.fix) == ("a commit", "a branch", "Give the full id")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\n  b\tc", "a b c"), ("", ""), ("x" * 500, "x" * 500), ("x" * 501, "x" * 499 + "…")],
    ids=["joined", "empty", "fits", "cut"],
)
def test_a_reason_is_one_line_and_short(text: str, line: str) -> None:
    assert one_line(text) == line


OTHER = Beside(Target("lake", "other"), CommitRef("b0"))


def test_several_targets_are_different_and_move_on_a_store_that_can_move_them_in_one_step() -> None:
    attempt = evolve(make_attempt(backing=Backing.ATOMIC), on_abandoned=OnAbandoned.ADOPT, beside=(OTHER,))
    first, other = attempt.parts
    assert first is attempt
    assert (other.target, other.input, other.execution) == (OTHER.target, "b0", attempt.execution)
    assert other.staging_name != first.staging_name
    wrong: list[dict[str, Any]] = [
        {"backing": Backing.CONDITIONAL},
        {"backing": Backing.LOCKED},
        {"backing": Backing.SOFT},
        {"on_abandoned": OnAbandoned.REPLACE},
        {"operation": Operation.MAINTENANCE},
        {"over_maintenance": True, "ledger": True},
        {"beside": (OTHER, OTHER)},
        {"beside": (Beside(attempt.target, CommitRef("b0")),)},
    ]
    for change in wrong:
        with pytest.raises(ValueError, match=r"^Attempt\.beside needs different targets"):
            evolve(attempt, **change)
