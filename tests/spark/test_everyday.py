"""What people do every day: a new column, rows put in by key, other formats, files of a wanted size and order."""

from __future__ import annotations

import datetime as dt
import decimal
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from perago_core.values import CommitRef
from perago_spark import DatasetError, SparkSettings, SparkUnavailableError
from perago_spark.format.layout import MARK
from perago_spark.format.seal import dataset_of
from perago_spark.source import native
from perago_worker.api.errors import UserError
from perago_worker.config.settings import SparkSection
from perago_worker.spark import spark_settings
from tests.spark.lake import Lake, TaskRunner, datasets, done

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Route = Literal["arrow", "native"]


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    return TaskRunner(spark, lake)


def frame(spark: SparkSession, schema: str, *rows: Any) -> DataFrame:  # noqa: ANN401  rows
    made: DataFrame = cast("Any", spark).createDataFrame(list(rows), schema)
    return made.coalesce(1)


def found(runner: TaskRunner, name: str = "orders") -> list[Any]:
    """Read a data set at the newest commit, as rows sorted by their first column."""
    rows: list[Any] = datasets(runner.spark, runner.lake, runner.at).read(name).collect()
    return sorted((tuple(each) for each in rows), key=lambda each: each[0])


# ---- A new column


def test_without_the_option_the_new_column_is_named_and_so_is_the_option(runner: TaskRunner) -> None:
    with runner.task() as ws:
        ws.write("orders", frame(ws.spark, "id long, day string", (1, "mon")))
    with (
        pytest.raises(DatasetError, match=r"found channel: string is new\. .*merge_schema=True"),
        runner.task() as ws,
    ):
        ws.write("orders", frame(ws.spark, "id long, day string, channel string", (2, "tue", "web")), mode="append")


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_a_new_column_is_added_and_old_rows_have_nothing_in_it(runner: TaskRunner, via: Route) -> None:
    """Files are left as they are; the columns are those of all writes, in whatever order each had them."""
    with runner.task() as ws:
        ws.write("orders", frame(ws.spark, "id long, day string", (1, "mon")), partition_by=["day"], via=via)
    before = {each for each in runner.lake.paths(runner.at) if each.endswith(".parquet")}
    with runner.task() as ws:
        more = frame(ws.spark, "channel string, id long, day string", ("web", 2, "tue"))
        written = ws.write("orders", more, mode="append", partition_by=["day"], merge_schema=True, via=via)
        assert (written.rows, written.changed) == (1, True)
    with runner.task() as ws:  # and a frame from before the column was there
        old = frame(ws.spark, "id long, day string", (3, "wed"))
        ws.write("orders", old, mode="append", partition_by=["day"], merge_schema=True, via=via)
    assert found(runner) == [(1, "mon", None), (2, "tue", "web"), (3, "wed", None)]
    assert before < set(runner.lake.paths(runner.at))
    assert any(each.endswith(MARK) for each in runner.lake.paths(runner.at))
    assert datasets(runner.spark, runner.lake, runner.at).read("orders", columns=["channel"]).count() == 3


def test_a_data_set_with_an_added_column_can_be_compacted_and_replaced_by_itself(runner: TaskRunner) -> None:
    """Its rows have one digest, whether a column is missing in their file or there with nothing in it."""
    with runner.task() as ws:
        ws.write("orders", frame(ws.spark, "id long", (1,), (2,)))
    with runner.task() as ws:
        more = frame(ws.spark, "id long, channel string", (3, "web"))
        ws.write("orders", more, mode="append", merge_schema=True)
    at = runner.at
    with runner.task() as ws:
        assert not ws.write("orders", ws.read("orders")).changed
    assert runner.at == at
    with runner.task(maintenance=True) as ws:
        assert ws.compact("orders").files == 1
    assert found(runner) == [(1, None), (2, None), (3, "web")]


def test_a_day_that_is_run_again_may_bring_a_column(runner: TaskRunner) -> None:
    with runner.task() as ws:
        rows = frame(ws.spark, "id long, day string", (1, "mon"), (2, "tue"))
        ws.write("orders", rows, partition_by=["day"])
    with runner.task() as ws:
        again = frame(ws.spark, "id long, day string, channel string", (20, "tue", "web"))
        ws.write("orders", again, partition_by=["day"], mode="overwrite_partitions", merge_schema=True)
    assert found(runner) == [(1, "mon", None), (20, "tue", "web")]


