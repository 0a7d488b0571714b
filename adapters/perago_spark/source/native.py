"""The native route: Spark's own Parquet writer fills an area nobody reads; the driver takes the files over and seals.

Spark's committer shows the files of winners only, and only when the whole job has succeeded. What it leaves is still
compared with the job before anything is linked: it was committed, all files are of one job, no task has
two files of one number, and they hold as many rows as Spark counted while it wrote. Surplus or missing: refused.
Counterexample: a task copied by speculation, or restarted, leaves a second file of rows that are already there.

Equal content is recognised by equal files, not by rows: reading every row again would cost what this route saves. As
always with Spark, an empty text in a partition column becomes a missing one.

The area is a folder outside every branch. A store that Spark itself can write to offers one: its sink has the method
``native_area``. For any other store it is a folder on this machine, and its files are put into the sink one by one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast, runtime_checkable

from attrs import frozen

from perago_core.answers import Answer, Done, NotDone
from perago_core.ports import Sink, Stored
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.format import layout
from perago_spark.format.arrow import Footer, pq
from perago_spark.format.parquet import ranges_of
from perago_spark.format.schema import columns_of, plain_schema
from perago_spark.format.seal import DataFile, make_seal
from perago_spark.source import staging
from perago_spark.source.options import WritePlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")
R = TypeVar("R")
_FILE: Final = re.compile(r"part-(?P<task>\d+)-(?P<job>[0-9a-f-]{36})[.-]c(?P<number>\d+)(?:\.[a-z0-9]+)?\.parquet")
_COMMITTED: Final = "_SUCCESS"
#: What a job must be committed by, whatever else is set.
OPTIONS: Final = {
    # The other one moves the files of each task at once, and leaves them if the job then fails.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
}
#: Bytes that hold the footer of most files; a longer one is read in a second step.
_TAIL: Final = 64 << 10
#: Files taken over at once.
_THREADS: Final = 8


@frozen
class _File:
    found: Stored
    folder: str
    task: int
    number: int
    job: str

    @property
    def place(self) -> tuple[str, int, int]:
        return self.folder, self.task, self.number


def write(frame: DataFrame, place: WritePlace, *, overwrite: bool) -> None:
    """Write a frame and stage it."""
    schema = plain_schema(frame.schema.json())
    columns = staging.check(place, schema, overwrite=overwrite)
    with area_of(place.sink, place.folder, place.write) as answer:
        area: Area = value_or_raise(answer)
        files, footers = check_job(area, place.folder, _save(frame, area, place))
        stored = _in_threads(lambda each: _taken_over(area, each, place), files)
    known = columns_of(schema)
    sealed = [_described(*each, known) for each in zip(files, stored, footers, strict=True)]
    seal = make_seal(place.write, columns, place.partition_by, sealed)
    staging.stage(place, seal, tuple(stored), overwrite=overwrite)


def check_job(area: Area, folder: str, rows: int) -> tuple[list[_File], list[Footer]]:
    """Compare the files in the area with the job that wrote them and its count of rows; raise if they disagree."""
    files = _job_files(value_or_raise(area.list()), folder)
    footers = _in_threads(lambda each: _footer(area, each.found), files)
    found = sum(footer.num_rows for footer in footers)
    if found != rows:
        raise _refused(f"the {rows} rows that the job has counted", f"{found} in its files", folder)
    return files, footers


def _save(frame: DataFrame, area: Area, place: WritePlace) -> int:
    """Have Spark write; return its count of rows, each counted once however often a task was run."""
    from pyspark.sql import Observation  # noqa: PLC0415  importable without Spark
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; as above

    counted = Observation()
    writer = frame.observe(counted, F.count(F.lit(1)).alias("rows")).write.mode("error")
    if place.most_rows:
        writer = writer.option("maxRecordsPerFile", place.most_rows)
    writer.partitionBy(*place.partition_by).options(**OPTIONS, **area.options).parquet(area.uri)
    return int(counted.get["rows"])


def _job_files(listed: tuple[Stored, ...], folder: str) -> list[_File]:
    """Return the files of the one job that wrote here; raise if it was not committed, or is not the only one."""
    if not any(each.path == _COMMITTED for each in listed):
        raise _refused("a job that was committed", f"no {_COMMITTED}", folder)
    files = [_file(each, folder) for each in listed if _is_data(each.path)]
    if len({each.job for each in files}) > 1:
        raise _refused("files of one job", f"those of {len({each.job for each in files})}", folder)
    if len({each.place for each in files}) != len(files):
        raise _refused("one file of each number of a task", "a second one", folder)
    return files


def _is_data(path: str) -> bool:
    """Whether a file holds rows; those in Spark's own temporary folders do not."""
    return layout.is_data(path) and not path.startswith("_temporary/")


