"""Spark tasks that share a branch: they see the data sets they declare, and are joined onto what others publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.values import Scope
from perago_spark import DatasetError, SparkDatasets, foreign_key
from perago_worker import Workspace, dataset, task
from perago_worker.api.errors import TaskDefinitionError
from tests.spark.lake import Lake, TaskRunner, datasets
from tests.worker.embedded import Embedded, Faulty, embedded
from tests.worker.isolated import commits

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What a task declares here: a folder of data sets to read, and two data sets and a checkpoint to write.
DECLARED = Scope(("raw/",), ("out/", "more/", "_streams/mine/"))


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    """Make a lake with what is declared to be read, and with what is not."""
    made = TaskRunner(spark, lake)
    with made.task() as ws:
        for name in ("raw/orders", "secret"):
            ws.write(name, spark.range(0, 10, 1, 1))
    return made


def rows(ws: SparkDatasets) -> DataFrame:
    return ws.spark.range(0, 6, 1, 1).selectExpr("id", "id % 2 day")


def ingest(ws: SparkDatasets, query: str, output: str) -> None:
    """Take what is new of the orders, batch by batch."""

    def taken(batch: DataFrame, _number: int) -> None:
        ws.write(output, batch, mode="append")

    ws.run_query(query, ws.stream("raw/orders", query=query).writeStream.foreachBatch(taken))


UNDECLARED: dict[str, Callable[[SparkDatasets], object]] = {
    "reads secret": lambda ws: ws.read("secret"),
    "reads secret, counted": lambda ws: ws.rows("secret"),
    "reads secret, as a stream": lambda ws: ws.stream("secret", query="mine"),
    "reads secret, as a key": lambda ws: ws.write("out", rows(ws), gates=[foreign_key("id", of="secret", key="id")]),
    "writes secret": lambda ws: ws.write("secret", rows(ws)),
    "writes secret, natively": lambda ws: ws.write("secret", rows(ws), via="native", mode="append"),
    "writes secret, by day": lambda ws: ws.write("secret", rows(ws), mode="overwrite_partitions", partition_by=["day"]),
    "writes secret, a table": lambda ws: ws.write("secret", rows(ws), format="delta"),
    "writes secret, merged": lambda ws: ws.merge("secret", rows(ws), keys=["id"], format="iceberg"),
    "writes secret, by key": lambda ws: ws.upsert("secret", rows(ws), keys=["id"]),
    "writes secret, compacted": lambda ws: ws.compact("secret"),
    "writes secret, of a stream": lambda ws: ws.target("secret"),
    "writes raw/orders, which is read": lambda ws: ws.write("raw/orders", rows(ws)),
    "writes _streams/other": lambda ws: ingest(ws, "other", "out"),
}


@pytest.mark.parametrize("what", UNDECLARED)
def test_what_is_not_declared_is_refused_in_a_line_that_says_what_to_declare(runner: TaskRunner, what: str) -> None:
    """Before anything is staged: no staging name was ever opened."""
    kind, name = what.replace(",", "").split(" ")[:2]
    before = runner.lake.names
    ws = datasets(runner.spark, runner.lake, runner.at, declared=DECLARED)
    with pytest.raises(DatasetError) as caught:
        UNDECLARED[what](ws)
    said = str(caught.value)
    assert f"the task declares ({kind}: " in said
    assert f"found '{name}'. Add it to `{kind}` of the task's Workspace, or of its pipeline" in said
    assert "\n" not in said
    assert runner.lake.names == before


def test_a_data_set_of_which_a_part_is_declared_is_not_read(runner: TaskRunner) -> None:
    ws = datasets(runner.spark, runner.lake, runner.at, declared=Scope(("raw/orders/",)))
    with pytest.raises(DatasetError, match=r"declares \(reads: raw/orders/\); found 'raw'"):
        ws.read("raw")


def test_what_is_declared_may_be_done_by_either_route_and_what_is_written_may_be_read(runner: TaskRunner) -> None:
    with runner.task(declared=DECLARED) as ws:
        assert ws.read("raw/orders").count() == ws.rows("raw/orders") == 10
        ws.write("out", rows(ws), partition_by=["day"])
        ws.write("more/native", rows(ws), via="native", mode="append")
        ws.upsert("more/keyed", rows(ws), keys=["id"])
    with runner.task(declared=DECLARED) as ws:
        ws.write("out", rows(ws).where("day = 1"), mode="overwrite_partitions", partition_by=["day"])
        ws.compact("more/native")
        ws.upsert("more/keyed", ws.read("more/keyed").where("id > 4"), keys=["id"])
        ingest(ws, "mine", "more/taken")
    assert (runner.rows("out"), runner.rows("more/taken")) == ([0, 1, 2, 3, 4, 5], list(range(10)))


def test_maintenance_declares_nothing_because_it_may_not_be_joined_onto_the_work_of_others() -> None:
    with pytest.raises(TaskDefinitionError, match="want a logical operation"):

        @task(name="compact", workspace=Workspace(writes=["orders"]), operation="maintenance")
        def compact(ws: SparkDatasets) -> None:
            """Only declared."""


# ---- Through a worker

TASKS = '''
"""Tasks on data sets of one branch."""

from pathlib import Path

from pydantic import BaseModel

from perago_spark import SparkDatasets
from perago_worker import Workspace, task


class Params(BaseModel):
    ran: str
    first: int = 0


class Rows(BaseModel):
    rows: int


QUICK = {"retries": 2, "retry_delay": 0.1, "response_timeout": 30}


def _copied(ws: SparkDatasets, params: Params, source: str, target: str) -> Rows:
    """Write what the other one has, and one row more; leave a mark for each time this has run."""
    with Path(params.ran).open("a") as file:
        file.write(target[0])
    mine = ws.spark.range(params.first, params.first + 1, 1, 1)
    known = ws.rows(source) if source else 0
    return Rows(rows=ws.write(target, ws.read(source).union(mine) if known else mine).rows)


@task(name="left", workspace=Workspace(prefix="sales", writes=["sales/left"]), **QUICK)
def left(ws: SparkDatasets, params: Params) -> Rows:
    return _copied(ws, params, "", "left")


@task(name="right", workspace=Workspace(prefix="sales", writes=["sales/right"]), **QUICK)
def right(ws: SparkDatasets, params: Params) -> Rows:
    return _copied(ws, params, "", "right")


@task(name="right-to-left", workspace=Workspace(prefix="sales", reads=["sales/right"], writes=["sales/left"]), **QUICK)
def right_to_left(ws: SparkDatasets, params: Params) -> Rows:
    return _copied(ws, params, "right", "left")


@task(name="left-to-right", workspace=Workspace(prefix="sales", reads=["sales/left"], writes=["sales/right"]), **QUICK)
def left_to_right(ws: SparkDatasets, params: Params) -> Rows:
    return _copied(ws, params, "left", "right")


@task(name="plain", workspace=Workspace(prefix="sales"), retries=0)
def plain(ws: SparkDatasets, params: Params) -> Rows:
    return _copied(ws, params, "left", "right")
'''

PIPELINES = """
[spark.conf]
spark.driver.memory = "512m"
spark.sql.shuffle.partitions = 2

