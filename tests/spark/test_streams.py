"""Streaming queries inside a task: a batch is in all outputs and in the checkpoint, or in none of them (ADR 67)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from perago_core.ports import Stored
from perago_core.results import Completed, Outcome
from perago_spark import DatasetError, SparkDatasets, SparkTask, SparkWorkspace, WarmBodies
from perago_spark.format.seal import discrepancy
from perago_spark.source.options import ReadPlace, StreamPlace
from perago_spark.streams.changes import Unread
from perago_spark.streams.checkpoint import checkpoint_folder
from perago_spark.tables.seal import TableSeal
from tests.spark.lake import Lake, TaskRunner, datasets
from tests.spark.stream_campaign import Play, play_ours, play_plain
from tests.specs.evidence import note_count
from tests.support.crash.seeds import FULL, seed

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from perago_spark.source.data_source import PeragoStreamReader
from perago_spark.versions import STREAMS_ARROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    return TaskRunner(spark, lake)


def add(runner: TaskRunner, start: int, stop: int) -> None:
    """Add orders to the branch, in a commit of their own."""
    with runner.task() as ws:
        ws.write("orders", ws.spark.range(start, stop, 1, 1), mode="append")


def ingest(ws: SparkDatasets, query: str = "ingest", seen: list[int] | None = None) -> int:
    """Run the query: each batch goes to two outputs."""

    def outputs(batch: DataFrame, number: int) -> None:
        ws.write("even", batch.where("id % 2 = 0"), mode="append")
        ws.write("all", batch, mode="append")
        if seen is not None:
            seen.append(number)

    return ws.run_query(query, ws.stream("orders", query=query).writeStream.foreachBatch(outputs)).batches


def test_each_run_reads_what_was_added_since_the_accepted_one_into_several_outputs(runner: TaskRunner) -> None:
    seen: list[int] = []
    for start, stop in ((0, 10), (10, 25)):
        add(runner, start, stop)
        with runner.task() as ws:
            assert ingest(ws, seen=seen) == 1
    assert seen == [0, 1]
    assert runner.rows("all") == list(range(25))
    assert runner.rows("even") == list(range(0, 25, 2))


def test_a_run_without_anything_new_changes_nothing(runner: TaskRunner) -> None:
    """Else each run would make a commit, which the next one would take for something new, and so on for ever."""
    add(runner, 0, 10)
    with runner.task() as ws:
        ingest(ws)
    with runner.task() as ws:
        ws.write("others", ws.spark.range(3))
    before = runner.at
    with runner.task() as ws:
        assert ingest(ws) == 0
        assert ws.changed == ()
    assert runner.at == before


def test_an_attempt_that_is_lost_takes_its_offsets_with_it(runner: TaskRunner) -> None:
    """The query runs to its end and nobody publishes it: the next attempt does the same batch again, once."""
    add(runner, 0, 20)
    lost = datasets(runner.spark, runner.lake, runner.at)
    runner.lake.names += 1
    assert ingest(lost) == 1
    with runner.task() as ws:
        assert ingest(ws) == 1
    assert runner.rows("all") == list(range(20))


def test_a_compacted_data_set_is_read_on_and_none_of_its_rows_twice(runner: TaskRunner) -> None:
    """What was added before the compaction is read from the commit that still has its files."""
    add(runner, 0, 10)
    with runner.task() as ws:
        ingest(ws)
    add(runner, 10, 15)
    with runner.task(maintenance=True) as ws:
        assert ws.compact("orders").changed
    with runner.task() as ws:
        assert ingest(ws) == 1
    assert runner.rows("all") == list(range(15))


def test_rows_that_were_replaced_are_refused_with_the_commit_that_did_it(runner: TaskRunner) -> None:
    add(runner, 0, 10)
    with runner.task() as ws:
        ingest(ws)
    with runner.task() as ws:
        ws.write("orders", ws.spark.range(5))
    with pytest.raises(DatasetError, match=f"only added to: 'orders/'.*removed by commit {runner.at}"):
        ingest(datasets(runner.spark, runner.lake, runner.at))


def test_state_is_part_of_the_commit(runner: TaskRunner) -> None:
    """Counts of all runs so far, from a state that is nowhere but on the branch."""

    def count(ws: SparkDatasets) -> None:
        totals = ws.stream("orders", query="count").selectExpr("id % 2 as id").groupBy("id").count()

        def outputs(batch: DataFrame, _number: int) -> None:
            ws.write("totals", batch)

        ws.run_query("count", totals.writeStream.outputMode("complete").foreachBatch(outputs))

    for start, stop in ((0, 10), (10, 15)):
        add(runner, start, stop)
        with runner.task() as ws:
            count(ws)
    found = datasets(runner.spark, runner.lake, runner.at).read("totals").collect()
    assert {each["id"]: each["count"] for each in found} == {0: 8, 1: 7}


@pytest.mark.skipif(not STREAMS_ARROW, reason="streams hand over Arrow since Spark 4.1")
def test_a_stream_writes_to_a_data_set_by_the_data_source(runner: TaskRunner, tmp_path: Path) -> None:
    """Two batches of files from outside in one task, each sealed as a write of its own."""
    raw = tmp_path / "raw"
    for number in range(2):
        runner.spark.range(number * 5, number * 5 + 5).coalesce(1).write.mode("append").parquet(str(raw))
    with runner.task() as ws:
        files = ws.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(raw))
        written = ws.run_query("copy", files.writeStream.format("perago").options(**ws.target("copy")))
        assert (written.batches, ws.observed("copy").rows) == (2, 10)
    assert runner.rows("copy") == list(range(10))
    with runner.task() as ws:
        files = ws.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(raw))
        assert ws.run_query("copy", files.writeStream.format("perago").options(**ws.target("copy"))).batches == 0
        assert ws.changed == ()


def test_a_query_that_failed_is_not_run_again_in_the_same_task(runner: TaskRunner) -> None:
    """The first output has the batch already; a body that goes on regardless must not succeed."""
    add(runner, 0, 10)
    ws = datasets(runner.spark, runner.lake, runner.at)

    def outputs(batch: DataFrame, _number: int) -> None:
        ws.write("all", batch, mode="append")
        raise RuntimeError("no second output today")

    def run() -> None:
        ws.run_query("ingest", ws.stream("orders", query="ingest").writeStream.foreachBatch(outputs))

    with pytest.raises(Exception, match="no second output today"):
        run()
    assert ws.unfinished == ("query ingest",)
    with pytest.raises(DatasetError, match="one run of query 'ingest' in a task"):
        run()


def test_the_stream_of_one_query_is_not_run_as_another(lake: Lake) -> None:
    """Its start would be the other one's, and what lies between would be read twice or never."""
    place = StreamPlace(ReadPlace(lake.source(), "orders/"), Unread("orders/", "aaa", "ccc"))
    reader = PeragoStreamReader(place, StructType())
    end = reader.latestOffset()
    with pytest.raises(DatasetError, match="expected a query that stands at commit aaa; found one that stands at bbb"):
        reader.partitions({**end, "commit": "bbb"}, end)


