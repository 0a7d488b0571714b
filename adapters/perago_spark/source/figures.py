"""Figures of the rows of one write: taken by its tasks while they upload, added up by the driver for the winners.

What is counted comes as columns beside the rows, evaluated by Spark with generated code: true or false, of which the
true ones are counted, or a number, of which the largest is kept. A task takes these columns out of each batch, so they
are written nowhere. Spark's own ``Observation`` evaluates each figure row by row, without generated code (ADR 58).

The driver's commit runs in a process of Spark's, perhaps on another machine, and a sink lists and does not read. So
the figures of a write are in the name of an empty file beside its seal; whoever reads them removes it.

    orders/_figures.<write>.0_17.1700000000
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import add
from typing import TYPE_CHECKING, Final

from attrs import frozen

from perago_core.ports import Stored

if TYPE_CHECKING:
    from perago_spark.format.arrow import Batch

_NAME: Final = re.compile(r"_figures\.(?P<write>[^.]+)\.(?P<counts>[\d_]*)\.(?P<largest>[-\dn_]*)")
_NONE: Final = "n"


@frozen
class FigureColumns:
    """The columns of a frame that are counted, and those of which the largest value is kept."""

    counted: tuple[str, ...] = ()
    largest: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return all of them."""
        return self.counted + self.largest

    def nothing(self) -> Figures:
        """Return the figures of no rows."""
        return Figures((0,) * len(self.counted), (None,) * len(self.largest))

    def of(self, batch: Batch) -> Figures:
        """Take the figures of one batch."""
        from perago_spark.format.arrow import pc  # noqa: PLC0415  importable without Arrow

        return Figures(
            tuple(batch.column(each).true_count for each in self.counted),
            tuple(pc.max(batch.column(each)).as_py() for each in self.largest),
        )


@frozen
class Figures:
    """How many rows are so, and the largest values; ``None``: no row has one. Seconds, so that a name can hold them."""

    counts: tuple[int, ...] = ()
    largest: tuple[int | None, ...] = ()

    def __add__(self, other: Figures) -> Figures:
        return Figures(tuple(map(add, self.counts, other.counts)), tuple(map(_larger, self.largest, other.largest)))

    def file_name(self, write: str) -> str:
        """Name the file that says them."""
        largest = (_NONE if each is None else str(each) for each in self.largest)
        return f"_figures.{write}.{'_'.join(map(str, self.counts))}.{'_'.join(largest)}"

    def named(self, columns: FigureColumns) -> dict[str, int | None]:
        """Return them by column."""
        return dict(zip(columns.names, (*self.counts, *self.largest), strict=True))


NO_FIGURES: Final = Figures()


class Taking:
    """What one task takes while its batches pass."""

    def __init__(self, columns: FigureColumns) -> None:
        self._columns = columns
        self.figures = columns.nothing()

    def out_of(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Pass batches on without the columns of figures."""
        for batch in batches:
            self.figures += self._columns.of(batch)
            yield batch.select([each for each in batch.schema.names if each not in self._columns.names])


def find_figures(listed: Iterable[Stored], write: str) -> tuple[str, Figures] | None:
    """Return the file that says the figures of a write, and what it says; ``None``: there is none."""
    for each in listed:
        found = _NAME.fullmatch(each.path.rpartition("/")[2])
        if found is not None and found["write"] == write:
            counts = tuple(int(one) for one in found["counts"].split("_") if one)
            largest = tuple(None if one == _NONE else int(one) for one in found["largest"].split("_") if one)
            return each.path, Figures(counts, largest)
    return None


def _larger(one: int | None, other: int | None) -> int | None:
    return one if other is None or (one is not None and one >= other) else other
