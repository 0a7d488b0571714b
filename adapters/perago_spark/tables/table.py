"""One table of the input commit, in a folder of this task alone, where its own format reads and writes it.

What says which files count (Delta's log, Iceberg's metadata) is brought there first, files with rows only where the
format wants to read them. What a write adds is put into the sink and linked: new metadata, and the files that it names.
What it does not name was left by task attempts that lost, and is staged nowhere.

Two tasks that write one table from one commit both write the next version. One name, two contents: the merge of the
second is a conflict, whatever rows they wrote.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from perago_core.ports import Sink, Source, Stored
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.tables.seal import TableSeal, kind_of, sizes_of, table_seal_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@frozen
class Change:
    """What was written since a version: the files that are named with their sizes, and a count of rows."""

    files: Mapping[str, int]
    rows: int


@frozen
class TableWrite:
    """How rows become part of a table."""

    mode: str
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False


def check_place(spark: SparkSession, kind: str) -> None:
    """Refuse a Spark whose tasks cannot see this machine's folders."""
    from perago_spark.process.session import sees_folders  # noqa: PLC0415  importable without Spark

    if not sees_folders(spark):
        raise DatasetError(
            f"a Spark in the task's own process for {kind} tables: spark.master local[...]",
            "one on other machines, which cannot see this one's folders",
            "Set spark.master to local[*], or write the data set with format='parquet'",
        )


def check_extension(spark: SparkSession, kind: str, extension: str, settings: str) -> None:
    """Refuse a Spark without the format."""
    found = str(spark.conf.get("spark.sql.extensions", "") or "none")
    if extension not in found:
        raise DatasetError(f"{kind} in Spark", f"spark.sql.extensions {found}", f"Set {settings} in [spark.conf]")


class Table(ABC):
    """A table at ``folder`` of a commit, or the place of one that is not there yet (``before`` is then ``None``)."""

    #: Its name for people, and the folder of what says which files count.
    kind: str
    metadata: str
    #: The one file below ``metadata`` that is ever replaced: where to begin.
    pointer: str

    def __init__(self, spark: SparkSession, source: Source, folder: str, place: Path) -> None:
        self._spark = spark
        self._source = source
        self._folder = folder
        self.place = place
        listed: tuple[Stored, ...] = value_or_raise(source.list(folder))
        self._stored = {each.path.removeprefix(folder): each for each in listed}
        found = kind_of(listed)
        if listed and found != self.kind:
            raise DatasetError(
                f"a table of {self.kind} in {folder!r}, or nothing",
                f"{len(listed)} file(s) of {found or 'another format'}",
                "Choose another name",
            )
        #: What is in the folder and on the staging branch alike.
        self._known = {path for path in self._stored if not path.startswith(self.metadata)}
        self._fetch(path for path in self._stored if path.startswith(self.metadata))
        self._before = self._version()
        self._staged = self._before

    @abstractmethod
    def read(self, where: Sequence[Column], columns: Sequence[str] | None) -> DataFrame:
        """Read the table as it is in the input commit, also after a write of this task."""

    @abstractmethod
    def write(self, frame: DataFrame, how: TableWrite) -> None:
        """Add rows, or replace all, or those of the partitions that the frame has rows of."""

    @abstractmethod
    def merge(self, frame: DataFrame, keys: Sequence[str], *, merge_schema: bool) -> None:
        """Replace the rows with the keys of these, and add those whose keys it has not."""

    @abstractmethod
    def _version(self) -> int | None:
        """Return the newest version; ``None``: there is no table."""

    @abstractmethod
    def _change(self, first: int, last: int) -> Change:
        """Return what these versions have added; raise where something is named outside the table."""

    def check_staged(self) -> None:
        """Refuse another write after one that Delta has done and that was not staged: its rows would come with it."""
        if self._version() != self._staged:
            raise DatasetError(
                f"a table without a write that failed in this task: {self._folder!r}", "one", "Let the body raise"
            )

    def stage(self, sink: Sink, write: str) -> Change:
        """Link what was written since the last time, and seal the folder; return what the log says of it."""
        last = self._version()
        assert last is not None, "it was written"
        change = self._change(0 if self._staged is None else self._staged + 1, last)
        self._check(change)
        added = sorted(path for path in self._found() if self._is_new(path, change.files))
        stored = tuple(self._put(sink, path) for path in added)
        listed: tuple[Stored, ...] = value_or_raise(sink.list(self._folder))
        old = tuple(each.path for each in listed if table_seal_of(each.path) is not None)
        value_or_raise(sink.link(stored, old))
        sizes = sizes_of({each.path: each for each in (*listed, *stored)}.values())
        seal = TableSeal(write, len(sizes), sum(sizes))
        # Last, because a seal says that all it counts is there.
        value_or_raise(sink.seal(f"{self._folder}{seal}", b""))
        self._known.update(added)
        self._staged = last
        return change

    def _check(self, change: Change) -> None:
        """Hold the metadata against the folder: what it names must be there, as long as it says."""
        for path, size in change.files.items():
            place = self.place / path
            found = place.stat().st_size if place.is_file() else None
            if path not in self._known and found != size:
                raise DatasetError(
                    f"{path!r} with {size} bytes, as the metadata of {self._folder!r} says",
                    "no such file" if found is None else f"{found} bytes",
                    "Try the task again; nothing of it was staged",
                )

    def _is_new(self, path: str, named: Iterable[str]) -> bool:
        if path.startswith(self.metadata):
            return path not in self._known or path == self.pointer
        return path not in self._known and (path in named or path.endswith(".bin"))

    def _found(self) -> Iterable[str]:
        """List the folder without the checksums that Hadoop writes beside each file."""
        for each in self.place.rglob("*"):
            if each.is_file() and not (each.name.startswith(".") and each.suffix == ".crc"):
                yield each.relative_to(self.place).as_posix()

    def _put(self, sink: Sink, path: str) -> Stored:
        with (self.place / path).open("rb") as file:
            stored: Stored = value_or_raise(sink.put(f"{self._folder}{path}", file))
        return stored

    def _fetch_files(self, wanted: Iterable[str]) -> None:
        """Bring files with rows, and whatever small things lie beside them."""
        names = set(wanted)
        self._fetch(path for path in self._stored if path in names or path.endswith(".bin"))

    def _fetch(self, paths: Iterable[str]) -> None:
        for path in paths:
            place = self.place / path
            if place.exists():
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with value_or_raise(self._source.get(f"{self._folder}{path}")) as stream, place.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            self._known.add(path)