[pipelines.plain]
repository = "lake"
steps = [{ task = "plain", params = { ran = "${params.ran}" } }]
writes = ["sales/right"]

[pipelines.fan]
repository = "lake"
[[pipelines.fan.steps]]
parallel = [
    { task = "left", params = { ran = "${params.ran}", first = 7 } },
    { task = "right", params = { ran = "${params.ran}" } },
]
[[pipelines.fan.steps]]
task = "left-to-right"
params = { ran = "${params.ran}", first = 8 }
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """Make one worker for all: what takes time is its Spark. Each test begins at the head that it finds."""
    with embedded(tmp_path_factory.mktemp("shared") / "project", TASKS, PIPELINES) as made:
        yield made


def completed(outcome: Outcome) -> Completed:
    assert isinstance(outcome.result, Completed), outcome
    return outcome.result


def meanwhile(worker: Embedded, others: str, ran: Path) -> Faulty:
    """Return the store, in front of which another task is run to its end, once, before something is published."""
    waiting = [others]

    def publish(real: Callable[..., Any], *words: object) -> object:
        if waiting:
            completed(worker.run(worker.poll((waiting.pop(),))))
        return real(*words)

    worker.start(others, worker.head(), ran=str(ran), first=1)
    return Faulty(worker.stack.store, publish=publish)


