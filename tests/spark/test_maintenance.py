"""Compaction as maintenance, end to end beside logical changes: H-11 to H-16, S-35, N-12.

Two tasks start from the same commit; the second is published after the first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from perago_core.driver import drive
from perago_core.results import Classification, Completed, Failed, Result
from perago_core.values import Attempt, CommitRef, Operation
from perago_spark import DatasetError, SparkWorkspace, WarmBodies
from perago_spark.format.compaction import check_preserved
from perago_spark.format.seal import dataset_of
from perago_worker.api.errors import TaskDefinitionError
from perago_worker.api.registry import Registry
from perago_worker.api.task import task
from perago_worker.spark import spark_tasks
from tests.spark.lake import MAIN, Lake, TaskRunner, datasets, done

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = Registry.of_modules("tests.spark.maintenance_tasks")
MORE = {"start": 30, "stop": 35}


class Works:
    """A lake with tasks that are handed out at one time and run at another."""

    def __init__(self, lake: Lake, bodies: WarmBodies) -> None:
        self.lake = lake
        self.workspace = SparkWorkspace(lake.store, spark_tasks(TASKS), bodies)

    def handed_out(self, name: str, params: Mapping[str, int] | None = None, *, opted_in: bool = True) -> Attempt:
        """Pin an attempt as the runtime does, with a ledger."""
        declared = TASKS[name]
        attempt = evolve(
            self.lake.attempt(name),
            operation=declared.operation,
            ledger=True,
            over_maintenance=declared.over_maintenance and opted_in,
        )
        self.workspace.accept(attempt, name, json.dumps(params or {}))
        return attempt

    def run(self, attempt: Attempt) -> Result | None:
        return drive(attempt, self.lake.ports(self.workspace)).result

    def once(self, name: str, **params: int) -> dict[str, int]:
        result = self.run(self.handed_out(name, params))
        assert isinstance(result, Completed), result
        found: dict[str, int] = json.loads(result.output)
        return found

    @property
    def parents(self) -> tuple[CommitRef, ...]:
        found: tuple[CommitRef, ...] = done(self.lake.store.head(MAIN)).commit.parents
        return found

    def total(self) -> tuple[int, int]:
        """Return rows and files of the data set at the head, as its seals have them; the listing is checked too."""
        found = dataset_of(self.lake.source(), "sales/orders/")
        return sum(each.rows for each in found.seals), len(found.data)


@pytest.fixture
def works(lake: Lake, bodies: WarmBodies) -> Works:
    made = Works(lake, bodies)
    made.once("orders.append", start=0, stop=10)
    made.once("orders.append", start=10, stop=30)
    return made


def test_a_compaction_is_published_and_a_second_one_has_nothing_to_do(works: Works) -> None:
    """H-11, S-12: the same rows in one file; done again, the result is the input."""
    assert works.total() == (30, 4)
    assert works.once("orders.compact") == {"rows": 30, "files": 1}
    assert works.total() == (30, 1)
    before = works.lake.head
    assert works.once("orders.compact") == {"rows": 30, "files": 1}
    assert works.lake.head == before


def test_an_append_lands_on_a_compaction_that_came_between(works: Works) -> None:
    """H-13 and H-16 together: with the opt-in it is published on top and no row is lost or doubled; else it is not."""
    opted_in = works.handed_out("orders.append", MORE)
    strict = works.handed_out("orders.append", MORE, opted_in=False)
    works.once("orders.compact")
    compacted = works.lake.head
    assert isinstance(works.run(strict), Failed)
    assert works.lake.head == compacted
    assert isinstance(works.run(opted_in), Completed)
    assert works.parents == (compacted,)
    assert works.total() == (35, 3)


def test_an_overwrite_never_lands_on_a_compaction(works: Works) -> None:
    """Both remove the old files and each adds its own: merged, the data set would hold old rows and new ones."""
    late = works.handed_out("orders.replace", {"start": 100, "stop": 103})
    works.once("orders.compact")
    compacted = works.lake.head
    result = works.run(late)
    assert isinstance(result, Failed), result
    assert "'sales/orders/_replaced_by' was changed on the target and in the staged commit" in str(result.refusal)
    assert (works.lake.head, works.total()) == (compacted, (30, 1))
    assert works.once("orders.replace", start=100, stop=103)["rows"] == 3
    assert works.total()[0] == 3


def test_a_compaction_never_takes_a_logical_change_off_the_branch(works: Works) -> None:
    """H-12, H-14, S-35: it started earlier and comes later, and refuses."""
    late = works.handed_out("orders.compact")
    works.once("orders.append", start=30, stop=35)
    head = works.lake.head
    assert isinstance(works.run(late), Failed)
    assert (works.lake.head, works.total()) == (head, (35, 6))


def test_calling_a_change_maintenance_does_not_make_it_so(works: Works) -> None:
    """H-15: what a task says of itself is no proof."""
    before = works.lake.head
    result = works.run(works.handed_out("orders.pretend"))
    assert isinstance(result, Failed)
    assert "maintenance, which leaves the rows as they are" in str(result.refusal)
    assert works.lake.head == before


def test_rows_are_compared_by_the_worker_and_not_by_the_body(works: Works) -> None:
    """H-11, H-15: the digests of what is staged are read from the store, and the fence refuses what differs."""
    before = works.lake.head
    result = works.run(works.handed_out("orders.cheat"))
    assert isinstance(result, Failed)
    assert result.refusal.classification is Classification.CONTENT_NOT_PRESERVED
    assert (works.lake.head, works.total()) == (before, (30, 4))


def test_partitions_are_compacted_each_into_its_own_files(spark: SparkSession, lake: Lake) -> None:
    runner = TaskRunner(spark, lake)
    for start in (0, 12):
        with runner.task() as ws:
            frame = ws.spark.range(start, start + 12, 1, 2).selectExpr("id", "id % 3 as k")
            ws.write("orders", frame, mode="append", partition_by=["k"])
    assert runner.files("orders") == 12
    with runner.task(maintenance=True) as ws:
        written = ws.compact("orders")
        assert (written.rows, written.files) == (24, 3)
    assert runner.rows("orders") == list(range(24))
    with runner.task() as ws:
        assert ws.read("orders", filters=[("k", "=", 1)]).count() == 8


def test_rows_that_are_not_those_that_were_there_are_refused(spark: SparkSession, lake: Lake) -> None:
    """H-11: the digest of the rows decides, not the good intention."""
    runner = TaskRunner(spark, lake)
    with runner.task() as ws:
        ws.write("orders", ws.spark.range(0, 10, 1, 2))
    before = dataset_of(lake.source(runner.at), "orders/")
    with runner.task() as ws:
        ws.write("orders", ws.spark.range(1, 11, 1, 2))
    (other,) = dataset_of(lake.source(runner.at), "orders/").seals
    with pytest.raises(DatasetError, match="the 10 rows with digest"):
        check_preserved(before, other)


def test_what_cannot_be_compacted_is_said(spark: SparkSession, lake: Lake) -> None:
    ws = datasets(spark, lake, lake.head)
    with pytest.raises(DatasetError, match="a data set with seals in 'orders/'"):
        ws.compact("orders")
    ws.write("orders", spark.range(3))
    with pytest.raises(DatasetError, match="a data set this body has not written"):
        ws.compact("orders")


def test_an_operation_nobody_knows_is_refused_where_it_is_declared() -> None:
    def body() -> None: ...

    with pytest.raises(TaskDefinitionError, match="operation wants 'logical' or 'maintenance'; found 'cleaning'"):
        task(name="wrong", operation="cleaning")(body)  # type: ignore[arg-type]
    assert TASKS["orders.compact"].operation is Operation.MAINTENANCE
