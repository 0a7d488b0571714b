"""Filters leave out only files that Spark itself would find nothing in: judged by Spark, filter by filter."""

from __future__ import annotations

import datetime as dt
import decimal
import operator
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest
from attrs import frozen

from perago_core.values import CommitRef
from perago_spark.format.pruning import OPERATIONS, condition, may_match
from perago_spark.format.seal import DataFile, dataset_of
from tests.spark.lake import Lake, TaskRunner, datasets, done

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, DateTimeException, NumberFormatException
from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from perago_spark.format.arrow import pq

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAME = "orders"
#: One file each. The texts of ``words`` are days to Spark, and sort otherwise.
DAYS = [
    ("2024-05-01", "2024-5-1", "2024-05-31"),
    ("2024-10-05", "2024-10-1", "2024-10-31"),
    ("0001-01-01", "1999-12-31", " 2024-6-1"),
    (None, None, "2024-5"),
]
COLUMNS = {
    "day": "cast(word as date)",
    "word": "word",
    "small": "cast(id as tinyint)",
    "whole": "cast(id * 1000 as int)",
    "big": "id * 10000000000",
    "flag": "id < 5",
    "price": "cast(id as decimal(9, 2))",
    "share": "cast(id as double)",
    "moment": "cast(cast(word as date) as timestamp)",
    "wall": "cast(cast(word as date) as timestamp_ntz)",
    "raw": "cast(word as binary)",
}
VALUES: tuple[Any, ...] = (
    *(
        "2024-05-03",
        "2024-5-3",
        "2024-05-31",
        "2024-5-31",
        "2024-05-31 00:00:00",
        "2024-05-31T23:59:59",
        " 2024-05-31 ",
    ),
    *("2024-05", "2024", "2024-10-1", "2024-10-01", "0001-01-01", "20240531"),
    *("5", "5000", "5.0", "true", ""),
    *(dt.date(2024, 5, 1), dt.date(2024, 5, 31), dt.date(2024, 6, 1), dt.date(2024, 10, 1), dt.date(1999, 12, 31)),
    *(dt.datetime(2024, 5, 31, tzinfo=dt.UTC), dt.datetime(2024, 5, 31)),  # noqa: DTZ001  both kinds are written
    *(0, 1, 5, 5000, 50_000_000_000, 2**31, -(2**62), True, False),
    *(5.0, 4.5, float("nan"), decimal.Decimal("5.00"), decimal.Decimal("4.995"), decimal.Decimal("5E3")),
    *(None, b"2024-05-31"),
)
MANY: tuple[list[Any], ...] = (
    ["2024-5-3", "2024-05-31"],
    [dt.date(2024, 5, 31), "2024-5-3"],
    [dt.date(2024, 10, 1), dt.date(1999, 12, 31)],
    ["2024-5-1", "1999-12-31"],
    [1, 5, 5000],
    [5, 5.0],
    [True, 0],
    [None, 5],
    [],
)
Filter: TypeAlias = tuple[str, str, Any]
COMPARISONS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
assert {*COMPARISONS, "in"} == {*OPERATIONS}
#: Filters that ask the same thing of one column: Spark has an answer to all of them, or to none.
GROUPS: tuple[tuple[Filter, ...], ...] = (
    *(tuple((column, each, value) for each in COMPARISONS) for column in COLUMNS for value in VALUES),
    *(((column, "in", values),) for column in COLUMNS for values in MANY),
)
#: What people ask for, and what must go on saving work.
USEFUL: tuple[Filter, ...] = (
    ("day", "=", dt.date(2024, 10, 5)),
    ("day", ">=", "2024-10-01"),
    ("day", "in", ["2024-10-05", dt.date(2024, 10, 1)]),
    ("word", "=", "2024-10-1"),
    ("small", "<", 3),
    ("whole", "=", 5000),
    ("big", ">", 50_000_000_000),
    ("flag", "=", False),
)


def column(name: str, operation: str, value: Any) -> Column:  # noqa: ANN401  any value of a filter
    found = F.col(name)
    return found.isin(value) if operation == "in" else cast("Column", COMPARISONS[operation](found, value))


def table(spark: SparkSession) -> DataFrame:
    lines = [(3 * at + each, word) for at, words in enumerate(DAYS) for each, word in enumerate(words)]
    plain: DataFrame = cast("Any", spark).createDataFrame(lines, "id long, word string")
    return plain.selectExpr("id", *(f"{made} {name}" for name, made in COLUMNS.items()))


@frozen
class Answer:
    """Spark's own: the rows that meet a filter, with no file left out."""

    wanted: Filter
    rows: frozenset[int]


def answered(rows: DataFrame, filters: list[Filter]) -> Iterator[Answer]:
    """Ask Spark, many filters at a time."""
    found = rows.select("id", *(column(*each).alias(f"f{at}") for at, each in enumerate(filters))).collect()
    for at, each in enumerate(filters):
        yield Answer(each, frozenset(row["id"] for row in found if row[f"f{at}"]))


