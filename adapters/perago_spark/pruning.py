"""Which files and row groups can hold rows that a query wants, by least and greatest values alone.

Always on the safe side: whatever is not understood keeps the file. Spark evaluates every filter again on what is read,
so that a filter here only ever saves work. Fractions and points in time are left out: Spark has one NaN that is equal
to itself and greater than all else, and time zones of its own.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from perago_spark.seal import Range

Comparable: TypeAlias = int | str

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


@frozen
class Condition:
    """One condition on one column: a comparison with one value, or ``in`` with several."""

    column: str
    operation: str
    values: tuple[Comparable, ...]

    def may_hold(self, low: Comparable, high: Comparable) -> bool:
        """Say whether some value between these two can meet it; values of another type are not judged."""
        kinds = {type(each) for each in (low, high, *self.values)}
        return len(kinds) > 1 or any(_TESTS[self.operation](low, high, each) for each in self.values)


def condition(column: str, operation: str, values: Iterable[object]) -> Condition | None:
    """Make a condition; ``None`` if it is about something that is not compared here."""
    given = tuple(values)
    known = tuple(found for each in given if (found := comparable(each)) is not None)
    return Condition(column, operation, known) if len(known) == len(given) else None


def comparable(value: object) -> Comparable | None:
    """Give a value in the form in which ranges are written; a day is its ISO text, which sorts the same way."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | str):
        return value
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    return None


def may_match(conditions: Iterable[Condition], ranges: Mapping[str, Range], partition: Mapping[str, Any]) -> bool:
    """Say whether a file with these ranges and partition values can hold a row that meets all conditions."""
    return all(_may_meet(each, ranges, partition) for each in conditions)


def _may_meet(wanted: Condition, ranges: Mapping[str, Range], partition: Mapping[str, Any]) -> bool:
    if wanted.column in partition:
        value = partition[wanted.column]
        exact = comparable(value)
        # A comparison with nothing is never true.
        return value is not None and (exact is None or wanted.may_hold(exact, exact))
    if wanted.column in ranges:
        return wanted.may_hold(*ranges[wanted.column])
    return True
