"""What suites say of a row, in Spark's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perago_spark.api.columns import quoted
from perago_spark.api.gates import Counts, Gate, none_of, present
from perago_spark.errors import DatasetError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from perago_spark.api.datasets import SparkDatasets

#: Says what must be true of a value.
Wanted: TypeAlias = "Callable[[Column], Column]"
#: Says which rows are no concern of a check.
Apart: TypeAlias = "Callable[[], Column]"
#: The name of a check, and what makes gates of it or raises ``UntranslatedError``.
Check: TypeAlias = tuple[str, Callable[[], Sequence[Gate]]]
#: What Python and Java do not mean alike: named groups, conditions, flags for ASCII and locale, ends, a vertical tab,
#: sets in sets.
_PYTHONS_OWN: Final = re.compile(r"\(\?P|\(\?\(|\(\?[a-z]*[aLu][a-z]*[:)]|\\[Zv]|&&|\[[^\]]*\[|--|\|\||~~")


class UntranslatedError(Exception):
    """A check that is no figure of a write; says which."""


def translated(library: str, checks: Iterable[Check]) -> list[Gate]:
    """Return the gates of all checks; refuse the suite if one cannot be translated, with the names of all of them.

    Pairs and no mapping: a column may have two checks of one name, and both count.
    """
    gates: list[Gate] = []
    refused: list[str] = []
    for name, make in checks:
        try:
            gates += make()
        except UntranslatedError as error:
            refused.append(f"{name} ({error})" if str(error) else name)
    if refused:
        raise DatasetError(
            f"checks of {library} that are figures of one write",
            "; ".join(refused),
            "Take it out, or check it in the body",
        )
    return gates


def holds(label: str, column: str, wanted: Wanted, *, missing: bool = False) -> Gate:
    """Demand something of each value. A missing one passes; ``missing``: so does one that is not a number."""

    def is_wrong(_: str) -> Column:
        F = _functions()  # noqa: N806  Spark's custom
        found: Column = ~wanted(F.col(quoted(column)))
        return found & ~F.isnan(quoted(column)) if missing else found

    return Gate(label, none_of("row(s) for which it is false"), is_wrong)


def has_value(label: str, column: str, *, missing: bool = False, wanted: bool = True) -> Gate:
    """Demand a value in each row, or with ``wanted=False`` none; ``missing``: what is not a number is no value."""

    def is_wrong(_: str) -> Column:
        F = _functions()  # noqa: N806  as above
        empty = F.col(quoted(column)).isNull()
        found: Column = empty | F.isnan(quoted(column)) if missing else empty
        return found if wanted else ~found

    return Gate(label, none_of("row(s) without a value" if wanted else "row(s) with a value"), is_wrong)


def differs(label: str, columns: Sequence[str], apart: Apart | None = None, *, missing: Collection[str] = ()) -> Gate:
    """Demand that no two rows are alike in these columns, where two missing values are alike; but for some rows.

    ``missing``: those of the columns in which what is not a number is a missing value.
    """

    def adds(frame: DataFrame, _ws: SparkDatasets, name: str) -> DataFrame:
        from pyspark.sql import Window  # noqa: PLC0415  importable without Spark

        F = _functions()  # noqa: N806  as above
        key = [F.nanvl(quoted(each), F.lit(None)) if each in missing else F.col(quoted(each)) for each in columns]
        return frame.withColumn(name, F.count(F.lit(1)).over(Window.partitionBy(*key)))

    def shares(name: str) -> Column:
        found: Column = _functions().col(name) > 1
        return found if apart is None else found & ~apart()

    return Gate(label, none_of("row(s) that share a key"), shares, adds)


def is_missing(columns: Sequence[str], *, every: bool) -> Column:
    """Say of a row that one of these values is missing, or that all are."""
    F = _functions()  # noqa: N806  as above
    found: Column = F.lit(every)
    for each in columns:
        empty = F.col(quoted(each)).isNull()
        found = found & empty if every else found | empty
    return found


def known(label: str, objection: str | None) -> Gate:
    """Judge what is known before the first row: columns and their types."""

    def judge(_figure: Any, _counts: Counts) -> str | None:  # noqa: ANN401  there is none
        return objection

    return Gate(label, judge)


def between(least: Any, greatest: Any, *, above: bool = False, below: bool = False) -> Wanted:  # noqa: ANN401  values
    """Demand values from ``least`` to ``greatest``; strictly ``above`` the one, strictly ``below`` the other."""

    def wanted(column: Column) -> Column:
        found: Column = _functions().lit(True)  # noqa: FBT003  Spark's
        if least is not None:
            found = found & (column > least if above else column >= least)
        if greatest is not None:
            found = found & (column < greatest if below else column <= greatest)
        return found

    return wanted


def one_of(values: Collection[Any]) -> Wanted:
    """Demand one of these values."""
    return lambda column: column.isin(present(values))


def unlike(wanted: Wanted) -> Wanted:
    """Demand the opposite."""
    return lambda column: ~wanted(column)


def long(least: int | None, greatest: int | None, *, above: bool = False, below: bool = False) -> Wanted:
    """Demand a text of so many characters."""
    return lambda column: between(least, greatest, above=above, below=below)(_functions().length(column))


def like(pattern: Any, *, at_the_start: bool = False) -> Wanted:  # noqa: ANN401  a text, or what is refused
    """Demand a text in which the pattern is found, as Python would find it.

    Java's classes and ends of lines are told to be Python's (``(?Ud)``); what has no counterpart is refused.
    """
    if not isinstance(pattern, str):
        raise UntranslatedError("a compiled pattern")
    try:
        re.compile(pattern)
    except re.error as error:
        raise UntranslatedError(f"no pattern of Python's: {error}") from None
    own = _PYTHONS_OWN.search(pattern)
    if own is not None:
        raise UntranslatedError(f"{own[0]!r} has another meaning in Java")
    java = f"(?Ud)^(?:{pattern})" if at_the_start else f"(?Ud){pattern}"
    return lambda column: column.rlike(java)


def _functions() -> Any:  # noqa: ANN401  a module
    from pyspark.sql import functions  # noqa: PLC0415  importable without Spark

    return functions
