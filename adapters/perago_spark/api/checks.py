"""What a task demands of the rows it writes. A demand that is not met fails the body, so nothing is published.

On one write, checked against what was staged before the body goes on:

    ws.write("orders", fresh, mode="append", rows=Rows(at_least=1, at_most=1_000_000))
    ws.write("orders", fresh, mode="append", rows=exactly(delivered))

On all of them, as post-conditions of the task; they start no Spark job:

    Workspace(prefix="sales", post=[require_columns("orders", id="bigint", day="date"), require_rows("orders", 1)])

Types are Spark's own names for them: ``bigint``, ``string``, ``decimal(10,2)``, ``array<int>``. Anything else about the
rows is a function of the data sets: ``lambda ws: ws.observed("orders").values["unnamed"] == 0``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from perago_spark.errors import DatasetError

if TYPE_CHECKING:
    from perago_spark.api.datasets import SparkDatasets


@frozen
class RequireColumns:
    """A data set was written with these columns. Made by ``require_columns`` and ``require_only_columns``."""

    name: str
    columns: tuple[tuple[str, str], ...]
    only: bool

    def __call__(self, ws: SparkDatasets) -> None:
        """Raise ``DatasetError`` unless it is so, with each difference."""
        found = ws.observed(self.name).columns
        wrong = [
            f"{column}: {found.get(column, 'missing')}" for column, kind in self.columns if found.get(column) != kind
        ]
        wanted = dict(self.columns)
        if self.only:
            wrong += [f"{column}: {kind} is too many" for column, kind in found.items() if column not in wanted]
        if wrong:
            demanded = ", ".join(f"{column}: {kind}" for column, kind in self.columns)
            raise DatasetError(
                f"columns {demanded} of {self.name!r}", "; ".join(wrong), "Select and cast before writing"
            )


@frozen
class RequireRows:
    """A data set was written with so many rows. Made by ``require_rows``."""

    name: str
    rows: Rows

    def __call__(self, ws: SparkDatasets) -> None:
        """Raise unless it is so."""
        self.rows.check(self.name, ws.observed(self.name).rows)


def require_columns(name: str, /, **columns: str) -> RequireColumns:
    """Demand these columns among those of a data set."""
    return RequireColumns(name, tuple(columns.items()), only=False)


def require_only_columns(name: str, /, **columns: str) -> RequireColumns:
    """Demand exactly these columns, in any order."""
    return RequireColumns(name, tuple(columns.items()), only=True)


def require_rows(name: str, at_least: int = 1, at_most: int | None = None) -> RequireRows:
    """Demand a number of rows in what was written."""
    return RequireRows(name, Rows(at_least, at_most))


@frozen
class Rows:
    """How many rows a write may add (append) or have (overwrite)."""

    at_least: int = 0
    at_most: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.at_least < 0 or (self.at_most is not None and self.at_most < self.at_least):
            raise DatasetError("0 <= at_least <= at_most", str(self), "Correct the numbers")

    def __str__(self) -> str:
        if self.at_most is None:
            return f"at least {self.at_least} row(s)"
        if self.at_most == self.at_least:
            return f"exactly {self.at_least} row(s)"
        return f"{self.at_least} to {self.at_most} row(s)"

    def check(self, name: str, found: int) -> None:
        """Raise ``DatasetError`` unless this number of rows is as promised."""
        if found < self.at_least or (self.at_most is not None and found > self.at_most):
            raise DatasetError(f"{self} of {name!r}", str(found), "Look at what the frame was made from")


def exactly(rows: int) -> Rows:
    """Promise exactly so many rows."""
    return Rows(rows, rows)
