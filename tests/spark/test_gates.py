"""Gates: rows that are not as they must be are not published, and can be looked at for a while."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from perago_clock import MachineClock
from perago_core.answers import Done
from perago_core.results import Completed, Failed
from perago_local.coordination import SqliteCoordination
from perago_spark import (
    DatasetError,
    Gate,
    GateError,
    SparkTask,
    SparkWorkspace,
    WarmBodies,
    accepted_values,
    exactly,
    foreign_key,
    freshness,
    in_range,
    not_null,
    predicate,
    row_count_drift,
    unique,
)
from perago_spark.api.gates import Checks, Counts
from perago_worker.ops.failed import failed_gates, forget_failed, keep_with, kept_commits
from perago_worker.stack import Stack
from tests.spark.lake import Lake, TaskRunner, datasets, done

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id long, country string, amount double, customer long, at timestamp"
NOW = dt.datetime.now(tz=dt.UTC).replace(tzinfo=None)


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    return TaskRunner(spark, lake)


def orders(spark: SparkSession, *rows: Any) -> DataFrame:  # noqa: ANN401  rows
    made: DataFrame = cast("Any", spark).createDataFrame(list(rows), COLUMNS)
    return made.coalesce(1)


GOOD = ((1, "DE", 5.0, 7, NOW), (2, "FR", 9.5, 7, NOW), (3, None, None, None, None))
BAD = ((1, "DE", 5.0, 7, NOW), (1, "XX", -1.0, 8, NOW), (None, "FR", 1.0, 7, NOW))
ALL: dict[str, tuple[Gate, str]] = {
    "not_null": (not_null("id", "country"), "1 row(s) without a value"),
    "unique": (unique("id"), "2 row(s) that share a key"),
    "in_range": (in_range("amount", 0), "1 row(s) outside"),
    "accepted": (accepted_values("country", "DE", "FR"), "1 row(s) with another value"),
    "foreign_key": (foreign_key("customer", of="customers", key="nr"), "1 row(s) without their counterpart"),
    "predicate": (predicate("amount >= 0"), "1 row(s) for which it is false"),
}


def test_each_gate_says_what_it_found_in_one_write_and_lets_good_rows_pass(runner: TaskRunner) -> None:
    """Missing values are the affair of not_null alone."""
    with runner.task() as ws:
        ws.write("customers", ws.spark.range(7, 8).withColumnRenamed("id", "nr"))
    gates = [gate for name, (gate, _) in ALL.items() if name != "not_null"]
    with runner.task() as ws:
        passed = ws.write("orders", orders(ws.spark, *GOOD), gates=[*gates, not_null("id")])
        ws.finish()
    assert (passed.rows, dict(passed.values)) == (3, {}), "the figures of gates are not the body's"
    columns = datasets(runner.spark, runner.lake, runner.at).read("orders").columns
    assert columns == [each.split()[0] for each in COLUMNS.split(", ")]
    with done(runner.lake.source(runner.at).get("orders/_gates.json")) as stream:
        kept = json.load(stream)
    assert [each["passed"] for each in kept["gates"]] == [True] * 6
    assert any(path == f"orders/{kept['seal']}" for path in runner.lake.paths(runner.at)), "bound to what was staged"

    ws = datasets(runner.spark, runner.lake, runner.at)
    with pytest.raises(GateError) as caught:
        ws.write("orders", orders(ws.spark, *BAD), gates=[gate for gate, _ in ALL.values()])
    for gate, objection in ALL.values():
        assert gate.label in str(caught.value)
        assert objection in str(caught.value)
    assert (ws.unfinished, ws.changed, ws.failed) == (("orders",), (), ("orders/",))


def test_a_data_set_that_shrinks_too_much_or_is_too_old_does_not_pass(runner: TaskRunner) -> None:
    old = NOW - dt.timedelta(hours=50)
    with runner.task() as ws:
        ws.write("orders", orders(ws.spark, *GOOD), gates=[row_count_drift(0.1), freshness("at", hours=1)])
    for rows, gate, says in (
        (GOOD[:1], row_count_drift(0.5), "3 rows became 1, 67% more or less"),
        (((1, "DE", 1.0, 7, old),), freshness("at", hours=48), "the newest is 50."),
        (GOOD[2:], freshness("at", hours=48), "no row has a value"),
    ):
        ws = datasets(runner.spark, runner.lake, runner.at)
        with pytest.raises(GateError, match=says):
            ws.write("orders", orders(ws.spark, *rows), gates=[gate])
    with runner.task() as ws:
        ws.write("orders", orders(ws.spark, *GOOD[:2]), gates=[row_count_drift(0.5)])


def _fails_once(batches: Iterator[Any]) -> Iterator[Any]:
    """Pass all rows on, and then fail, unless this is the second time."""
    from pyspark import TaskContext  # noqa: PLC0415  in Spark's own process

    yield from batches
    task = TaskContext.get()
    assert task is not None
    if task.attemptNumber() == 0:
        raise RuntimeError("not at the first time")


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_rows_of_tasks_that_were_run_again_are_counted_once(
    runner: TaskRunner, via: Literal["arrow", "native"]
) -> None:
    """The first attempt of each task has seen all its rows before it fails."""
    ws = datasets(runner.spark, runner.lake, runner.at)
    rows: DataFrame = cast("Any", runner.spark.range(0, 100, 1, 2)).mapInArrow(_fails_once, "id long")
    with pytest.raises(GateError, match=r"found 10 row\(s\) for which it is false; 7 row\(s\) outside"):
        ws.write("numbers", rows, gates=[predicate("id < 90"), in_range("id", 7)], via=via)


def test_a_write_that_changes_nothing_is_judged_and_stays_one(runner: TaskRunner) -> None:
    with runner.task() as ws:
        ws.write("numbers", ws.spark.range(0, 10, 1, 1))
    with runner.task() as ws:
        again = ws.write("numbers", ws.spark.range(0, 10, 1, 1), gates=[in_range("id", 0, 9)])
        assert not again.changed
    assert runner.lake.committed() is None
    ws = datasets(runner.spark, runner.lake, runner.at)
    with pytest.raises(GateError, match=r"1 row\(s\) outside"):
        ws.write("numbers", ws.spark.range(0, 10, 1, 1), gates=[in_range("id", 0, 8)])


def test_rows_that_did_not_pass_are_replaced_or_stay_unpublished(runner: TaskRunner) -> None:
    """A body that catches the error cannot add to them; it can write the data set anew, even as it was."""
    with runner.task() as ws:
        ws.write("numbers", ws.spark.range(0, 10, 1, 1))
    ws = datasets(runner.spark, runner.lake, runner.at)
    with pytest.raises(GateError):
        ws.write("numbers", ws.spark.range(0, 20, 1, 1), mode="append", gates=[in_range("id", 0, 9)])
    with pytest.raises(DatasetError, match=r"replaces all of 'numbers', .*found mode='append', which keeps some"):
        ws.write("numbers", ws.spark.range(5, 6, 1, 1), mode="append")
    assert ws.unfinished == ("numbers",)
    ws = datasets(runner.spark, runner.lake, runner.at)
    with pytest.raises(DatasetError, match=r"expected exactly 5 row"):
        ws.write("numbers", ws.spark.range(0, 20, 1, 1), mode="append", rows=exactly(5))
    with pytest.raises(DatasetError, match=r"replaces all of 'numbers', .*found mode='append', which keeps some"):
        ws.write("numbers", ws.spark.range(5, 6, 1, 1), mode="append")
    for rows in (10, 3):
        with runner.task() as ws:
            with pytest.raises(GateError):
                ws.write("numbers", ws.spark.range(0, 20, 1, 1), gates=[in_range("id", 0, 9)])
            ws.write("numbers", ws.spark.range(0, rows, 1, 1), gates=[in_range("id", 0, 9)])
            assert ws.failed == ()
        assert runner.rows("numbers") == list(range(rows))


def test_a_missing_value_among_accepted_ones_accepts_no_other(runner: TaskRunner) -> None:
    """Beside one, SQL's answer for any other value is neither true nor false."""
    ws = datasets(runner.spark, runner.lake, runner.at)
    with pytest.raises(GateError, match=r"1 row\(s\) with another value"):
        ws.write("orders", orders(ws.spark, *BAD), gates=[accepted_values("country", "DE", "FR", None)])


