"""The seal of a table: its name says how many files the table's folder has and how many bytes they are together.

A table's own log says which files hold its rows, but a sink lists and does not read. So whoever publishes compares the
listing with the seal, as for other data sets: a link that stopped half-way would be a table that nobody can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from perago_core.ports import Stored
from perago_spark.errors import DatasetError

#: What makes a folder a table: Delta's log, or where Iceberg's metadata begins.
LOG: Final = "_delta_log/"
HINT: Final = "metadata/version-hint.text"
#: The folder of the checkpoints of streams, which are sealed as tables are: Spark names their files.
STREAMS: Final = "_streams/"
DELTA: Final = "Delta"
ICEBERG: Final = "Iceberg"
CHECKPOINT: Final = "a stream's checkpoint"
_NAME: Final = re.compile(r"_table\.(?P<write>[^.]+)\.(?P<files>\d+)\.(?P<bytes>\d+)")


@frozen
class TableSeal:
    """A parsed name: which write was the last one, and the totals of the folder without the seal itself."""

    write: str
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"_table.{self.write}.{self.files}.{self.bytes}"


def table_seal_of(path: str) -> TableSeal | None:
    """Read the name of a table's seal; ``None``: it is none."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else TableSeal(found["write"], int(found["files"]), int(found["bytes"]))


def kind_of(listed: Iterable[Stored]) -> str | None:
    """Return the kind of the table that a folder with these files is; ``None``: it is none."""
    for each in listed:
        if f"/{LOG}" in f"/{each.path}":
            return DELTA
        if each.path.endswith(f"/{HINT}"):
            return ICEBERG
        if f"/{STREAMS}" in f"/{each.path}":
            return CHECKPOINT
    return None


def sizes_of(listed: Iterable[Stored]) -> list[int]:
    """Return the sizes of a table's own files; a record of ours that lies beside them is none of it."""
    return [each.size for each in listed if LOG in each.path or not each.path.rpartition("/")[2].startswith("_")]


def table_discrepancy(listed: Iterable[Stored]) -> str | None:
    """Compare a table's folder with its seal, by names and sizes; return what is wrong, ``None`` if nothing is."""
    found = tuple(listed)
    seals = [seal for each in found if (seal := table_seal_of(each.path)) is not None]
    sizes = sizes_of(found)
    if len(seals) != 1:
        return f"{len(seals)} seals of a table"
    if (len(sizes), sum(sizes)) != (seals[0].files, seals[0].bytes):
        return (
            f"{len(sizes)} file(s) with {sum(sizes)} bytes of a table whose seal says {seals[0].files} "
            f"with {seals[0].bytes}"
        )
    return None


def refuse_table(folder: str, listed: Iterable[Stored]) -> None:
    """Refuse to take a table for a data set of plain files: some of its files hold rows that are no longer in it."""
    kind = kind_of(listed)
    if kind is not None:
        raise DatasetError(
            f"a data set of plain files in {folder!r}",
            f"a table of {kind}",
            f"Read it with ws.read(name), write it with format='{kind.lower()}', or choose another name",
        )