def found(worker: Embedded, name: str) -> list[int]:
    table = dataset(f"lake/main/sales/{name}", project=worker.project.folder).arrow()
    return sorted(each["id"] for each in table.to_pylist())


def test_two_with_disjoint_data_sets_are_both_accepted_and_each_body_runs_once(
    worker: Embedded, tmp_path: Path
) -> None:
    """Without a declaration the second one would be refused: its input is not the head any more."""
    ran, first = tmp_path / "ran", worker.head()
    worker.start("left", first, ran=str(ran))
    mine = worker.poll(("left",))
    result = completed(worker.run(mine, store=meanwhile(worker, "right", ran)))
    joined, other = commits(worker.stack)[:2]
    assert result.ref == joined.ref == worker.head()
    assert (joined.parents[0], other.parents) == (other.ref, (first,))
    assert sorted(ran.read_text()) == ["l", "r"]
    assert (found(worker, "left"), found(worker, "right")) == ([0], [1])
    assert any("over 1 commit(s) of others" in line for line in worker.words.log(mine.snapshot.task_id))


def test_of_two_that_read_what_the_other_writes_one_runs_again_on_the_others_result(
    worker: Embedded, tmp_path: Path
) -> None:
    """No order of the two gives what both have made from the same commit."""
    ran = tmp_path / "ran"
    for name in ("left", "right"):
        worker.start(name, worker.head(), ran=str(ran))
        completed(worker.run(worker.poll((name,))))
    ran.unlink()
    worker.start("right-to-left", worker.head(), ran=str(ran), first=2)
    lost = worker.run(worker.poll(("right-to-left",)), store=meanwhile(worker, "left-to-right", ran)).result
    assert isinstance(lost, Failed)
    assert lost.refusal.classification is Classification.CONFLICT
    assert "sales/right/" in lost.refusal.actual
    completed(worker.run(worker.poll(("right-to-left",))))
    assert ran.read_text() == "lrl"
    assert (found(worker, "right"), found(worker, "left")) == ([0, 1], [0, 1, 2])


def test_a_pipeline_declares_for_its_spark_tasks_and_a_read_of_anything_else_fails_the_body(
    worker: Embedded, tmp_path: Path
) -> None:
    before = worker.head()
    worker.start("plain", before, ran=str(tmp_path / "ran"))
    failed = worker.run(worker.poll(("plain",))).result
    assert isinstance(failed, Failed)
    assert "declares (reads: sales/right/); found 'sales/left'. Add it to `reads`" in failed.refusal.actual
    assert (worker.head(), worker.names()) == (before, [])


def test_steps_side_by_side_write_data_sets_of_one_branch_from_the_command_line(
    worker: Embedded, tmp_path: Path
) -> None:
    ran = worker.project.process("run", "fan", "--param", f"ran={tmp_path / 'ran'}")
    assert ran.returncode == 0, ran.stderr
    assert (found(worker, "left"), found(worker, "right")) == ([7], [7, 8])
    assert sorted((tmp_path / "ran").read_text()) == ["l", "r", "r"]
