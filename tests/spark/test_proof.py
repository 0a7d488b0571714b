"""What batches show of their rows: a proof that holds is Spark's own answer, and gates are met by it in one pass."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from perago_spark import (
    Gate,
    GateError,
    accepted_values,
    foreign_key,
    freshness,
    in_range,
    not_null,
    predicate,
    unique,
)
from perago_spark.api.gates import Checks, Counts
from perago_spark.format import proof
from perago_spark.format.arrow import pa
from perago_spark.format.proof import Distinct, Evidence, Proof, Provable, proven
from tests.spark.lake import Lake, TaskRunner, datasets

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id long, small tinyint, amount double, rate float, name string, day date, at timestamp, flag boolean"
DAY = dt.date(2024, 5, 1)
NOW = dt.datetime.now(tz=dt.UTC)
#: What each column may hold: what is usual, and what Arrow and Spark might not agree about.
VALUES: dict[str, tuple[Any, ...]] = {
    "id": (1, 2, 3, -(1 << 63), (1 << 63) - 1, None),
    "small": (0, 1, 127, -128, None),
    "amount": (0.0, -0.0, 1.5, 100.0, math.inf, -math.inf, math.nan, None),
    "rate": (0.0, 0.1, 100.0, math.nan, None),
    "name": ("a", "b", "", "A", "ä", None),
    "day": (DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31), None),
    "at": (NOW, dt.datetime(1900, 1, 1, tzinfo=dt.UTC), NOW - dt.timedelta(hours=30), None),
    "flag": (True, False, None),
}
GATES: tuple[Gate, ...] = (
    *(not_null(each) for each in VALUES),
    not_null("id", "name"),
    *(unique(each) for each in ("id", "amount", "rate", "name", "at")),
    unique("id", "name", "day"),
    unique("flag", "small"),
    in_range("id", 1, 3),
    in_range("small", -128),
    in_range("amount", 0, 100),
    in_range("amount", None, math.inf),
    in_range("amount", -0.0),
    in_range("rate", 0, 0.1),
    in_range("day", DAY, dt.date(9999, 12, 31)),
    accepted_values("id", 1, 2, 3),
    accepted_values("small", 0, 1, 300),
    accepted_values("name", "a", "b", None),
    accepted_values("name", "", "A", "ä"),
    accepted_values("day", DAY),
    freshness("at", hours=24),
    foreign_key("id", of="known", key="nr"),
    foreign_key("small", of="known", key="nr"),
    foreign_key("name", of="known", key="word"),
)


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    found = TaskRunner(spark, lake)
    with found.task() as ws:
        known = cast("Any", spark).createDataFrame([(1, "a"), (2, "b"), (None, None)], "nr int, word string")
        ws.write("known", known.coalesce(1))
    return found


def test_a_proof_that_holds_is_what_spark_counts(runner: TaskRunner) -> None:
    """Never the other way round; and for values about which nothing is strange a proof is found."""
    draw = random.Random(7)
    ws = datasets(runner.spark, runner.lake, runner.at)
    kinds = {each.split()[0]: each.split()[1] for each in COLUMNS.split(", ")} | {"id": "bigint"}
    checks = Checks.proving(GATES, ws._provable(kinds))
    assert not ws._provable({"a.b": "bigint"}).kinds, "to Spark the field of a column"
    held = unknown = 0
    for number in range(4):
        plain = number % 2 == 0
        rows = [
            tuple(draw.choice(values[: 2 if plain else None]) for values in VALUES.values())
            for _ in range(draw.choice((1, 2, 40)))
        ]
        frame = cast("Any", runner.spark).createDataFrame(rows, COLUMNS)
        counting = Checks.counting(GATES)
        asked = [each.alias(to) for to, each in counting.figures().items()]
        (figures,) = counting.prepared(frame, ws, "").agg(*asked).collect()
        told = counting.verdicts(figures.asDict(), Counts(0, len(rows), len(rows)))
        batches = frame.toArrow().to_batches(max_chunksize=draw.choice((1, 7, 100)))
        for at, shown in checks.proofs.items():
            evidence = Evidence([shown])
            assert sum(each.num_rows for each in evidence.watching(batches)) == len(rows)
            if proven([shown], [evidence.shown]):
                held += 1
                assert told[at].passed, (told[at], rows)
            else:
                unknown += plain and told[at].passed
    assert held > 15
    assert unknown == 0, "what passes is proven for values such as these"
    unproven = [gate.label for number, gate in enumerate(GATES) if number not in checks.proofs]
    assert unproven == ["unique(amount)", "unique(rate)", "in_range(amount, None, inf)"]


def test_what_arrow_and_spark_may_compare_differently_is_left_to_spark() -> None:
    kinds = {"id": "bigint", "amount": "double", "price": "decimal(9,2)", "at": "timestamp_ntz", "name": "string"}
    gates = (
        in_range("amount", math.nan),
        in_range("price", 0),
        in_range("id", 0.5),
        in_range("id", least=False),
        accepted_values("name", 1),
        accepted_values("id", "1"),
        unique("amount"),
        freshness("at", hours=1),
        not_null("ID"),
        predicate("id > 0"),
    )
    foreign = (foreign_key("id", of="known", key="word"), foreign_key("amount", of="known", key="word"))
    provable = Provable(kinds, lambda _name, _key: pa.array(["1"]))
    assert Checks.proving((*gates, *foreign), provable).proofs == {}
    assert Checks.proving(gates, None).proofs == {}


def batch(*numbers: int | None) -> Any:  # noqa: ANN401  Arrow's
    return pa.RecordBatch.from_pydict({"id": pa.array(numbers, pa.int64())})


def shown(by: Proof, *batches: Any) -> list[list[Any]]:  # noqa: ANN401  as above
    evidence = Evidence([by])
    assert [each.num_rows for each in evidence.watching(batches)] == [each.num_rows for each in batches]
    return evidence.shown


def test_two_tasks_with_one_key_are_not_proven_unique_nor_more_keys_than_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by = Distinct(("id",))
    first, second, third = shown(by, batch(1, 2), batch(3)), shown(by, batch(4, None, None)), shown(by, batch(2))
    assert proven([by], [first, second])
    assert not proven([by], [first, third])
    assert not proven([by], [shown(by, batch(5, 6), batch(5))])
    assert proven([by], [])
    monkeypatch.setattr(proof, "KEYS", 3)
    assert proven([by], [shown(by, batch(1, 2, 3))])
    assert not proven([by], [shown(by, batch(1, 2)), shown(by, batch(3, 4))]), "too many for the driver"
    monkeypatch.setattr(proof, "_PIECE", 1)
    assert shown(by, batch(1, 2), batch(3, 4))[0][1] is None, "too many for a message"


def _counting(folder: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Pass rows on, and leave a file for each run of a task."""
    from pyspark import TaskContext  # noqa: PLC0415  in Spark's own process

    task = TaskContext.get()
    assert task is not None
    Path(folder, f"{task.taskAttemptId()}").touch()
    yield from batches


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_rows_that_pass_are_computed_once_and_others_counted_in_a_second_run(
    runner: TaskRunner, tmp_path: Path, via: Literal["arrow", "native"]
) -> None:
    def rows(folder: Path) -> DataFrame:
        folder.mkdir()
        frame = cast("Any", runner.spark.range(0, 100, 1, 2))
        return cast("DataFrame", frame.mapInArrow(partial(_counting, str(folder)), "id long"))

    gates = [not_null("id"), in_range("id", 0, 99), predicate("id < 100")]
    ws = datasets(runner.spark, runner.lake, runner.at)
    ws.write("numbers", rows(tmp_path / "good"), gates=gates, via=via)
    assert len(list((tmp_path / "good").iterdir())) == 2, "one run of each task"
    for number, wrong in enumerate((predicate("id < 90"), in_range("id", 10))):
        ws = datasets(runner.spark, runner.lake, runner.at)
        with pytest.raises(GateError, match=r"found 10 row\(s\)"):
            ws.write("numbers", rows(tmp_path / f"{number}"), gates=[*gates, wrong], via=via)
        assert len(list((tmp_path / f"{number}").iterdir())) > 2


def test_rows_that_do_not_pass_are_added_once(runner: TaskRunner) -> None:
    """The first run of an append has uploaded them, too."""
    with runner.task() as ws:
        ws.write("numbers", ws.spark.range(0, 10, 1, 2))
    ws = datasets(runner.spark, runner.lake, runner.at)
    with pytest.raises(GateError, match=r"1 row\(s\) outside"):
        ws.write("numbers", ws.spark.range(10, 20, 1, 2), mode="append", gates=[in_range("id", 0, 18)])
    made = runner.lake.committed()
    assert made is not None
    runner.at = made
    assert runner.rows("numbers") == list(range(20))
