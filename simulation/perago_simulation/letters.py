"""What processes that explore together send each other: reports, worlds as rows of numbers, what the numbers mean."""

from __future__ import annotations

import io
import pickle
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from perago_core.values import Commit
from perago_simulation import world
from perago_simulation.cells import Cells
from perago_simulation.peers import Arrival, Report

#: Worlds of one size for one owner, each with its parent and its label. Once is enough, by whichever way.
Outbox: TypeAlias = dict[Cells, tuple[int, int]]


class Parcel(NamedTuple):
    """The worlds of an outbox: their cells in a row, and how each was reached."""

    cells: array[int]
    parents: array[int]
    labels: array[int]


def packed(outbox: Outbox) -> Parcel:
    """Make an outbox ready to be sent."""
    parents, labels = zip(*outbox.values(), strict=True)
    return Parcel(array("L", chain.from_iterable(outbox)), array("q", parents), array("L", labels))


class Letter(NamedTuple):
    """What one process tells another after a level. ``values`` are pickled: those it has numbered since the last."""

    report: Report
    values: bytes
    commits: tuple[Commit, ...]
    parcels: dict[int, Parcel]


def unpacked(ours: Sequence[int], size: int, parcel: Parcel) -> Iterator[Arrival]:
    """Unpack a parcel: each world's cells are the next so many numbers."""
    numbers = map(ours.__getitem__, parcel.cells)
    return zip(zip(*[numbers] * size, strict=True), parcel.parents, map(ours.__getitem__, parcel.labels), strict=True)


# ---------------------------------------------------------------------------------------------------------------------
# Values on their way

#: The model compares these with ``is``, so a copy would not do.
_CONSTANTS = {value: value for name, value in vars(world).items() if name.isupper() and isinstance(value, str)}


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: object) -> str | None:
        return value if type(value) is str and value in _CONSTANTS else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, value: str) -> str:
        return _CONSTANTS[value]


def pickled(values: Sequence[Any]) -> bytes:
    """Make values ready to be sent."""
    into = io.BytesIO()
    _Pickler(into, pickle.HIGHEST_PROTOCOL).dump(values)
    return into.getvalue()


def unpickled(values: bytes) -> Sequence[Any]:
    """Take values out again; a copy of this very process has put them in."""
    taken: Sequence[Any] = _Unpickler(io.BytesIO(values)).load()
    return taken