def test_a_type_that_would_change_and_a_name_that_spark_cannot_tell_apart_are_refused(runner: TaskRunner) -> None:
    with runner.task() as ws:
        ws.write("orders", frame(ws.spark, "id long, day string", (1, "mon")))
    for columns, says in (("id string, day string", "id: string instead of long"), ("id long, Day string", "Day besi")):
        ws = datasets(runner.spark, runner.lake, runner.at)
        with pytest.raises(DatasetError, match=says):
            ws.write("orders", frame(ws.spark, columns, *_one(columns)), mode="append", merge_schema=True)


def _one(columns: str) -> list[tuple[Any, str]]:
    return [("1" if columns.startswith("id string") else 1, "mon")]


# ---- By key


def test_rows_replace_those_with_the_same_key_and_others_stay(runner: TaskRunner) -> None:
    people = "id long, name string, day string"
    with runner.task() as ws:
        first = ws.upsert("people", frame(ws.spark, people, (1, "a", "mon"), (2, "b", "tue")), keys=["id"])
        assert (first.rows, dict(first.values)) == (2, {"given": 2, "replaced": 0})
    with runner.task() as ws:
        # Bob has moved to another day: his old row goes, wherever it is.
        written = ws.upsert("people", frame(ws.spark, people, (2, "bob", "wed"), (3, "c", "mon")), keys=["id"])
        assert (written.rows, written.changed) == (3, True)
        assert dict(written.values) == {"given": 2, "replaced": 1}
    assert found(runner, "people") == [(1, "a", "mon"), (2, "bob", "wed"), (3, "c", "mon")]
    at = runner.at
    with runner.task() as ws:
        again = ws.upsert("people", frame(ws.spark, people, (3, "c", "mon"), (2, "bob", "wed")), keys=["id"])
    assert (again.changed, runner.at) == (False, at)


def test_partitions_and_new_columns_of_an_upsert(runner: TaskRunner) -> None:
    with runner.task() as ws:
        ws.upsert("people", frame(ws.spark, "id long, day string", (1, "mon")), keys=["id"], partition_by=["day"])
    more = "id long, day string, mail string"
    with pytest.raises(DatasetError, match=r"mail: string is new\. .*merge_schema=True"), runner.task() as ws:
        ws.upsert("people", frame(ws.spark, more, (2, "tue", "x")), keys=["id"])
    with runner.task() as ws:
        ws.upsert("people", frame(ws.spark, more, (2, "tue", "x")), keys=["id"], merge_schema=True)
    assert found(runner, "people") == [(1, "mon", None), (2, "tue", "x")]
    assert dataset_of(runner.lake.source(runner.at), "people/").seals[0].partition_by == ("day",)


def test_two_rows_of_one_key_and_a_row_without_one_are_refused(runner: TaskRunner) -> None:
    people = "id long, country string, name string"
    twice = frame(runner.spark, people, (1, "de", "a"), (7, "fr", "b"), (7, "fr", "c"), (9, "it", "d"))
    without = frame(runner.spark, people, (None, "de", "a"), (None, "de", "b"))
    for rows, says in (
        (twice, r'expected one row for each key \(id, country\) .* found more than one with {"id":7,"country":"fr"}'),
        (without, r"expected a value in each key column \(id, country\) .* found 2 row\(s\) without one"),
    ):
        ws = datasets(runner.spark, runner.lake, runner.at)
        with pytest.raises(DatasetError, match=says):
            ws.upsert("people", rows, keys=["id", "country"])
        assert ws.unfinished == ("people",)
    ws = datasets(runner.spark, runner.lake, runner.at)
    with pytest.raises(DatasetError, match=r"expected keys= among the columns .* found nr"):
        ws.upsert("people", twice, keys=["nr"])


def test_an_upsert_after_a_write_of_the_same_task_would_undo_it(runner: TaskRunner) -> None:
    ws = datasets(runner.spark, runner.lake, runner.at)
    ws.write("people", frame(ws.spark, "id long", (1,)))
    with pytest.raises(DatasetError, match="expected a data set this body has not written"):
        ws.upsert("people", frame(ws.spark, "id long", (2,)), keys=["id"])


