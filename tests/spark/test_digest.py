"""The format of a data set: a digest blind to order and batches and to nothing else, and how rows become files."""

from __future__ import annotations

import decimal
from io import BytesIO
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago_spark.format.seal import combined

pytest.importorskip("pyarrow")

from perago_spark.format.arrow import Batch, pa, pq
from perago_spark.format.digest import row_digest
from perago_spark.format.parquet import Uploads
from tests.spark.lake import Lake, done

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("money", pa.decimal128(10, 2)),
        ("many", pa.list_(pa.int32())),
        ("pair", pa.struct([("x", pa.int16()), ("y", pa.string())])),
        ("named", pa.map_(pa.string(), pa.int64())),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | st.text(max_size=5),
        "flag": st.none() | st.booleans(),
        "money": st.none() | st.decimals("-99999999.99", "99999999.99", places=2),
        "many": st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=3),
        "pair": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-5, 5), "y": st.text(max_size=2)}),
        "named": st.none() | st.lists(st.tuples(st.text(max_size=2), st.none() | st.integers(0, 3)), max_size=2),
    }
)


def batch(rows: list[Any]) -> Batch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@given(rows=st.lists(ROWS, min_size=1, max_size=8), data=st.data())
def test_order_and_batches_do_not_matter(rows: list[Any], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    pieces = (batch(shuffled[:cut]), batch(shuffled[cut:]))
    assert combined(*map(row_digest, pieces)) == row_digest(batch(rows))


def test_a_text_column_of_nothing_may_come_without_offsets() -> None:
    """As the Java of Spark 4.0 sends the keys of maps that are all empty."""
    bare = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    assert row_digest(pa.RecordBatch.from_arrays([bare], names=["text"])) == 0


@given(rows=st.lists(ROWS, min_size=2, max_size=8), data=st.data())
def test_a_slice_has_the_digest_of_its_rows(rows: list[Any], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows) - 1))
    assert row_digest(batch(rows).slice(start)) == row_digest(batch(rows[start:]))


@given(first=ROWS, second=ROWS)
def test_other_rows_have_another_digest(first: Any, second: Any) -> None:  # noqa: ANN401  rows
    same = batch([first]).equals(batch([second]))
    assert (row_digest(batch([first])) == row_digest(batch([second]))) == same


def test_equal_rows_do_not_cancel_each_other() -> None:
    row = {"number": 1, "money": decimal.Decimal("1.00")}
    digests = {row_digest(batch([row] * times)) for times in range(4)}
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"text": "ab", "pair": {"x": 1, "y": "c"}}, {"text": "a", "pair": {"x": 1, "y": "bc"}}),
        ({"text": ""}, {"text": None}),
        ({"many": []}, {"many": None}),
        ({"many": [None]}, {"many": []}),
        ({"many": [1, 2]}, {"many": [2, 1]}),
        ({"text": "\0"}, {"text": ""}),
        ({"flag": False}, {"flag": None}),
        ({"number": 0}, {"number": None}),
    ],
)
def test_near_misses_differ(one: Any, other: Any) -> None:  # noqa: ANN401  rows
    assert row_digest(batch([one])) != row_digest(batch([other]))


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 255, 256, 257, 1000])
def test_every_byte_of_a_text_counts_wherever_the_text_stands(length: int) -> None:
    """Texts are taken eight bytes at a time, long ones otherwise: both ends of both ways."""
    text = "x" * length
    others = {text[:at] + "y" + text[at + 1 :] for at in (0, length // 2, length - 1)} | {text + "x", text[:-1]}
    digests = {each: row_digest(batch([{"text": each}])) for each in (text, *others)}
    assert len(set(digests.values())) == len(digests)
    company = [{"text": "before"}, {"text": text}, {"text": None}, {"text": "after" * 100}]
    together = row_digest(batch(company))
    assert together == combined(*(row_digest(batch([each])) for each in company))
    assert row_digest(batch(company).slice(1, 1)) == digests[text]


# ---- How rows are laid out: small batches become large row groups, and a full file is followed by another.


BATCH = pa.RecordBatch.from_pydict({"id": list(range(100)), "name": [f"row {number}" for number in range(100)]})


def groups(lake: Lake, batches: int, **limits: Any) -> list[int]:  # noqa: ANN401  of several kinds
    """Write so many batches; give the row groups of each file."""
    numbers = count()
    sink = lake.stage()
    written = Uploads(sink, "orders/", (), lambda: f"part-{next(numbers)}.parquet", **limits).write([BATCH] * batches)
    done(sink.link(tuple(stored for stored, _ in written)))
    at = lake.committed()
    assert at is not None
    found: list[int] = []
    for stored, file in written:
        with done(lake.source(at).get(stored.path)) as stream:
            read = pq.ParquetFile(BytesIO(stream.read()))
        assert read.metadata.num_rows == file.rows
        found.append(read.num_row_groups)
    assert sum(file.rows for _, file in written) == batches * BATCH.num_rows
    return found


def test_small_batches_become_one_row_group(lake: Lake) -> None:
    """A group for each of Spark's batches takes three times as long to write, and more to read."""
    assert groups(lake, 50) == [1]


def test_a_full_file_is_followed_by_another(lake: Lake) -> None:
    assert len(groups(lake, 50, full=1_000)) > 1