def test_a_gate_whose_figure_is_not_there_is_not_met() -> None:
    [verdict] = Checks.counting([not_null("id")]).verdicts({}, Counts(0, 1, 1))
    assert verdict.objection == "no number of row(s) without a value"


# ---- In a worker


Running = Callable[..., Any]


@pytest.fixture
def stack(lake: Lake, tmp_path: Path) -> Stack:
    return Stack(cast("Any", None), lake.store, SqliteCoordination(tmp_path / "coordination.db"), MachineClock())


@pytest.fixture
def workspace(bodies: WarmBodies, lake: Lake, stack: Stack) -> SparkWorkspace:
    tasks = {"gated": SparkTask("gated", prefix="sales/", timeout=240.0)}
    return SparkWorkspace(lake.store, tasks, bodies, keep=keep_with(stack, 1.0))


def test_rows_that_passed_are_published_and_the_verdict_with_them(workspace: SparkWorkspace, lake: Lake) -> None:
    outcome = lake.run(workspace, "gated", json.dumps({"rows": 100}))
    assert isinstance(outcome.result, Completed), outcome
    assert "sales/orders/_gates.json" in lake.paths()


def test_a_tree_that_changed_after_the_gate_is_refused(workspace: SparkWorkspace, lake: Lake) -> None:
    """By the worker, which compares what the store lists with what was there when the gates were passed."""
    before = lake.head
    outcome = lake.run(workspace, "gated", json.dumps({"rows": 100, "tamper": True}))
    assert not isinstance(outcome.result, Completed)
    assert "as its gates saw it; found it changed since" in str(outcome)
    assert lake.head == before


def test_what_did_not_pass_is_kept_for_its_time_and_can_be_read(
    workspace: SparkWorkspace, lake: Lake, stack: Stack, spark: SparkSession
) -> None:
    """Neither the branch nor a staging name shows it."""
    before = lake.head
    outcome = lake.run(workspace, "gated", json.dumps({"rows": 101}))
    assert isinstance(outcome.result, Failed)
    assert "expected 'orders' to pass in_range(id, 0, 99); found 1 row(s) outside" in str(outcome)
    assert (lake.head, lake.stagings()) == (before, ())
    (kept,) = failed_gates(stack.coordination)
    assert kept.folders == ("sales/orders/",)
    assert kept.places() == (f"lake/main/sales/orders@{kept.commit}",)
    (commit,) = kept_commits(stack)
    assert datasets(spark, lake, commit).read("sales/orders").count() == 101
    assert forget_failed(stack) == 0
    assert stack.coordination is not None
    (entry,) = done(stack.coordination.list("failed/"))
    over = json.dumps({**json.loads(entry.value), "until": 1})
    assert isinstance(stack.coordination.swap(entry.key, entry.value, over), Done)
    assert (kept_commits(stack), forget_failed(stack, dry_run=True), forget_failed(stack)) == (set(), 1, 1)
    assert failed_gates(stack.coordination) == ()