@pytest.mark.parametrize("name", ["", "a/b", "../x", "_x"])
def test_a_query_has_a_name_that_stays_in_its_place(name: str) -> None:
    with pytest.raises(DatasetError, match="a query's name"):
        checkpoint_folder("sales/", name)


def test_a_checkpoint_with_a_file_too_few_is_not_published() -> None:
    """A link that stopped half-way would be offsets without the state that belongs to them."""
    names = {"offsets/0": 3, "commits/0": 4, "state/0/0/1.delta": 5, str(TableSeal("run-1-1", 3, 12)): 0}
    listed = [Stored(f"sales/_streams/ingest/{name}", "somewhere", "", size) for name, size in names.items()]
    assert discrepancy(listed) is None
    assert "2 file(s) with 7 bytes" in str(discrepancy([each for each in listed if "/state/" not in each.path]))


def test_the_page_runs_in_a_workers_body_and_goes_on_where_the_accepted_commit_stands(
    bodies: WarmBodies, lake: Lake, spark: SparkSession
) -> None:
    """Earlier commits come from the worker: one run after an append, one after a rewrite of the same rows."""
    tasks = {
        "orders": SparkTask("orders", prefix="sales/", timeout=240.0),
        "ingest": SparkTask("tests.spark.page_tasks:ingest", prefix="sales/", timeout=240.0),
    }
    workspace = SparkWorkspace(lake.store, tasks, bodies)

    def ran(task: str, **params: object) -> dict[str, int]:
        outcome: Outcome = lake.run(workspace, task, json.dumps(params))
        assert isinstance(outcome.result, Completed), outcome
        found: dict[str, int] = json.loads(outcome.result.output)
        return found

    ran("orders", first=0, last=10)
    assert ran("ingest") == {"batches": 1}
    ran("orders", first=10, last=20)
    assert ran("orders", first=None)["files"] < 4
    ran("orders", first=20, last=21)
    assert ran("ingest") == {"batches": 1}
    at = lake.head
    assert ran("ingest") == {"batches": 0}
    assert lake.head == at
    found = {
        name: sorted(each["id"] for each in datasets(spark, lake, at).read(f"sales/{name}").collect())
        for name in ("paid", "refunds")
    }
    assert found == {"paid": [each for each in range(21) if each % 5], "refunds": [5, 10, 15, 20]}


@pytest.mark.skipif(not FULL, reason="the whole campaign, an hour and more; see tests/spark/stream_campaign.py")
def test_a_thousand_batches_are_in_three_outputs_once_however_their_drivers_die(tmp_path: Path) -> None:
    """The same kills, with Spark's own files and foreachBatch, leave rows twice."""
    wanted = Play(batches=1000, kills=100, twins=20, seed=seed())
    ours = play_ours(tmp_path / "ours", wanted)
    plain = play_plain(tmp_path / "plain", evolve(wanted, twins=0))
    print(ours, plain)  # noqa: T201  how long it took
    assert ours.exactly_once, wanted.seed
    assert not plain.exactly_once, wanted.seed
    note_count(
        "tests/spark/test_streams.py::thousand",
        f"a stream of {wanted.batches:,} batches into three outputs, {wanted.kills} SIGKILLs and {wanted.twins} rounds "
        f"with two drivers: {ours.lost} rows lost, {ours.doubled} there twice; the same kills with Spark's own Parquet "
        f"and `foreachBatch`: {plain.lost} lost, {plain.doubled} there twice",
    )
