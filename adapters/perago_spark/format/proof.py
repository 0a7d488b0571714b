"""Proofs: what the batches of a write show of its rows while they go through, so that no row is looked at twice.

A proof is sound and not complete: if it holds, no row is wrong; if it does not, Spark counts (``api.gates``). So each
knows only the types of which Arrow and Spark say the same, and none has to say what a row is wrong about.

Tasks show, the driver judges: only what winners show reaches it, so that a task that was run twice is no matter.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from attrs import define, field, frozen

from perago_spark.format.arrow import Batch, Column, pa, pc
from perago_spark.format.digest import Numbers, key_numbers

#: Whole numbers by Spark's names, with their bits.
WHOLE: Final[Mapping[str, int]] = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
#: Up to here a whole number is a floating one, exactly.
_EXACT: Final = 1 << 53
#: Types whose equal values have equal bits. Not so 0.0 and -0.0.
_BITS: Final = (*WHOLE, "string", "date", "timestamp", "boolean")
#: Rows that are looked at together: a set of keys is hashed once for each such piece.
_PIECE: Final = 1 << 17
#: Keys of one write that are compared on the driver, eight bytes each; more are shuffled.
KEYS: Final = 1 << 23


class Proof(ABC):
    """That no row is wrong, from the values of some columns."""

    columns: tuple[str, ...]

    @abstractmethod
    def shown(self, rows: Batch) -> Any:  # noqa: ANN401  whatever ``holds`` understands
        """Return what these rows show."""

    def holds(self, shown: Sequence[Any]) -> bool:
        """Judge by what all rows have shown."""
        return all(shown)


@frozen
class NoneMissing(Proof):
    """Each row has a value in each column."""

    columns: tuple[str, ...]

    def shown(self, rows: Batch) -> bool:
        """Return whether these have."""
        return not any(rows.column(each).null_count for each in self.columns)


@frozen
class Within(Proof):
    """Each value is from ``least`` to ``greatest``; days are counted, since Python ends with the year 9999."""

    columns: tuple[str]
    least: float | None
    greatest: float | None

    def shown(self, rows: Batch) -> bool:
        """Return whether these are. To Spark what is not a number is greater than any."""
        values = rows.column(self.columns[0])
        if pa.types.is_date(values.type):
            values = values.cast(pa.int32())
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return False
        found = pc.min_max(values).as_py()
        if found["min"] is None:
            return True
        low = self.least is None or found["min"] >= self.least
        return bool(low and (self.greatest is None or found["max"] <= self.greatest))


@frozen
class OneOf(Proof):
    """Each value is one of these; a missing one is no matter."""

    columns: tuple[str]
    values: Column

    def shown(self, rows: Batch) -> bool:
        """Return whether these are."""
        given = rows.column(self.columns[0]).cast(self.values.type)
        known = pc.is_in(given, value_set=self.values, skip_nulls=True)
        return bool(known.true_count + given.null_count == len(given))


@frozen
class Newest(Proof):
    """The newest point in time is at most so many seconds old."""

    columns: tuple[str]
    seconds: float

    def shown(self, rows: Batch) -> int | None:
        """Return the newest of these, in microseconds."""
        values = rows.column(self.columns[0])
        found: int | None = pc.max(values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())).as_py()
        return found

    def holds(self, shown: Sequence[Any]) -> bool:
        """Judge by the newest of all."""
        newest = max((each for each in shown if each is not None), default=None)
        return newest is not None and time.time() - newest // 1_000_000 <= self.seconds


@frozen
class Distinct(Proof):
    """No two rows have the same values; a row with a missing one is no matter.

    Rows are compared by numbers of 64 bits. Two that are equal may be so by chance: then it is not proven.
    """

    columns: tuple[str, ...]

    def shown(self, rows: Batch) -> Numbers:
        """Return the numbers of these."""
        return key_numbers(rows, self.columns)

    def holds(self, shown: Sequence[Any]) -> bool:
        """Judge by the numbers of all, if they are not too many to be here."""
        parts = [each for each in shown if each is not None]
        if len(parts) < len(shown) or sum(map(len, parts)) > KEYS:
            return False
        numbers = np.sort(np.concatenate([np.zeros(0, dtype=np.uint64), *parts]))
        return not bool((numbers[1:] == numbers[:-1]).any())


@define
class Evidence:
    """What the rows of one task show, for each of the proofs."""

    proofs: Sequence[Proof]
    shown: list[list[Any]] = field(init=False)
    _waiting: list[Batch] = field(factory=list[Any], init=False)
    _rows: int = field(default=0, init=False)
    _keys: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.shown = [[] for _ in self.proofs]

    def watching(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Pass batches on, and look at them in pieces."""
        wanted = sorted({name for each in self.proofs for name in each.columns})
        for batch in batches:
            self._waiting.append(batch.select(wanted))
            self._rows += batch.num_rows
            if self._rows >= _PIECE:
                self._look()
            yield batch
        self._look()

    def _look(self) -> None:
        waiting, self._waiting, self._rows = self._waiting, [], 0
        for rows in pa.Table.from_batches(waiting).combine_chunks().to_batches() if waiting else ():
            for proof, shown in zip(self.proofs, self.shown, strict=True):
                found = proof.shown(rows)
                if isinstance(found, np.ndarray):
                    self._keys += len(found)
                    found = found if self._keys <= KEYS else None  # the driver would not take so many
                shown.append(found)


