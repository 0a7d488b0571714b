"""The digest of rows: blind to order and batches, and to nothing else."""

from __future__ import annotations

import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago_spark.format.seal import combined

pytest.importorskip("pyarrow")

from perago_spark.format.arrow import Batch, pa
from perago_spark.format.digest import row_digest

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
