"""A project of Spark Declarative Pipelines as a task: one commit a run, and the next run goes on from it.

``PERAGO_MATRIX=full`` kills fifty workers of such runs while a reader looks on; by default none, for the time it takes.
"""

from __future__ import annotations

import io
import os
import random
import secrets
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.pipelines.init_cli import init

from perago_spark import DatasetError, SparkUnavailableError, run_pipeline
from perago_spark.declarative import run
from perago_worker.config.load import load
from perago_worker.stack import Stack, pipelines_of
from tests.docs.documents import blocks
from tests.spark import plain_pipelines
from tests.spark.plain_pipelines import PlainReader
from tests.specs.evidence import note_count
from tests.support.crash.dying import SHORT_BUDGET, Reader, finished, killed_worker
from tests.worker.isolated import commits, files
from tests.worker.projects import create, new_project

KILLS = 50
#: How often plain Spark is killed for comparison.
PLAIN = 3

PARQUET: Any = import_module("pyarrow.parquet")

#: The guide's own words, as they stand.
(TASKS,) = [block for block in blocks("specs/guide/howto/spark.md", "python") if "run_pipeline" in block]

PIPELINE = """
[pipelines.refresh]
repository = "lake"
steps = [{ task = "refresh" }]
"""

#: What people add to the project: a table that streams, one that streams from it, and a view of both.
STREAMS = """
from pyspark import pipelines as dp


@dp.table
def orders():
    return spark.readStream.format("csv").schema("id INT, amount INT").load("{inbox}")


@dp.table(partition_cols=["id"])
def paid():
    return spark.readStream.table("orders").where("amount > 0")
"""
TOTALS = "CREATE MATERIALIZED VIEW totals AS SELECT sum(amount) AS total FROM paid"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the project as its users do, with tables that stream, and an empty folder of orders."""
    monkeypatch.chdir(tmp_path)
    init("shop")
    (tmp_path / "inbox").mkdir()
    streams = STREAMS.replace("{inbox}", str(tmp_path / "inbox"))
    (tmp_path / "shop" / "transformations" / "streams.py").write_text(streams, encoding="utf-8")
    (tmp_path / "shop" / "transformations" / "totals.sql").write_text(TOTALS, encoding="utf-8")
    return tmp_path


def order(folder: Path, number: int, amount: int) -> None:
    (folder / "inbox" / f"{number}.csv").write_text(f"{number},{amount}\n", encoding="utf-8")


def table(found: dict[str, bytes], name: str, column: str, under: str = "lake/tables/") -> list[int]:
    """Read a column of a table as anybody reads Parquet: all files of its folder, nothing of ours."""
    inside = [data for path, data in found.items() if path.startswith(f"{under}{name}/") and "parquet" in path]
    rows: list[int] = [
        row[column] for data in inside for row in PARQUET.ParquetFile(io.BytesIO(data)).read().to_pylist()
    ]
    return sorted(rows)


def totals(stack: Stack) -> list[list[int]]:
    """Return what the view held at each commit, oldest first."""
    found = [files(stack, commit.ref) for commit in commits(stack)]
    return [table(each, "totals", "total") for each in reversed(found) if each]


def test_a_whole_declarative_pipeline_is_one_commit_and_the_next_run_goes_on_from_it(shop: Path) -> None:
    with new_project(shop, TASKS, PIPELINE) as project:
        stack = project.stack()
        create(stack)
        for number in (1, 2):
            order(shop, number, number * 10)
            ran = project.process("run", "refresh", "--json")
            assert ran.returncode == 0, ran.stderr
        second, first, _empty = commits(stack)
        assert totals(stack) == [[10], [30]]
        before, after = files(stack, first.ref), files(stack, second.ref)
        assert table(after, "orders", "id") == [1, 2], "each order once, though the folder was another one"
        assert table(after, "paid", "amount") == [10, 20]
        assert table(after, "example_sql_materialized_view", "id") == [0, 2, 4, 6, 8]
        kept = [path for path in before if path.startswith("lake/tables/orders/")]
        assert kept, "the first run wrote orders"
        assert all(after[path] == before[path] for path in kept), "and the second one left those as they were"
        foreign = [path for path in after if "_spark_metadata" in path or path.endswith(".crc")]
        assert foreign == [], "whoever lists the folder sees the table"
        assert not any(str(shop).encode() in data for path, data in after.items() if "/_sinks/" in path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: shop", "name: shop\ncatalog: elsewhere", "catalog: elsewhere"),
        ("name: shop", "name: shop\nconfiguration:\n  spark.sql.warehouse.dir: /tmp", "spark.sql.warehouse.dir"),
    ],
)
def test_a_project_whose_tables_would_be_elsewhere_is_refused_before_spark_starts(
    shop: Path, old: str, new: str, said: str
) -> None:
    spec = shop / "shop" / "spark-pipeline.yml"
    spec.write_text(spec.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(DatasetError, match=said):
        run_pipeline(shop / "shop", shop / "workspace")
    assert not (shop / "workspace").exists()


def test_a_folder_without_a_project_and_one_spark_cannot_name_are_refused(shop: Path) -> None:
    with pytest.raises(DatasetError, match="spark-pipelines init"):
        run_pipeline(shop / "inbox", shop / "workspace")
    with pytest.raises(DatasetError, match="a space in it"):
        run_pipeline(shop / "shop", shop / "a b")


def test_a_spark_without_pipelines_is_told_from_which_one_there_are(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "find_spec", {"pyspark.pipelines": None}.__getitem__)
    with pytest.raises(SparkUnavailableError, match=r"Spark 4\.1 or newer"):
        run_pipeline(shop / "shop", shop / "workspace")


@pytest.mark.skipif(os.environ.get("PERAGO_MATRIX") != "full", reason="twenty minutes; make test-full has it")
def test_a_reader_never_sees_a_part_of_a_declarative_pipeline_however_its_workers_die(shop: Path) -> None:
    seed = int(os.environ.get("PERAGO_CRASH_SEED") or secrets.randbelow(2**32))
    draw = random.Random(seed)
    rounds = int(os.environ.get("PERAGO_DECLARATIVE_KILLS") or KILLS)
    impatient = TASKS.replace("response_timeout=60", "response_timeout=20, retries=9, retry_delay=0")
    with new_project(shop, impatient, PIPELINE) as project:
        stack = project.stack()
        ref = create(stack)
        words = pipelines_of(stack)
        assert project.process("register", **SHORT_BUDGET).returncode == 0
        pipeline = load(project.folder, {}, {}).pipelines["refresh"]
        reader = Reader(project)
        with reader.reading():
            for number in range(rounds):
                order(shop, number, 1)
                workflow = words.start("refresh", pipeline, ref, {})
                killed_worker(project, words, workflow, draw.uniform(0, 25))
                finished(project, words, workflow)
                ref = commits(stack)[0].ref
        seen = [each for each in reader.seen.values() if each]
        assert seen, "the reader saw nothing happen"
        assert all(is_whole(each, "lake/tables/") for each in seen), f"seed {seed}"
        assert table(files(stack, ref), "orders", "id") == list(range(rounds)), f"seed {seed}"
    plain = read_while_plain_pipelines_run(shop, draw, rounds)
    assert plain.partial, f"seed {seed}: nothing that a whole commit would have spared the reader of plain Spark"
    told = f"{rounds} runs of a Declarative Pipeline killed at random: {reader.looks:,} looks at `main`, 0 partial"
    note_count(
        "tests/spark/test_declarative.py::however_its_workers_die",
        f"{told}; plain `spark-pipelines` alike, {PLAIN} times: {plain.looks:,} looks, {plain.partial:,} partial",
    )


def is_whole(found: dict[str, bytes], under: str) -> bool:
    """Return whether the tables are those of one run: each order once, and each table knows of all of them."""
    orders = table(found, "orders", "id", under)
    paid, total = table(found, "paid", "amount", under), table(found, "totals", "total", under)
    return orders == list(range(len(orders))) and paid == [1] * len(orders) and total == [len(orders)]


def read_while_plain_pipelines_run(shop: Path, draw: random.Random, orders: int) -> PlainReader:
    """Run the same project without us, killed and then to its end, with more orders each time."""
    project = shop / "shop"
    assert plain_pipelines.run(project) == 0, "the first run, which nobody reads"
    reader = PlainReader(project / "spark-warehouse", lambda found: is_whole(found, ""))
    with reader.reading():
        for number in range(orders, orders + PLAIN):
            order(shop, number, 1)
            plain_pipelines.run(project, draw.uniform(5, 60))
            plain_pipelines.run(project)
    return reader