def askable(rows: DataFrame) -> Iterator[tuple[Filter, ...]]:
    """Return what Spark compares at all; a day and a number, it does not."""
    for group in GROUPS:
        with suppress(AnalysisException):
            rows.select(*(column(*each) for each in group))
            yield group


@contextmanager
def ansi(spark: SparkSession, *, enabled: bool) -> Generator[DataFrame]:
    """Return the table to a Spark that refuses what cannot be cast, or lets it meet no filter."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", str(enabled).lower())
    rows = table(spark).coalesce(1).cache()
    yield rows
    rows.unpersist()
    spark.conf.set("spark.sql.ansi.enabled", str(before))


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> list[Answer]:
    with ansi(spark, enabled=False) as rows:
        groups = list(askable(rows))
        filters = [each for group in groups for each in group]
        found = [each for at in range(0, len(filters), 200) for each in answered(rows, filters[at : at + 200])]
    with ansi(spark, enabled=True) as rows:
        for group in askable(rows):
            ((name, _, value), *_more) = group
            if name in {"day", "word"} and isinstance(value, str | dt.date | list):
                with suppress(DateTimeException, NumberFormatException):  # no answer, but an error
                    found += answered(rows, list(group))
    return found


@frozen
class Stored:
    """The table as a data set of several files."""

    files: tuple[DataFile, ...]
    rows: dict[str, set[int]]
    kinds: dict[str, str]
    lake: Lake
    at: CommitRef

    def left_out(self, wanted: Filter) -> set[str]:
        """Name the files that are not read."""
        name, operation, value = wanted
        made = condition(name, operation, value if operation == "in" else [value])
        if made is None:
            return set()
        return {each.path for each in self.files if not may_match([made], self.kinds, each.ranges, each.partition)}


@pytest.fixture(params=["arrow", "native", "arrow by day,small", "arrow by word,flag", "native by day,whole"])
def stored(spark: SparkSession, lake: Lake, request: pytest.FixtureRequest) -> Stored:
    via, _, by = str(request.param).partition(" by ")
    rows = table(spark)
    runner = TaskRunner(spark, lake)
    with runner.task() as ws:
        parts = rows.repartitionByRange(len(DAYS), "id")
        ws.write(NAME, parts, partition_by=by.split(",") if by else (), via=cast("Any", via))
    source = lake.source(runner.at)
    files = dataset_of(source, f"{NAME}/").files
    assert len(files) >= len(DAYS)
    held = {each.path: pq.read_table(BytesIO(done(source.get(each.path)).read())).column("id") for each in files}
    kinds = {each.name: each.dataType.simpleString() for each in rows.schema.fields}
    return Stored(files, {path: set(ids.to_pylist()) for path, ids in held.items()}, kinds, lake, runner.at)


def test_no_filter_leaves_out_a_file_in_which_spark_finds_a_row(stored: Stored, answers: list[Answer]) -> None:
    """Counterexamples, seen: ``day = '2024-5-3'`` and ``day = '2024-05-31 00:00:00'`` lost the rows of May."""
    lost = [
        (each.wanted, path, rows)
        for each in answers
        for path in stored.left_out(each.wanted)
        if (rows := stored.rows[path] & each.rows)
    ]
    assert lost == []
    assert len(answers) > len(GROUPS)


@pytest.mark.parametrize("stored", ["arrow", "native"], indirect=True)
def test_what_is_understood_leaves_files_unread(stored: Stored) -> None:
    assert [each for each in USEFUL if not stored.left_out(each)] == []


@pytest.mark.parametrize("stored", ["arrow", "arrow by word,flag"], indirect=True)
def test_a_read_with_filters_has_the_rows_of_one_without(spark: SparkSession, stored: Stored) -> None:
    """Down to the row groups, and on the way there through Spark's options: a day arrives as a day."""
    filters: list[Filter] = [
        ("day", "=", "2024-5-1"),
        ("day", ">=", "2024-10-1"),
        ("day", "=", "2024-05-31 00:00:00"),
        ("day", "in", [dt.date(2024, 10, 1), "2024-5-31"]),
        ("day", "=", dt.date(2024, 10, 5)),
        ("word", "=", dt.date(2024, 10, 1)),
        ("word", "<", dt.date(2024, 5, 2)),
        ("word", "=", "2024-10-1"),
        ("flag", "=", True),
    ]
    ws = datasets(spark, stored.lake, stored.at)
    found = [{row["id"] for row in ws.read(NAME, filters=[each]).select("id").collect()} for each in filters]
    assert found == [each.rows for each in answered(table(spark), filters)]
    assert all(found)


def test_what_python_has_no_value_for_is_written_and_read(spark: SparkSession, lake: Lake) -> None:
    """The year 10000, for days and points in time: no range, and the file is always read."""
    runner = TaskRunner(spark, lake)
    moments = "timestamp_seconds(253402300800) moment", "date_add(date'9999-12-31', 1) day", "id"
    with runner.task() as ws:
        ws.write(NAME, spark.range(3).selectExpr(*moments))
    found = datasets(spark, lake, runner.at).read(NAME, filters=[("day", ">", dt.date(9999, 12, 31))])
    assert found.select("id").count() == 3
