"""Which files and row groups can hold rows that a query wants, by least and greatest values alone.

Always on the safe side: whatever is not understood keeps the file. Spark evaluates every filter again on what is read,
so that a filter here only ever saves work. So a value is compared only with a column of its own type, where Spark casts
nothing. Counterexamples, seen: text is no day, though Spark makes one of ``2024-5-3``, and as text that comes after
all of May; and a day is no text, for ``2024-10-1`` in a column of texts is the first of October, and comes after
``2024-10-05``. Fractions, decimals and points in time are left out: Spark has one NaN that is equal to itself and
greater than all else, and time zones of its own.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeGuard

from attrs import frozen

from perago_spark.format.seal import Range

Comparable: TypeAlias = int | str | dt.date

#: Each operation with a test on the least and greatest value of a column and one wanted value.
_TESTS: Final[Mapping[str, Callable[[Any, Any, Any], bool]]] = {
    "=": lambda low, high, value: low <= value <= high,
    "in": lambda low, high, value: low <= value <= high,
    "<": lambda low, _high, value: operator.lt(low, value),
    "<=": lambda low, _high, value: operator.le(low, value),
    ">": lambda _low, high, value: operator.gt(high, value),
    ">=": lambda _low, high, value: operator.ge(high, value),
}
OPERATIONS: Final = tuple(_TESTS)
#: What travels to where Spark plans the read. No subclass: its module may not be there, and a moment is no day.
_PLAIN: Final = (int, bool, str, dt.date)


@frozen
class Condition:
    """One condition on one column: a comparison with one value, or ``in`` with several."""

    column: str
    operation: str
    values: tuple[Comparable, ...]

    def may_hold(self, kind: str, low: object, high: object) -> bool:
        """Whether a value between ``low`` and ``high``, in a column of this type, can meet the condition."""
        understood = _KINDS.get(kind, _nothing)
        least, greatest, *wanted = (understood(each) for each in (low, high, *self.values))
        if least is None or greatest is None or None in wanted:
            return True
        return any(_TESTS[self.operation](least, greatest, each) for each in wanted)


def condition(column: str, operation: str, values: Iterable[object]) -> Condition | None:
    """Make a condition; ``None`` for values of types that are not compared here."""
    compared: tuple[Any, ...] = tuple(values)
    return Condition(column, operation, compared) if all(type(each) in _PLAIN for each in compared) else None


def may_match(
    conditions: Iterable[Condition],
    kinds: Mapping[str, str],
    ranges: Mapping[str, Range],
    partition: Mapping[str, Any],
) -> bool:
    """Whether a file with these ranges and partition values can hold a row that meets all conditions.

    ``kinds``: the type of each column, as Spark writes it in short.
    """
    return all(_may_meet(each, kinds.get(each.column, ""), ranges, partition) for each in conditions)


def _may_meet(wanted: Condition, kind: str, ranges: Mapping[str, Range], partition: Mapping[str, Any]) -> bool:
    if wanted.column in partition:
        value = partition[wanted.column]
        # A comparison with nothing is never true.
        return value is not None and wanted.may_hold(kind, value, value)
    if wanted.column in ranges:
        return wanted.may_hold(kind, *ranges[wanted.column])
    return True


def is_day(value: object) -> TypeGuard[dt.date]:
    """Whether this is a date without a time; in Python a ``datetime`` is a ``date``, too."""
    return isinstance(value, dt.date) and not isinstance(value, dt.datetime)


def _whole(value: object) -> Comparable | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: object) -> Comparable | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> Comparable | None:
    return value if isinstance(value, str) else None


def _day(value: object) -> Comparable | None:
    """Parse a day: a date, or text in the one form that seals write, not in those that Spark also accepts."""
    if isinstance(value, str):
        try:
            day = dt.date.fromisoformat(value)
        except ValueError:
            return None
        return day if day.isoformat() == value else None
    return value if is_day(value) else None


def _nothing(_value: object) -> Comparable | None:
    return None


#: The columns that are compared, by type, each with what its values are.
_KINDS: Final[Mapping[str, Callable[[object], Comparable | None]]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _whole),
    "boolean": _flag,
    "string": _text,
    "date": _day,
}
