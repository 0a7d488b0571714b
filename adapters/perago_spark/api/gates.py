"""Gates: what must be true of the rows before they may be published. Declared with a write, computed while it writes.

    ws.write("orders", orders, gates=[
        not_null("id", "day"),
        unique("id"),
        in_range("amount", 0, 100_000),
        accepted_values("country", "DE", "FR"),
        foreign_key("customer", of="customers", key="id"),
        row_count_drift(0.5),
        freshness("day", hours=48),
        predicate("amount >= discount"),
    ])

They are decided in the one pass that writes the rows (``Checks``). A missing value is the affair of ``not_null`` alone:
the others let it pass, as constraints of SQL do.

The verdicts are written beside the rows (``RECORD``), under the seal that names the files they are about. One that is
not met fails the write, so nothing is published; what was staged is kept for a while, to be looked at.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import asdict, frozen

from perago_spark.errors import DatasetError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from perago_spark.api.datasets import SparkDatasets
    from perago_spark.format.proof import Proof, Provable

#: Where the verdicts on a data set stand, in its folder.
RECORD: Final = "_gates.json"
_HOUR: Final = 3600.0


class GateError(DatasetError):
    """Rows are not as a gate wants them."""


@frozen
class Counts:
    """How many rows there were in the data set, how many there are with this write, and how many it has written."""

    before: int
    after: int
    written: int


#: Adds the column a gate needs, under this name, to the frame that is written.
_Adds: TypeAlias = "Callable[[DataFrame, SparkDatasets, str], DataFrame]"
#: Says of a row whether it is wrong, or how new it is, in seconds; from the name of the added column.
_OfRow: TypeAlias = "Callable[[str], Column]"
#: Gives the proof that there is for such columns.
_Prove: TypeAlias = "Callable[[Provable], Proof | None]"
#: Says what is wrong, given the figure and the counts; ``None`` if nothing is.
_Judge: TypeAlias = Callable[[Any, Counts], str | None]


@frozen
class Gate:
    """One demand. Made by the functions below.

    Its figure is how many rows are so as ``of_row`` says, or with ``largest`` the largest value of it. ``proof``: what
    shows that the figure would pass, where the types of the columns allow one. ``reads``: another data set it looks at.
    """

    label: str
    judge: _Judge
    of_row: _OfRow | None = None
    adds: _Adds | None = None
    largest: bool = False
    proof: _Prove | None = None
    reads: str | None = None


@frozen
class Verdict:
    """What a gate found. ``objection`` is empty if it is met."""

    gate: str
    objection: str

    @property
    def passed(self) -> bool:
        """Whether the rows are as it wants them."""
        return not self.objection


def not_null(*columns: str) -> Gate:
    """Demand a value in each of these columns, in every row."""
    return Gate(
        f"not_null({', '.join(columns)})",
        none_of("row(s) without a value"),
        lambda _: _has_null(columns),
        proof=lambda rows: rows.none_missing(columns),
    )


def unique(*columns: str) -> Gate:
    """Demand that no two rows of the write have the same values here. What is there already is not compared."""

    def adds(frame: DataFrame, _ws: SparkDatasets, name: str) -> DataFrame:
        from pyspark.sql import Window  # noqa: PLC0415  importable without Spark

        F = _functions()  # noqa: N806  Spark's custom
        return frame.withColumn(name, F.count(F.lit(1)).over(Window.partitionBy(*columns)))

    def shares(name: str) -> Column:
        found: Column = (_functions().col(name) > 1) & ~_has_null(columns)
        return found

    label = f"unique({', '.join(columns)})"
    return Gate(label, none_of("row(s) that share a key"), shares, adds, proof=lambda rows: rows.distinct(columns))


def in_range(column: str, least: Any = None, greatest: Any = None) -> Gate:  # noqa: ANN401  values of the column
    """Demand values from ``least`` to ``greatest``; either may be left out."""

    def is_outside(_: str) -> Column:
        F = _functions()  # noqa: N806  as above
        outside: Column = F.lit(False)  # noqa: FBT003  Spark's
        if least is not None:
            outside = outside | (F.col(column) < least)
        if greatest is not None:
            outside = outside | (F.col(column) > greatest)
        return outside

    return Gate(
        f"in_range({column}, {least}, {greatest})",
        none_of("row(s) outside"),
        is_outside,
        proof=lambda rows: rows.within(column, least, greatest),
    )


def accepted_values(column: str, *values: Any) -> Gate:  # noqa: ANN401  as above
    """Demand one of these values."""

    def is_another(_: str) -> Column:
        found: Column = ~_functions().col(column).isin(present(values))
        return found

    return Gate(
        f"accepted_values({column}, {', '.join(map(repr, values))})",
        none_of("row(s) with another value"),
        is_another,
        proof=lambda rows: rows.one_of(column, present(values)),
    )


def foreign_key(column: str, *, of: str, key: str) -> Gate:
    """Demand that each value is one of another data set's, as that is in the input commit."""

    def adds(frame: DataFrame, ws: SparkDatasets, name: str) -> DataFrame:
        F = _functions()  # noqa: N806  as above
        known = ws.read(of, columns=[key]).select(F.col(key).alias(name)).distinct()
        return frame.join(known, frame[column] == known[name], "left")

    def is_alone(name: str) -> Column:
        F = _functions()  # noqa: N806  as above
        found: Column = F.col(column).isNotNull() & F.col(name).isNull()
        return found

    return Gate(
        f"foreign_key({column}, {of}.{key})",
        none_of("row(s) without their counterpart"),
        is_alone,
        adds,
        proof=lambda rows: rows.among(column, of, key),
        reads=of,
    )