def _file(found: Stored, folder: str) -> _File:
    parent, _, name = found.path.rpartition("/")
    known = _FILE.fullmatch(name)
    if known is None:
        raise _refused("files that Spark has written", repr(found.path), folder)
    below = f"{parent}/" if parent else ""
    return _File(found, below, int(known["task"]), int(known["number"]), known["job"])


def _refused(expected: str, found: str, folder: str) -> DatasetError:
    return DatasetError(f"{expected} for {folder!r}", found, "Try the task again; nothing of it was staged")


def _footer(area: Area, found: Stored) -> Footer:
    tail: bytes = value_or_raise(area.tail(found, _TAIL))
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > len(tail):
        tail = value_or_raise(area.tail(found, needed))
    return pq.read_metadata(BytesIO(tail))


def _taken_over(area: Area, file: _File, place: WritePlace) -> Stored:
    """Take a file over under the name that the other route would give it; partition folders are named alike."""
    path = f"{place.folder}{file.folder}{layout.file_name(file.task, place.write, 0, file.number)}"
    return cast("Stored", value_or_raise(area.take(file.found, path)))


def _described(file: _File, stored: Stored, footer: Footer, known: Mapping[str, str]) -> DataFile:
    parts = (layout.partition_of(each) for each in file.folder.split("/")[:-1])
    partition = {name: _value(value, known[name]) for name, value in (each for each in parts if each is not None)}
    # With the partition in it: two folders whose files changed places are not what they were.
    content = json.dumps([stored.checksum, partition], sort_keys=True)
    digest = int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big")
    return DataFile(stored.path, stored.checksum, footer.num_rows, stored.size, digest, partition, ranges_of(footer))


def _value(text: str | None, kind: str) -> str | int | bool | None:
    """Read a partition's value from its folder, in the form in which the other route keeps it."""
    if text is None or kind in {"string", "date"}:
        return text
    return text == "true" if kind == "boolean" else int(text)


def _in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="native") as pool:
        return list(pool.map(work, items))


class Area(Protocol):
    """A folder of one write. Nobody reads it, so that whatever a late task leaves there harms nobody."""

    @property
    def uri(self) -> str:
        """The address of the folder, as Spark takes it."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Options with which Spark's writer reaches it."""
        ...

    def list(self) -> Answer[tuple[Stored, ...]]:
        """List what lies there, by paths relative to it."""
        ...

    def tail(self, found: Stored, size: int) -> Answer[bytes]:
        """Read the last bytes of a file, where Parquet says what is in it."""
        ...

    def take(self, found: Stored, path: str) -> Answer[Stored]:
        """Make a file ready to be linked under a path."""
        ...


@runtime_checkable
class AreaSink(Protocol):
    """A sink of a store that Spark itself can write to."""

    def native_area(self, folder: str, write: str) -> Answer[Area]:
        """Make the area of one write."""
        ...


@contextmanager
def area_of(sink: Sink, folder: str, write: str) -> Generator[Answer[Area]]:
    """Make the area of one write, and remove it afterwards if it is on this machine."""
    if isinstance(sink, AreaSink):
        yield sink.native_area(folder, write)
        return
    # Below the task's own folder: whoever ends a killed body removes that.
    place = Path(tempfile.mkdtemp(prefix="native-"))
    try:
        yield Done(LocalArea(place / write, sink))
    finally:
        shutil.rmtree(place, ignore_errors=True)


@frozen
class LocalArea:
    """A folder on this machine. Every executor must see it too, so it serves one machine or a shared disk."""

    folder: Path
    sink: Sink

    @property
    def uri(self) -> str:
        """The address of the folder, as Spark takes it."""
        return self.folder.as_uri()

    @property
    def options(self) -> Mapping[str, str]:
        """Switch off the checksum files that Hadoop writes beside each file: bytes are hashed when they are put."""
        return {
            "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "fs.file.impl.disable.cache": "true",  # else whoever asked first has decided for all
        }

    def list(self) -> Answer[tuple[Stored, ...]]:
        """List what lies there."""
        if not self.folder.is_dir():
            return NotDone(f"expected {self.folder} to hold what Spark wrote, found no such folder on this machine")
        return Done(tuple(sorted(self._found(), key=lambda each: each.path)))

    def tail(self, found: Stored, size: int) -> Answer[bytes]:
        """Read the last bytes of a file."""
        with Path(found.address).open("rb") as file:
            file.seek(max(0, found.size - size))
            return Done(file.read())

    def take(self, found: Stored, path: str) -> Answer[Stored]:
        """Put a file into the sink; from then on it is not needed here."""
        place = Path(found.address)
        with place.open("rb") as file:
            taken = self.sink.put(path, file)
        place.unlink()
        return taken

    def _found(self) -> Iterator[Stored]:
        for parent, _, names in os.walk(self.folder):
            for each in (Path(parent) / name for name in names):
                yield Stored(each.relative_to(self.folder).as_posix(), str(each), "", each.stat().st_size)
