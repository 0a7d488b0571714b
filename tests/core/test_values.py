"""Values that cannot exist are not made: one ``ValueError`` that names class, field and value; nothing is coerced.

The table of kinds below is written by hand, field by field, so that a validator that is dropped is missed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from enum import Enum
from math import inf, nan
from types import ModuleType
from typing import Any, TypeAlias

import pytest
from attrs import asdict, evolve, fields
from hypothesis import assume, given
from hypothesis import strategies as st

from perago_core import budget, results, values
from perago_core.budget import PublishBudget
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
    Claim,
    Commit,
    CommitRef,
    Content,
    Head,
    Maintained,
    Operation,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
    claim_of,
)

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
    StagedRef: {"repository": text(), "branch": text(), "commit": text(), "tree": text()},
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
        "ledger": flag(value=True),
        "epoch": count(),
        "budget": a(PublishBudget()),
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
    assert len(list(malformed())) == 579


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
    assert claim == Claim(TARGET, "clean", "wf", "t2", 2, "e2", CommitRef("c0"), "tree")
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
