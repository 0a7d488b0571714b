"""Names, seals and what follows from a listing alone. Needs no Spark."""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from perago_core.ports import Stored
from perago_spark.diagnosis.failures import explained
from perago_spark.errors import DatasetError
from perago_spark.format import layout
from perago_spark.format.pruning import Condition, condition, may_match
from perago_spark.format.seal import DataFile, discrepancy, make_seal, read_seal, total

FILES = tuple(
    DataFile(f"orders/{layout.file_name(number, 'w-1', number, 0)}", "c", 10, 100, number, {"k": 1}, {"id": (0, 9)})
    for number in (2, 0, 1)
)
SCHEMA = '{"fields": [], "type": "struct"}'
SEAL = make_seal("w-1", SCHEMA, ("k",), FILES)


def stored(*files: DataFile) -> list[Stored]:
    return [Stored(each.path, "a", "c", each.bytes) for each in files]


def sealed(*files: DataFile) -> list[Stored]:
    return [Stored(f"orders/{SEAL.name}", "a", "c", 1), *stored(*files)]


def test_a_seal_is_read_as_it_was_written_and_its_manifest_is_sorted() -> None:
    found = read_seal(f"orders/{SEAL.name}", SEAL.document())
    assert found == SEAL
    assert [each.path for each in found.files] == sorted(each.path for each in FILES)
    assert SEAL.document() == make_seal("w-1", SCHEMA, ("k",), reversed(FILES)).document()


def test_a_seal_that_says_something_else_than_its_name_is_refused() -> None:
    other = make_seal("w-1", SCHEMA, ("k",), FILES[:2])
    with pytest.raises(DatasetError, match="what its name says"):
        read_seal(f"orders/{other.name}", SEAL.document())
    with pytest.raises(DatasetError, match="Restore it"):
        read_seal(f"orders/{SEAL.name}", b"{}")


def test_a_listing_is_held_against_its_seals() -> None:
    """protocol.md 2.11: refuse on surplus or missing."""
    assert discrepancy(sealed(*FILES)) is None
    assert discrepancy([]) is None
    assert "whose seal says 3 with 300" in str(discrepancy(sealed(*FILES[:2])))
    assert "no seal" in str(discrepancy(stored(*FILES)))
    late = DataFile("orders/part-00000.w-2.1-0.parquet", "c", 1, 1, 1)
    assert "w-2 and no seal" in str(discrepancy([*sealed(*FILES), *stored(late)]))
    other = make_seal("w-3", SCHEMA, (), ())
    mixed = [*sealed(*FILES), Stored(f"orders/{other.name}", "a", "c", 1)]
    assert "different columns or partitioning" in str(discrepancy(mixed))
    stray = DataFile("orders/stray.parquet", "c", 1, 1, 1)
    assert "belongs to no write" in str(discrepancy([*sealed(*FILES), *stored(stray)]))


def test_totals_are_equal_for_equal_rows_in_other_files() -> None:
    one = [DataFile("a", "c", 30, 300, 3)]
    assert total([SEAL]) == total([make_seal("w-9", SCHEMA, ("k",), one)])
    assert total([SEAL]) != total([make_seal("w-9", SCHEMA, (), one)])
    assert total([]) is None


@given(st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text), st.text(max_size=20))
def test_partition_folders_are_read_back(column: str, value: str) -> None:
    folder = layout.partition_folder(column, value).removesuffix("/")
    assert "/" not in folder
    assert layout.partition_of(folder) == (column, value or None)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../b", "s3a://b/x", "x@main", "", "_x", ".x", "a//b", "a\n", "a/"])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(DatasetError, match="branch and commit are the task's own"):
        layout.folder("sales/", name)


@given(st.sampled_from(["=", "<", "<=", ">", ">=", "in"]), st.integers(-5, 5), st.lists(st.integers(-5, 5), min_size=1))
def test_a_file_that_holds_a_wanted_row_is_never_skipped(operation: str, value: int, rows: list[int]) -> None:
    tests = {"=": int.__eq__, "in": int.__eq__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}
    wanted = Condition("id", operation, (value,))
    if any(tests[operation](row, value) for row in rows):
        assert may_match([wanted], {"id": "int"}, {"id": (min(rows), max(rows))}, {})


def test_what_is_not_understood_skips_nothing() -> None:
    assert condition("x", "=", [1.5]) is None
    assert condition("x", "=", [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]) is None
    assert condition("x", "in", [200, HTTPStatus.OK]) is None, "its class may not be where Spark plans"
    kinds = {"x": "int", "k": "int", "t": "string", "d": "date"}
    assert may_match([Condition("x", "=", ("a",))], kinds, {"x": (1, 2)}, {})
    assert may_match([Condition("y", "=", (5,))], kinds, {"y": (1, 2)}, {}), "a column of unknown type"
    assert may_match([Condition("t", "=", (dt.date(2024, 5, 3),))], kinds, {"t": ("2024-5-1", "2024-5-9")}, {})
    assert not may_match([Condition("k", "=", (1,))], kinds, {}, {"k": None})
    assert not may_match([Condition("k", ">", (1,))], kinds, {}, {"k": 1})


MAY = ("2024-05-01", "2024-05-31")


@pytest.mark.parametrize("day", ["2024-5-3", "2024-05-31 00:00:00", "20240503", "2024-W18-5", " 2024-05-03", "2024-05"])
@pytest.mark.parametrize("operation", ["=", ">=", "<="])
def test_text_is_a_day_only_as_seals_write_it(operation: str, day: str) -> None:
    for ranges, partition in (({"d": MAY}, {}), ({}, {"d": "2024-05-03"})):
        assert may_match([Condition("d", operation, (day,))], {"d": "date"}, ranges, partition)
    assert not may_match([Condition("d", "=", ("2024-06-01",))], {"d": "date"}, {"d": MAY}, {})


def test_our_own_words_are_found_inside_what_spark_raises() -> None:
    inner = DatasetError("a thing", "another. Or two", "Do this")
    wrapped = PySparkException(f"[X] Traceback:\n  File\nperago_spark.errors.DatasetError: {inner}\n SQLSTATE: 38000")
    assert str(explained(wrapped)) == str(inner)
    assert explained(inner) is inner
    other = ValueError("something else")
    assert explained(other) is other
