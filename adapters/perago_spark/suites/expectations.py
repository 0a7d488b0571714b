"""A suite of Great Expectations, or one expectation, as gates.

As Great Expectations means it: a missing value passes what is expected of values, and is left out where a column must
be unique. What is expected of the table is expected of the rows that are written. An expectation that may be missed by
some rows (``mostly``), looks at some rows only (``row_condition``), has a value that is given when it is run
(``$PARAMETER``), or does not stop anything (a severity below critical) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import ge, gt, le, lt
from typing import Any, Final

from perago_spark.api.gates import Counts, Gate
from perago_spark.errors import DatasetError
from perago_spark.suites import rows

_LIBRARY: Final = "Great Expectations"
#: What an expectation must not ask for, with what it then says.
_OPTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "mostly": (None, 1, 1.0),
    "row_condition": (None, ""),
    "windows": (None, []),
    "column_index": (None,),
}
_VALUES: Final[Mapping[str, Callable[[Mapping[str, Any]], rows.Wanted]]] = {
    "expect_column_values_to_be_between": lambda given: rows.between(
        _number(given.get("min_value")),
        _number(given.get("max_value")),
        above=bool(given.get("strict_min")),
        below=bool(given.get("strict_max")),
    ),
    "expect_column_values_to_be_in_set": lambda given: rows.one_of(given["value_set"]),
    "expect_column_values_to_not_be_in_set": lambda given: rows.unlike(rows.one_of(given["value_set"])),
    "expect_column_values_to_match_regex": lambda given: rows.like(given["regex"]),
    "expect_column_values_to_not_match_regex": lambda given: rows.unlike(rows.like(given["regex"])),
    "expect_column_value_lengths_to_equal": lambda given: rows.long(_number(given["value"]), _number(given["value"])),
    "expect_column_value_lengths_to_be_between": lambda given: rows.long(
        _number(given.get("min_value")),
        _number(given.get("max_value")),
        above=bool(given.get("strict_min")),
        below=bool(given.get("strict_max")),
    ),
}


def expectation_gates(demand: Any, columns: Mapping[str, str]) -> list[Gate]:  # noqa: ANN401  a suite, or an expectation
    """Translate it, for a frame with these columns."""
    every = getattr(demand, "expectations", [demand])
    if isinstance(demand, type) or not all(hasattr(each, "configuration") for each in every):
        found = demand.__name__ if isinstance(demand, type) else f"a {type(demand).__name__}"
        raise DatasetError(
            "an ExpectationSuite or an expectation, made", found, "Pass the suite, or give it its arguments"
        )
    return rows.translated(_LIBRARY, (_check(each, columns) for each in every))


def _check(expectation: Any, columns: Mapping[str, str]) -> rows.Check:  # noqa: ANN401  theirs
    said = expectation.configuration
    label = f"{said.type}({', '.join(f'{key}={value!r}' for key, value in said.kwargs.items())})"
    return label, partial(_of_expectation, expectation, label, columns)


def _of_expectation(expectation: Any, label: str, columns: Mapping[str, str]) -> list[Gate]:  # noqa: ANN401  theirs
    kind, given = expectation.configuration.type, expectation.configuration.kwargs
    asked = [each for each, usual in _OPTIONS.items() if given.get(each, getattr(expectation, each, None)) not in usual]
    if str(getattr(expectation.severity, "value", expectation.severity)) != "critical":
        asked.append("severity")
    asked += [f"{each} is a $PARAMETER" for each, value in given.items() if isinstance(value, dict)]
    if asked or kind not in {*_VALUES, *_ROWS}:
        raise rows.UntranslatedError(", ".join(asked))
    named = given.get("column_list") or ([given["column"]] if "column" in given else [])
    absent = [each for each in named if each not in columns]
    if absent:
        return [rows.known(label, f"no {', '.join(absent)}")]
    try:
        if kind in _VALUES:
            return [rows.holds(label, given["column"], _VALUES[kind](given))]
        return [_ROWS[kind](label, named, given)]
    except KeyError as without:
        raise rows.UntranslatedError(f"no {without.args[0]}") from None


def _apart(columns: Sequence[str], ignored: str) -> rows.Apart | None:
    if ignored == "never":
        return None
    return lambda: rows.is_missing(columns, every=ignored == "all_values_are_missing")


def _row_count(label: str, given: Mapping[str, Any]) -> Gate:
    least, greatest = given.get("min_value"), given.get("max_value")
    too_few = le if given.get("strict_min") else lt
    too_many = ge if given.get("strict_max") else gt

    def judge(_figure: Any, counts: Counts) -> str | None:  # noqa: ANN401  there is none
        few = least is not None and too_few(counts.written, least)
        many = greatest is not None and too_many(counts.written, greatest)
        return f"{counts.written} rows" if few or many else None

    return Gate(label, judge)


def _number(value: Any) -> Any:  # noqa: ANN401  a number, a date, a text
    """Take whole numbers for what they were: Great Expectations makes fractions of them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: What is expected of whole rows, or of their number.
_ROWS: Final[Mapping[str, Callable[[str, Sequence[str], Mapping[str, Any]], Gate]]] = {
    "expect_column_to_exist": lambda label, _named, _given: rows.known(label, None),
    "expect_column_values_to_not_be_null": lambda label, named, _given: rows.has_value(label, named[0]),
    "expect_column_values_to_be_null": lambda label, named, _given: rows.has_value(label, named[0], wanted=False),
    "expect_column_values_to_be_unique": lambda label, named, _given: rows.differs(
        label, named, _apart(named, "all_values_are_missing")
    ),
    "expect_compound_columns_to_be_unique": lambda label, named, given: rows.differs(
        label, named, _apart(named, given.get("ignore_row_if", "all_values_are_missing"))
    ),
    "expect_table_row_count_to_be_between": lambda label, _named, given: _row_count(label, given),
    "expect_table_row_count_to_equal": lambda label, _named, given: _row_count(
        label, {"min_value": given["value"], "max_value": given["value"]}
    ),
}
