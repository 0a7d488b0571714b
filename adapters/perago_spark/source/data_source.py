"""The ``perago`` data source for Spark, which finds it through the package ``pyspark_perago``.

Reading: one data set of one commit, only the wanted columns and files. Both are options. Spark does not tell a Python
source which columns it needs. It can push filters down, and this reader must not accept them: Spark 4.3.0 caches what
it planned for one query with the relation and uses it for the next. Counterexample, seen: ``df.where("k = 1").count()``
and then ``df.count()`` gave 333 of 1000 rows, without any message.

Writing: tasks upload, the driver links the files of the winners and seals them; neither publishes. Spark gives the
driver one message for each partition: that list is the only statement of what the data set is. By then every attempt of
every task has had its effects, so a task must not make anything visible itself. Counterexample: each task puts its
object on the staging branch, one is run twice by speculation, and the save succeeds with 1250 rows of 1000.

``commit`` may run twice and ``abort`` may run after it, or while tasks still write: the first gives the same staging
branch each time, the second does nothing. What losers have uploaded is linked nowhere and vanishes with the staging.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import IO, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas import types as conversion
from pyspark.sql.types import StringType, StructType

from perago_core.ports import Source
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.format import layout
from perago_spark.format.arrow import Batch, Schema, freeze_imports, pa, pq
from perago_spark.format.parquet import UploadedFile, Uploads, repeated, row_group_ranges
from perago_spark.format.pruning import may_match
from perago_spark.format.schema import plain_schema, selected
from perago_spark.format.seal import DataFile, Dataset, Range, dataset_of, make_seal
from perago_spark.source import staging
from perago_spark.source.options import FORMAT, ReadPlace, WritePlace, read_place, write_place


class PeragoSource(DataSource):
    """Reads one data set of a commit, or writes one below a staging name. What exactly is in the options."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns that will be read."""
        return schema_of(read_place(self.options))

    def reader(self, schema: StructType) -> PeragoReader:
        """Make a reader."""
        return PeragoReader(read_place(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> PeragoWriter:  # noqa: FBT001  Spark's signature
        """Make a writer; nothing is changed yet."""
        return PeragoWriter(write_place(self.options), plain_schema(schema.json()), overwrite=overwrite)


#: Spark's own way from its types to Arrow's, whose types nobody knows.
_conversion: Any = conversion
#: Bytes that one task reads: small files are taken together, and a small data set still has a few tasks.
_LEAST: Final = 1 << 20
_MOST: Final = 64 << 20
_TASKS: Final = 8


class Files(InputPartition):
    """The files one task reads."""

    def __init__(self, files: tuple[DataFile, ...]) -> None:
        super().__init__(tuple(each.path for each in files))
        self.files = files


class PeragoReader(DataSourceReader):
    """Spark's batch reader of one data set at one commit."""

    def __init__(self, place: ReadPlace, schema: StructType) -> None:
        self._place = place
        self._schema = schema
        self._kinds = {each.name: each.dataType.simpleString() for each in schema.fields}

    def partitions(self) -> Sequence[InputPartition]:
        """Distribute the files that can hold wanted rows over tasks."""
        dataset = dataset_of(self._place.source, self._place.folder)
        files = [each for each in dataset.files if self._may_match(each.ranges, each.partition)]
        # Spark makes a partition of nothing if there is none, and would hand it to ``read``.
        return _distributed(files) or [Files(())]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """Read the files of one task."""
        assert isinstance(partition, Files)
        schema = _conversion.to_arrow_schema(self._schema, timezone="UTC")
        freeze_imports()
        for each in partition.files:
            with _opened(self._place.source, each.path) as stream:
                # Others may have let Spark write points in time as 96 bits, which hold more than nanoseconds can.
                yield from self._batches(pq.ParquetFile(stream, coerce_int96_timestamp_unit="us"), each, schema)

    def _may_match(self, ranges: Mapping[str, Range], partition: Mapping[str, Any]) -> bool:
        return may_match(self._place.conditions, self._kinds, ranges, partition)

    def _batches(self, file: Any, known: DataFile, schema: Schema) -> Iterator[Batch]:  # noqa: ANN401  pyarrow
        wanted = [name for name in schema.names if name not in known.partition]
        footer = file.metadata
        groups = [
            number for number in range(footer.num_row_groups) if self._may_match(row_group_ranges(footer, number), {})
        ]
        for batch in file.iter_batches(row_groups=groups, columns=wanted):
            columns = [
                repeated(known.partition[each.name], each.type, batch.num_rows)
                if each.name in known.partition
                else batch.column(each.name).cast(each.type)
                for each in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def schema_of(place: ReadPlace) -> StructType:
    """Read the columns of a data set from its seals, or else from its first file."""
    dataset = dataset_of(place.source, place.folder)
    if not dataset:
        raise DatasetError(
            f"a data set in {place.folder!r}",
            "nothing there in the commit this task starts from",
            "Correct the name, or let an earlier task write it",
        )
    text = dataset.seals[-1].schema if dataset.seals else _schema_of_files(place.source, dataset)
    if place.columns is not None:
        text = selected(text, place.columns, place.folder)
    return StructType.fromJson(json.loads(text))


def _schema_of_files(source: Source, dataset: Dataset) -> str:
    first = dataset.files[0]
    with _opened(source, first.path) as stream:
        found: StructType = _conversion.from_arrow_schema(pq.read_schema(stream))
    for name in first.partition:
        found = found.add(name, StringType())
    return plain_schema(found.json())


def _opened(source: Source, path: str) -> IO[bytes]:
    """Open an object for random access, as Parquet needs; a stream that cannot seek is spooled to disk."""
    stream: IO[bytes] = value_or_raise(source.get(path))
    if stream.seekable():
        return stream
    spool = tempfile.TemporaryFile()  # noqa: SIM115  closed by whoever reads it
    with stream:
        shutil.copyfileobj(stream, spool, 1 << 20)
    spool.seek(0)
    return spool


def _distributed(files: list[DataFile]) -> list[InputPartition]:
    share = min(_MOST, max(_LEAST, sum(each.bytes for each in files) // _TASKS))
    tasks: list[list[DataFile]] = []
    room = 0
    for each in files:
        if not tasks or each.bytes > room:
            tasks.append([])
            room = share
        tasks[-1].append(each)
        room -= each.bytes
    return [Files(tuple(each)) for each in tasks]


class Uploaded(WriterCommitMessage):
    """The files that one task attempt has uploaded."""

    def __init__(self, written: tuple[UploadedFile, ...]) -> None:
        self.written = written


class PeragoWriter(DataSourceArrowWriter):
    """One write. Made where it is planned, pickled to every task, and to where it is committed."""

    def __init__(self, place: WritePlace, schema: str, *, overwrite: bool) -> None:
        self._place = place
        self._schema = schema
        self._overwrite = overwrite
        staging.check(place, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[Batch]) -> Uploaded:
        """Upload the rows of one task attempt, under names of its own."""
        task = TaskContext.get()
        assert task is not None, "Spark calls this inside a task"
        numbers = count()
        uploads = Uploads(
            self._place.sink,
            self._place.folder,
            self._place.partition_by,
            lambda: layout.file_name(task.partitionId(), self._place.write, task.taskAttemptId(), next(numbers)),
        )
        written = uploads.write(iterator)
        freeze_imports()
        return Uploaded(written)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Link what the winners have put and seal it, unless that would leave the content as it was."""
        winners = [each for message in messages for each in _written(message)]
        seal = make_seal(self._place.write, self._schema, self._place.partition_by, (file for _, file in winners))
        staging.stage(self._place, seal, tuple(stored for stored, _ in winners), overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing. Other attempts may still be uploading, and the list is not what has been uploaded."""


def _written(message: WriterCommitMessage | None) -> tuple[UploadedFile, ...]:
    if message is None:
        raise DatasetError("a message from every task", "none from one of them", "Try the task again")
    assert isinstance(message, Uploaded)
    return message.written