def proven(proofs: Sequence[Proof], tasks: Sequence[Sequence[Sequence[Any]]]) -> bool:
    """Judge by what the rows of all tasks have shown."""
    return all(proof.holds([each for task in tasks for each in task[number]]) for number, proof in enumerate(proofs))


@frozen
class Provable:
    """Which proofs there are for columns of these types, by Spark's names; ``None``: Spark counts.

    ``keys`` reads those of another data set, ``None`` if they are too many to be sent to each task.
    """

    kinds: Mapping[str, str]
    keys: Callable[[str, str], Column | None]

    def none_missing(self, columns: Sequence[str]) -> Proof | None:
        """That no column has a missing value."""
        return NoneMissing(tuple(columns)) if all(each in self.kinds for each in columns) else None

    def within(self, column: str, least: Any, greatest: Any) -> Proof | None:  # noqa: ANN401  values of the column
        """That values are in a range: of numbers, or of days."""
        kind, bounds = self.kinds.get(column, ""), [each for each in (least, greatest) if each is not None]
        if kind in WHOLE:
            fits = all(type(each) is int for each in bounds)
        elif kind in {"double", "float"}:
            fits = all(type(each) in {int, float} and math.isfinite(each) and abs(each) <= _EXACT for each in bounds)
        else:
            fits = kind == "date" and all(type(each) is dt.date for each in bounds)
            least, greatest = (_days(each) for each in (least, greatest)) if fits else (None, None)
        return Within((column,), least, greatest) if fits else None

    def one_of(self, column: str, values: Sequence[Any]) -> Proof | None:
        """That values are among some: texts, whole numbers or days."""
        kind, types = self.kinds.get(column, ""), {type(each) for each in values}
        if kind in WHOLE and types == {int} and all(-(1 << 63) <= each < 1 << 63 for each in values):
            return OneOf((column,), pa.array(values, pa.int64()))
        if (kind, types) == ("string", {str}) or (kind, types) == ("date", {dt.date}):
            return OneOf((column,), pa.array(values))
        return None

    def newest(self, column: str, seconds: float) -> Proof | None:
        """That the newest point in time is not old."""
        return Newest((column,), seconds) if self.kinds.get(column) == "timestamp" else None

    def distinct(self, columns: Sequence[str]) -> Proof | None:
        """That no two rows have the same values."""
        fits = bool(columns) and all(self.kinds.get(each) in _BITS for each in columns)
        return Distinct(tuple(columns)) if fits else None

    def among(self, column: str, of: str, key: str) -> Proof | None:
        """That each value is among the keys of another data set."""
        kind = self.kinds.get(column, "")
        is_alike = pa.types.is_integer if kind in WHOLE else _ALIKE.get(kind)
        found = None if is_alike is None else self.keys(of, key)
        if found is None or is_alike is None or not is_alike(found.type):
            return None
        return OneOf((column,), found.cast(pa.int64()) if kind in WHOLE else found)


#: What keys of a text or a day are compared with.
_ALIKE: Final[Mapping[str, Callable[[Any], bool]]] = {"string": pa.types.is_string, "date": pa.types.is_date32}


def _days(day: dt.date | None) -> int | None:
    return None if day is None else (day - dt.date(1970, 1, 1)).days
