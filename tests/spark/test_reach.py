"""What Spark can reach: its own staging name, and nothing else of the repository (acceptance 5, P-23)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perago_core import ports
from perago_local.git.repository import HEADS, STAGED, folder_of, opened
from perago_spark import DatasetError
from tests.spark.frames import numbers
from tests.spark.lake import Lake
from tests.spark.task_runner import TaskRunner

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2] / "adapters"


def refs(lake: Lake) -> dict[str, str]:
    """Give all that can be moved in the repository, and where it stands."""
    repository = opened(folder_of(lake.folder, lake.target.repository))
    return {each: str(repository.references[each].target) for each in repository.references}


def moved(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before | after if before.get(name) != after.get(name)}


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    """Two appends: something to add to, to replace and to compact."""
    made = TaskRunner(spark, lake)
    for _ in range(2):
        with made.task() as ws:
            ws.write("orders", numbers(spark, 100, 2), mode="append", partition_by=["k"])
    return made


@pytest.mark.parametrize("via", ["arrow", "native"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_moves_its_own_staging_name_and_nothing_else(runner: TaskRunner, via: Any, mode: Any) -> None:  # noqa: ANN401  literals
    """On every route in every mode; all refs are compared, claims and other branches too."""
    before = refs(runner.lake)
    with runner.task() as ws:
        ws.write("orders", numbers(runner.spark, 50, 2), mode=mode, via=via, partition_by=["k"])
        ws.write("others", numbers(runner.spark, 50, 2), mode=mode, via=via)
        assert ws.read("orders").count() == 200
        name = runner.lake.staging
        assert moved(before, refs(runner.lake)) == {f"{STAGED}{name}", f"{HEADS}{name}"}
        # The branch of that name is made by whoever opens it, at the input, and stands there until it is committed.
        assert refs(runner.lake)[f"{HEADS}{name}"] == str(runner.at)
    assert runner.at != runner.lake.head


def test_a_compaction_moves_its_own_staging_name_and_nothing_else(runner: TaskRunner) -> None:
    before = refs(runner.lake)
    with runner.task(maintenance=True) as ws:
        assert ws.compact("orders").changed
        name = runner.lake.staging
        assert moved(before, refs(runner.lake)) == {f"{STAGED}{name}", f"{HEADS}{name}"}


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_a_write_that_fails_moves_nothing_that_was_there(runner: TaskRunner, via: Any) -> None:  # noqa: ANN401  a literal
    before = refs(runner.lake)
    with pytest.raises(Exception, match="never"), runner.task() as ws:
        ws.write("orders", runner.spark.range(10).selectExpr("raise_error('never') x"), via=via)
    assert {name: where for name, where in refs(runner.lake).items() if name in before} == before


def test_reading_moves_nothing(runner: TaskRunner) -> None:
    before = refs(runner.lake)
    with runner.task() as ws:
        assert (ws.read("orders").count(), ws.rows("orders")) == (200, 200)
        with pytest.raises(DatasetError):
            ws.read("nowhere")
    assert refs(runner.lake) == before


def calls(port: type) -> set[str]:
    return {each for each in vars(port) if not each.startswith("_")}


def nodes() -> Iterator[ast.AST]:
    places = [*(ROOT / "perago_spark").rglob("*.py"), *(ROOT / "pyspark_perago").rglob("*.py")]
    assert len(places) > 30
    for place in places:
        yield from ast.walk(ast.parse(place.read_text("utf-8")))


def test_the_port_that_spark_writes_through_can_change_no_branch() -> None:
    assert calls(ports.Sink) == {"put", "link", "list", "seal"}
    assert calls(ports.Source) == {"get", "list"}


def test_no_code_of_the_adapter_names_a_store_or_what_only_a_store_can_do() -> None:
    """Not ``publish``, ``claim``, ``drop`` or any other, as a call, an attribute or a word to find one by."""
    only_stores = calls(ports.Store) - {"read", "sink"}
    assert {"publish", "claim", "commit", "drop", "open_staging", "staging_names"} <= only_stores
    for node in nodes():
        match node:
            case ast.ImportFrom(module="perago_core.ports", names=names):
                assert {each.name for each in names} <= {"Sink", "Source", "Stored"}
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                assert not [each for each in names if each.name in {"perago_core", "ports", "Store"}]
            case ast.Attribute(attr=word) | ast.Constant(value=str(word)):
                assert word not in only_stores | {"Store"}, ast.unparse(node)
            case _:
                pass