# ---- CSV, JSON and ORC

KINDS = "id long, day date, at timestamp, price decimal(10,2), name string, ok boolean, score double, part string"
ROW = (
    1,
    dt.date(2024, 5, 1),
    dt.datetime(2024, 5, 1, 12, 30, 0, 250000),  # noqa: DTZ001  Spark takes it for one of its own zone, UTC
    decimal.Decimal("12.30"),
    'two\n"lines", ü',
    True,
    0.5,
    "a",
)
EMPTY = (2, None, None, None, "", None, None, "b")


@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
def test_a_format_gives_back_what_was_written(runner: TaskRunner, kind: Literal["csv", "json", "orc"]) -> None:
    """A missing text is no empty one; partitions, appends and new columns are as they are with Parquet."""
    with runner.task() as ws:
        rows = frame(ws.spark, KINDS, ROW, EMPTY)
        assert ws.write("orders", rows, format=kind, partition_by=["part"]).rows == 2
    with runner.task() as ws:
        more = frame(ws.spark, "id long, part string, extra int", (3, "b", 7))
        ws.write("orders", more, format=kind, partition_by=["part"], mode="append", merge_schema=True)
    *old, new = found(runner)
    assert [each[:8] for each in old] == [ROW, EMPTY]
    assert (new[0], new[7:], {each[8] for each in old}) == (3, ("b", 7), {None})
    assert any(each.endswith(f".{kind}") for each in runner.lake.paths(runner.at))
    with runner.task() as ws:
        assert not ws.write("orders", ws.read("orders"), format=kind, partition_by=["part"]).changed
    with pytest.raises(DatasetError, match=rf"expected format='{kind}' as 'orders/' has it"), runner.task() as ws:
        ws.write("orders", ws.read("orders"), partition_by=["part"], mode="append")


def test_columns_that_a_format_cannot_hold_are_refused_before_a_row_is_written(runner: TaskRunner) -> None:
    ws = datasets(runner.spark, runner.lake, runner.at)
    for kind, columns in (("csv", "id long, many array<int>"), ("json", "id long, raw binary")):
        empty = frame(ws.spark, columns).limit(0)
        with pytest.raises(DatasetError, match=rf"columns that {kind} can hold in 'orders/'; found (many|raw)"):
            ws.write("orders", empty, format=cast("Any", kind))


def brought(lake: Lake, files: dict[str, bytes]) -> CommitRef:
    """Commit files that nobody has sealed."""
    sink = lake.stage()
    done(sink.link(tuple(done(sink.put(path, io.BytesIO(data))) for path, data in files.items())))
    at = lake.committed()
    assert at is not None
    return at


def test_files_that_somebody_brought_are_read_as_they_are_or_as_they_are_said_to_be(
    spark: SparkSession, lake: Lake
) -> None:
    at = brought(
        lake,
        {
            "plain/a.csv": b"id,day,note\n1,2024-05-01,\n2,2024-05-02,x\n",
            "bare/a.csv": b"1;2024-05-01\n2;2024-05-02\n",
            "lines/a.jsonl": b'{"id": 1, "price": 1.5}\n{"id": 2, "price": "2.25", "more": []}\n',
        },
    )
    ws = datasets(spark, lake, at)
    assert [tuple(each) for each in ws.read("plain").orderBy("id").collect()] == [
        (1, dt.date(2024, 5, 1), None),
        (2, dt.date(2024, 5, 2), "x"),
    ]
    bare: Any = ws.read("bare", schema="nr int, day string", options={"sep": ";", "header": "false"})
    assert sorted(tuple(each) for each in bare.collect()) == [(1, "2024-05-01"), (2, "2024-05-02")]
    lines = ws.read("lines", schema="id int, price decimal(6,2)").collect()
    assert sorted(str(each["price"]) for each in lines) == ["1.50", "2.25"]
    with pytest.raises(DatasetError, match="expected options of sep, header; found delimiter"):
        ws.read("plain", options={"delimiter": ";"})
    with pytest.raises(DatasetError, match="expected schema= as in"):
        ws.read("plain", schema="id nosuchtype")


