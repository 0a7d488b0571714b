"""Data to outside and from outside: a data set by its place, with Spark and without, and inputs that are recorded."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve, frozen

from perago_core.driver import drive
from perago_core.names import staging_name
from perago_core.results import Completed, Outcome
from perago_core.values import Attempt, CommitRef
from perago_local.coordination import SqliteCoordination
from perago_local.git.store import GitStore
from perago_spark import DatasetError, SparkTask, SparkWorkspace, WarmBodies
from perago_spark.api.datasets import SparkDatasets
from perago_spark.api.external import external
from perago_spark.api.scope import DatasetScope
from perago_worker import dataset
from perago_worker.api.dataset import DatasetNotFoundError
from perago_worker.ops.inputs import forget_inputs, pin_with
from perago_worker.ops.refs import RefError
from tests.spark.lake import MAIN, Lake, done

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = dt.date(2024, 5, 1)


@frozen
class Shop:
    """A project whose branch has had orders twice, the second time with one more column."""

    folder: Path
    first: CommitRef
    second: CommitRef


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "perago.toml").write_text("tasks = []\n", "utf-8")
    (folder / "deep" / "down").mkdir(parents=True)
    store = GitStore(folder / ".perago" / "store")
    done(store.create(MAIN))
    refs: list[CommitRef] = []
    made: Any = spark
    for number, (columns, rows) in enumerate(
        {
            "id long, day date, part string": [(1, DAY, "a"), (2, None, "b")],
            "id long, day date, part string, name string": [(3, DAY, "a", "ü")],
        }.items()
    ):
        head = done(store.head(MAIN)).commit.ref
        name = staging_name(MAIN, "lake/stage", number, 0, "stage", "by-hand")
        done(store.open_staging(MAIN, name, head))
        ws = SparkDatasets(
            spark,
            DatasetScope(f"run-{number}", store.read(MAIN.repository, head), "", read_only=False),
            partial(store.sink, MAIN, name),
        )
        frame = made.createDataFrame(rows, columns).coalesce(1)
        ws.write("sales/orders", frame, mode="append", partition_by=["part"], merge_schema=True)
        staged = done(store.commit(MAIN, name, "a test"))
        refs.append(CommitRef(staged.commit))
        _move(folder, refs[-1])
    return Shop(folder, *refs)


def _move(folder: Path, ref: CommitRef) -> None:
    """Let the branch show a commit, as a publication would."""
    import pygit2  # noqa: PLC0415  only here

    repository = pygit2.Repository(str(folder / ".perago" / "store" / "lake.git"))
    repository.references.create("refs/heads/main", pygit2.Oid(hex=str(ref)), force=True)


ALL = [(1, DAY, "a", None), (2, None, "b", None), (3, DAY, "a", "ü")]


def test_a_notebook_names_a_data_set_by_its_place(spark: SparkSession, shop: Shop) -> None:
    """Its head, a commit by the beginning of its id, and a branch."""

    def rows(place: str) -> list[tuple[Any, ...]]:
        reader = spark.read.format("perago").option("project", str(shop.folder / "deep" / "down"))
        found: Any = reader.load(place)
        return sorted(tuple(each) for each in found.collect())

    assert rows("lake/main/sales/orders") == rows("lake/main/sales/orders@main") == ALL
    assert rows(f"lake/main/sales/orders@{shop.first[:8]}") == [each[:3] for each in ALL[:2]]
    with pytest.raises(Exception, match="expected REPOSITORY/BRANCH/NAME, such as lake/main/orders"):
        rows("orders")


@pytest.mark.parametrize("reader", ["pandas", "polars", "duckdb", "arrow"])
def test_whoever_has_no_spark_reads_it_by_one_call(shop: Shop, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reader != "arrow":
        pytest.importorskip(reader)
    monkeypatch.chdir(shop.folder / "deep")
    found: Any = getattr(dataset("lake/main/sales/orders"), reader)()
    assert sorted(tuple(each.values()) for each in _arrow(reader, found).to_pylist()) == ALL


def _arrow(reader: str, found: Any) -> Any:  # noqa: ANN401  whatever the reader gave
    """Make a table of Arrow of it, to be compared."""
    from perago_spark.format.arrow import pa  # noqa: PLC0415  only with Arrow

    if reader == "pandas":
        return pa.Table.from_pandas(found, preserve_index=False)
    if reader == "polars":
        return found.to_arrow()
    if reader == "duckdb":
        table = found.arrow()
        return table.read_all() if hasattr(table, "read_all") else table
    return found


def test_the_files_of_a_commit_are_fetched_once(shop: Shop) -> None:
    pd: Any = pytest.importorskip("pandas")
    found = dataset(f"lake/main/sales/orders@{shop.first}", project=shop.folder)
    files = found.files()
    assert len(files) == 2
    times = [each.stat().st_mtime_ns for each in files]
    assert [each.stat().st_mtime_ns for each in found.files()] == times
    frame = pd.read_parquet(found)
    assert sorted(frame["id"]) == [1, 2]
    assert not list(found.fetch().rglob(".*")), "nothing half is left"


def test_what_is_not_there_is_said(shop: Shop, tmp_path: Path) -> None:
    for place, folder, kind, says in (
        ("lake/main/nothing", shop.folder, DatasetNotFoundError, "found nothing at "),
        ("lake/main", shop.folder, DatasetNotFoundError, "expected REPOSITORY/BRANCH/NAME"),
        ("lake/other/sales/orders", shop.folder, RefError, "there is no such branch"),
        ("lake/main/sales/orders@ffffffff", shop.folder, RefError, "ffffffff"),
        ("lake/main/sales/orders", tmp_path, DatasetNotFoundError, "expected perago.toml in"),
    ):
        with pytest.raises(kind, match=says):
            dataset(place, project=folder)


# ---- Inputs from outside


@pytest.fixture
def inputs(lake: Lake, bodies: WarmBodies, tmp_path: Path) -> SparkWorkspace:
    tasks = {"reads_from_outside": SparkTask("reads_from_outside", prefix="sales/", timeout=240.0)}
    coordination = SqliteCoordination(tmp_path / "coordination.db")
    return SparkWorkspace(lake.store, tasks, bodies, pin=pin_with(coordination))


def test_what_was_read_from_outside_is_recorded_beside_the_result_and_a_retry_is_held_to_it(
    inputs: SparkWorkspace, lake: Lake, tmp_path: Path
) -> None:
    """The first attempt reads a file and fails; the file changes; the second says so, and a new run reads it."""
    raw = tmp_path / "raw.csv"
    raw.write_text("id\n1\n2\n")
    params = {"path": str(raw)}

    def tried(attempt: Attempt, **more: bool) -> Outcome:
        inputs.accept(attempt, "reads_from_outside", json.dumps({**params, **more}))
        return drive(attempt, lake.ports(inputs))

    first = lake.attempt("reads_from_outside")
    assert "later" in str(tried(first, fail=True))
    raw.write_text("id\n1\n2\n3\n")
    retry = evolve(lake.attempt("reads_from_outside"), logical_task=first.logical_task)
    outcome = tried(retry)
    assert f"expected {raw} as an earlier attempt of this task read it: 1 file(s), 7 bytes, sha256:" in str(outcome)
    assert "found 1 file(s), 9 bytes" in str(outcome)
    outcome = tried(evolve(lake.attempt("reads_from_outside"), logical_task="another/run"))
    assert isinstance(outcome.result, Completed), outcome
    with done(lake.source().get("sales/raw/_inputs.json")) as stream:
        (kept,) = json.load(stream)["inputs"]
    digest = hashlib.sha256(raw.read_bytes()).hexdigest()
    assert kept == {"path": str(raw), "files": 1, "size": 9, "digest": f"sha256:{digest}"}


def test_an_input_that_changes_while_it_is_read_fails_the_task(
    inputs: SparkWorkspace, lake: Lake, tmp_path: Path
) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_text("id\n1\n")
    before = lake.head
    outcome = lake.run(inputs, "reads_from_outside", json.dumps({"path": str(raw), "change": True}))
    assert "to stay as it is while the task reads it; found it was changed meanwhile" in str(outcome)
    assert lake.head == before


def test_the_identity_of_a_folder_is_that_of_all_its_files(tmp_path: Path) -> None:
    for name in ("a.csv", "day=1/b.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = external(str(tmp_path))
    assert (found.identity.files, found.identity.size, found.address) == (2, 16, tmp_path.as_uri())
    assert external(tmp_path.as_uri()).identity == found.identity
    (tmp_path / "day=1" / "b.csv").write_text("day=1/c.csv")
    assert external(str(tmp_path)).identity != found.identity
    for place, says in ((str(tmp_path / "no"), "found no file there"), ("ftp://host/x", "expected a path of this")):
        with pytest.raises(DatasetError, match=says):
            external(place)


def test_inputs_are_forgotten_once_their_workflow_is_long_over(tmp_path: Path, lake: Lake) -> None:
    coordination = SqliteCoordination(tmp_path / "coordination.db")
    pin = pin_with(coordination)
    one, two = (evolve(lake.attempt("reads_from_outside"), logical_task=f"{run}/step") for run in "ab")
    for attempt in (one, two):
        assert done(pin(attempt, "/raw", "first")) == "first"
        assert done(pin(attempt, "/raw", "second")) == "first"

    class Over:
        """An orchestrator that has seen the end of one of them."""

        def settled(
            self, logical_tasks: Collection[str], older_than: float, *, unknown: bool = False
        ) -> frozenset[str]:
            assert (older_than, unknown) == (9.0, False)
            return frozenset({one.logical_task}) & frozenset(logical_tasks)

        def delivery(self, task_id: str) -> None:
            raise AssertionError(task_id)

    assert forget_inputs(coordination, Over(), older_than=9.0, dry_run=True) == 1
    assert forget_inputs(coordination, Over(), older_than=9.0) == 1
    assert done(pin(one, "/raw", "third")) == "third"
    assert done(pin(two, "/raw", "third")) == "first"