def row_count_drift(at_most: float) -> Gate:
    """Demand that the data set grows or shrinks by this share at most; a first write has nothing to compare with."""

    def judge(_figure: Any, counts: Counts) -> str | None:  # noqa: ANN401  there is none
        drift = abs(counts.after - counts.before) / counts.before if counts.before else 0.0
        return None if drift <= at_most else f"{counts.before} rows became {counts.after}, {drift:.0%} more or less"

    return Gate(f"row_count_drift({at_most:g})", judge)


def freshness(column: str, *, hours: float) -> Gate:
    """Demand that the newest value is at most so many hours old."""

    def seconds(_: str) -> Column:
        F = _functions()  # noqa: N806  as above
        found: Column = F.unix_timestamp(F.col(column).cast("timestamp"))
        return found

    def judge(newest: Any, _counts: Counts) -> str | None:  # noqa: ANN401  seconds, or nothing
        if newest is None:
            return "no row has a value"
        age = (time.time() - newest) / _HOUR
        return None if age <= hours else f"the newest is {age:.1f} hours old"

    return Gate(
        f"freshness({column}, {hours:g} hours)",
        judge,
        seconds,
        largest=True,
        proof=lambda rows: rows.newest(column, hours * _HOUR),
    )


def predicate(condition: str) -> Gate:
    """Demand that a condition of SQL is false for no row."""

    def is_false(_: str) -> Column:
        found: Column = ~_functions().expr(condition)
        return found

    return Gate(f"predicate({condition})", none_of("row(s) for which it is false"), is_false)