# ---- Files of a wanted size and order


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_files_have_the_number_the_size_and_the_order_that_was_asked_for(runner: TaskRunner, via: Route) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; only with Spark

    rows = runner.spark.range(0, 1000, 1, 4).select((999 - F.col("id")).alias("id"), F.lit("x").alias("day"))
    with runner.task() as ws:
        assert ws.write("few", rows, files=2, via=via).files == 2
        assert ws.write("small", rows, files=1, max_records_per_file=300, via=via).files == 4
        ws.write("sorted", rows, files=1, sort_by=["id"], via=via)
    small = dataset_of(runner.lake.source(runner.at), "small/").files
    assert sorted(each.rows for each in small) == [100, 300, 300, 300]
    assert sum(each.rows for each in small) == len(runner.rows("small")) == 1000
    (file,) = dataset_of(runner.lake.source(runner.at), "sorted/").files
    from perago_spark.format.arrow import pq  # noqa: PLC0415  only with Spark

    with done(runner.lake.source(runner.at).get(file.path)) as stream:
        assert pq.read_table(io.BytesIO(stream.read()))["id"].to_pylist() == list(range(1000))


def test_sparks_own_setting_of_rows_in_a_file_is_honoured(runner: TaskRunner) -> None:
    runner.spark.conf.set("spark.sql.files.maxRecordsPerFile", "400")
    try:
        with runner.task() as ws:
            assert ws.write("orders", runner.spark.range(0, 1000, 1, 1)).files == 3
    finally:
        runner.spark.conf.unset("spark.sql.files.maxRecordsPerFile")


def test_sparks_own_setting_of_compression_is_honoured(runner: TaskRunner) -> None:
    """It was ignored: files were of snappy, whatever it said."""
    from perago_spark.format.arrow import pq  # noqa: PLC0415  only with Spark

    key = "spark.sql.parquet.compression.codec"
    try:
        runner.spark.conf.set(key, "ZSTD")
        with runner.task() as ws:
            ws.write("orders", runner.spark.range(0, 10, 1, 1))
        runner.spark.conf.set(key, "lzo")
        with pytest.raises(DatasetError, match=r"expected spark\.sql\.parquet\.compression\.codec of snappy, .* 'lzo'"):
            datasets(runner.spark, runner.lake, runner.at).write("other", runner.spark.range(1))
    finally:
        runner.spark.conf.unset(key)
    (file,) = dataset_of(runner.lake.source(runner.at), "orders/").files
    with done(runner.lake.source(runner.at).get(file.path)) as stream:
        found = pq.ParquetFile(io.BytesIO(stream.read())).metadata.row_group(0).column(0).compression
    assert found == "ZSTD"


# ---- Settings that are not ignored


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.master", "local[1]"),
        ("spark.remote", "sc://here"),
        ("spark.pyspark.driver.python", "python9"),
        ("spark.sql.parquet.outputTimestampType", "INT96"),
    ],
)
def test_a_setting_that_would_have_no_effect_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(SparkUnavailableError, match=rf"\[spark\.conf\] {key} would have no effect\. ") as caught:
        SparkSettings(conf={key: value})
    assert value not in str(caught.value)
    SparkSettings(conf={"spark.sql.parquet.outputTimestampType": "timestamp_micros", "spark.ui.enabled": "true"})


def test_all_that_the_native_route_decides_is_refused(lake: Lake, tmp_path: Path) -> None:
    """Else somebody sets it, and the writer's own option goes before it without a word."""
    decided = {**native.OPTIONS, **native.LocalArea(tmp_path, lake.stage()).options}
    assert len(decided) == 4
    for key in decided:
        with pytest.raises(SparkUnavailableError, match="would have no effect"):
            SparkSettings(conf={f"spark.hadoop.{key}": "1"})


def test_a_command_says_it_in_one_line() -> None:
    section = SparkSection(conf={"spark.master": "local[9]"})
    with pytest.raises(
        UserError, match=r"^\[spark\.conf\] spark\.master would have no effect\. Set master in \[spark\]"
    ):
        spark_settings(section)