@frozen
class Checks:
    """How one write decides its gates: first by whether all are met, at the price of a few values of each row.

    ``proofs`` are shown by tasks on the way (``format.proof``). What has none is guarded: a condition in the code that
    Spark generates fails the job at the first row that is wrong. Spark's ``Observation`` would cost some five times as
    much: it evaluates each figure row by row, interpreted.

    If not all are met so, nothing was linked, and the rows are written once more, with figures (``counting``): then it
    is known how many are wrong, and they are kept to be looked at. A verdict never rests on a proof that failed.
    """

    gates: tuple[Gate, ...]
    proofs: Mapping[int, Proof]
    #: Whether what has no proof is guarded, and not counted.
    guards: bool

    @classmethod
    def proving(cls, gates: Sequence[Gate], rows: Provable | None) -> Checks:
        """Look first for proofs; ``None``: nothing is seen of the rows but by Spark."""
        found = {
            number: proof
            for number, each in enumerate(gates)
            if rows is not None and each.proof is not None and (proof := each.proof(rows)) is not None
        }
        return cls(tuple(gates), found, guards=True)

    @classmethod
    def counting(cls, gates: Sequence[Gate]) -> Checks:
        """Have Spark take all figures."""
        return cls(tuple(gates), {}, guards=False)

    @property
    def counts(self) -> bool:
        """Whether all rows that are wrong are counted: nothing is known better by writing them once more."""
        return not self.guards

    def _open(self) -> list[tuple[str, Gate]]:
        """Return what is left to Spark, by the names of figures and added columns."""
        known = zip(names(self.gates), self.gates, strict=True)
        return [each for number, each in enumerate(known) if number not in self.proofs]

    def prepared(self, frame: DataFrame, ws: SparkDatasets, unmet: str) -> DataFrame:
        """Add what Spark needs to the frame, and the guard, which fails the job with this message.

        A condition above a filter or a join may be asked of rows that are none of the result: then they are counted.
        """
        for name, gate in self._open():
            frame = frame if gate.adds is None else gate.adds(frame, ws, name)
        F = _functions()  # noqa: N806  as above
        wrong = [F.coalesce(each, F.lit(False)) for each in self._guarded().values()]  # noqa: FBT003  as above
        if not wrong:
            return frame
        found = wrong[0]
        for each in wrong[1:]:
            found = found | each
        return frame.where(F.when(found, F.raise_error(F.lit(unmet)).cast("boolean")).otherwise(F.lit(True)))  # noqa: FBT003  as above

    def _guarded(self) -> dict[str, Column]:
        wanted = {name: gate for name, gate in self._open() if self.guards and not gate.largest}
        return {name: gate.of_row(name) for name, gate in wanted.items() if gate.of_row is not None}

    def figures(self) -> dict[str, Column]:
        """Return what is to be observed: conditions, which need no further column of the frame."""
        F = _functions()  # noqa: N806  as above
        return {
            name: F.max(gate.of_row(name)) if gate.largest else F.count_if(gate.of_row(name))
            for name, gate in self._open()
            if gate.of_row is not None and (gate.largest or not self.guards)
        }

    def verdicts(self, found: Mapping[str, Any], counts: Counts) -> list[Verdict]:
        """Judge, by the figures that were observed; what was proven or guarded is met, for the rows were written."""
        met = {*self._guarded(), *(names(self.gates)[number] for number in self.proofs)}
        return [
            Verdict(gate.label, "" if name in met else gate.judge(found.get(name), counts) or "")
            for name, gate in zip(names(self.gates), self.gates, strict=True)
        ]


def names(gates: Sequence[Gate]) -> list[str]:
    """Name the added column and the figure of each gate."""
    return [f"perago gate {number}" for number in range(len(gates))]


def require(name: str, found: Iterable[Verdict]) -> None:
    """Raise ``GateError`` unless all are met, naming each that is not."""
    failed = [each for each in found if not each.passed]
    if failed:
        raise GateError(
            f"{name!r} to pass {', '.join(each.gate for each in failed)}",
            "; ".join(each.objection for each in failed),
            "Nothing was published. `perago show-failed` lists what was staged, to be looked at",
        )


def record(seal: str, found: Iterable[Verdict]) -> bytes:
    """Write verdicts down, with the seal they are about."""
    shown = {"seal": seal, "gates": [{**asdict(each), "passed": each.passed} for each in found]}
    return json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False).encode("utf-8")


def _functions() -> Any:  # noqa: ANN401  a module
    from pyspark.sql import functions  # noqa: PLC0415  importable without Spark

    return functions


def _has_null(columns: Sequence[str]) -> Column:
    F = _functions()  # noqa: N806  as above
    found: Column = F.lit(False)  # noqa: FBT003  Spark's
    for each in columns:
        found = found | F.col(each).isNull()
    return found


def present(values: Iterable[Any]) -> list[Any]:
    """Leave missing values out of a list: beside one, SQL does not know of any value that it is not in the list."""
    return [each for each in values if each is not None]


def none_of(what: str) -> _Judge:
    """Judge a figure that must be 0. One that is not there is none that was met."""

    def judge(found: Any, _counts: Counts) -> str | None:  # noqa: ANN401  a number
        return None if found == 0 else f"{'no number of' if found is None else found} {what}"

    return judge
