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

Streams: a query reads what was added to a data set since the commit that its checkpoint names, and each of its batches
is a write of its own. A writer is made anew for each commit, so who it is comes from options and the batch alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, cast

from attrs import evolve
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from perago_core.ports import Source
from perago_spark.errors import DatasetError
from perago_spark.format import codec, layout, reading
from perago_spark.format.arrow import Batch, Footer, Schema, freeze_imports
from perago_spark.format.parquet import UploadedFile, Uploads, row_group_ranges
from perago_spark.format.proof import Evidence, proven
from perago_spark.format.pruning import may_match
from perago_spark.format.schema import plain_schema, selected
from perago_spark.format.seal import DataFile, Dataset, Range, dataset_of, make_seal
from perago_spark.source import staging
from perago_spark.source.options import (
    FORMAT,
    ReadPlace,
    StreamPlace,
    WritePlace,
    read_place,
    stream_place,
    write_place,
)
from perago_spark.versions import STREAMS_ARROW, StreamArrowWriter, from_arrow_schema, to_arrow_schema


class PeragoSource(DataSource):
    """Reads one data set of a commit, or writes one below a staging name. What exactly is in the options."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns that will be read."""
        return schema_of(self.read_place())

    def reader(self, schema: StructType) -> PeragoReader:
        """Make a reader."""
        return PeragoReader(self.read_place(), schema)

    def read_place(self) -> ReadPlace:
        """Return what is to be read, as the options say."""
        return read_place(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> PeragoWriter:  # noqa: FBT001  Spark's signature
        """Make a writer; nothing is changed yet."""
        return PeragoWriter(write_place(self.options), plain_schema(schema.json()), overwrite=overwrite)

    def streamReader(self, schema: StructType) -> PeragoStreamReader:  # noqa: N802  Spark's name
        """Make a reader of what a query has not read yet."""
        return PeragoStreamReader(stream_place(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> PeragoStreamWriter:  # noqa: FBT001, N802  as above
        """Make a writer of batches; nothing is changed yet."""
        if not STREAMS_ARROW:
            raise DatasetError(
                "Spark 4.1 or newer, whose streams hand over Arrow batches", "an older one", "Use foreachBatch"
            )
        return PeragoStreamWriter(write_place(self.options), plain_schema(schema.json()), overwrite=overwrite)


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
        schema = to_arrow_schema(self._schema)
        freeze_imports()
        for each in partition.files:
            with reading.opened(self._place.source, each.path) as stream:
                yield from reading.batches(stream, each, schema, self._place.text, self._may_hold)

    def _may_hold(self, footer: Footer, group: int) -> bool:
        return self._may_match(row_group_ranges(footer, group), {})

    def _may_match(self, ranges: Mapping[str, Range], partition: Mapping[str, Any]) -> bool:
        return may_match(self._place.conditions, self._kinds, ranges, partition)


def schema_of(place: ReadPlace) -> StructType:
    """Read the columns of a data set from its seals, or else from its first file."""
    dataset = dataset_of(place.source, place.folder)
    if not dataset:
        raise DatasetError(
            f"a data set in {place.folder!r}",
            "nothing there in the commit this task starts from",
            "Correct the name, or let an earlier task write it",
        )
    text = dataset.seals[-1].schema if dataset.seals else _schema_of_files(place, dataset)
    if place.columns is not None:
        text = selected(text, place.columns, place.folder)
    return StructType.fromJson(json.loads(text))


def _schema_of_files(place: ReadPlace, dataset: Dataset) -> str:
    if place.schema:
        return plain_schema(place.schema)
    found = from_arrow_schema(reading.file_schema(place.source, dataset, place.text))
    return plain_schema(found.json())


def _arrow_schema(schema: str) -> Schema:
    return to_arrow_schema(StructType.fromJson(json.loads(schema)))


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
    """The files that one task attempt has uploaded, and what their rows have shown."""

    def __init__(self, written: tuple[UploadedFile, ...], shown: Sequence[Sequence[Any]] = ()) -> None:
        self.written = written
        self.shown = shown


class PeragoWriter(DataSourceArrowWriter):
    """One write. Made where it is planned, pickled to every task, and to where it is committed."""

    def __init__(self, place: WritePlace, schema: str, *, overwrite: bool) -> None:
        self._place = place
        self._overwrite = overwrite
        if place.format != layout.PARQUET:
            codec.check_columns(place.format, _arrow_schema(schema), place.folder)
        self._schema = staging.check(place, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[Batch]) -> Uploaded:
        """Upload the rows of one task attempt, under names of its own."""
        task = TaskContext.get()
        assert task is not None, "Spark calls this inside a task"
        numbers = count()
        uploads = Uploads(
            self._place.sink,
            self._place.folder,
            self._place.partition_by,
            lambda: layout.file_name(
                task.partitionId(), self._place.write, task.taskAttemptId(), next(numbers), self._place.format
            ),
            format=self._place.format,
            most_rows=self._place.most_rows,
            compression=self._place.compression,
        )
        evidence = Evidence(self._place.proofs)
        written = uploads.write(evidence.watching(iterator) if self._place.proofs else iterator)
        freeze_imports()
        return Uploaded(written, evidence.shown)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Link what the winners have put and seal it, unless that would leave the content as it was.

        Nothing is linked unless their rows show that the gates are met.
        """
        uploaded = [_uploaded(each) for each in messages]
        if not proven(self._place.proofs, [each.shown for each in uploaded]):
            raise DatasetError("rows that show that all gates are met", self._place.unmet, "They are counted now")
        winners = [each for one in uploaded for each in one.written]
        seal = make_seal(self._place.write, self._schema, self._place.partition_by, (file for _, file in winners))
        staging.stage(self._place, seal, tuple(stored for stored, _ in winners), overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing. Other attempts may still be uploading, and the list is not what has been uploaded."""


#: Spark's own name for the batch that a task works for.
_BATCH: Final = "streaming.sql.batchId"


class AddedFiles(Files):
    """Files that one task reads, and the commit they are read from: a later one may have them no more."""

    def __init__(self, source: Source, files: tuple[DataFile, ...]) -> None:
        super().__init__(files)
        self.source = source


class PeragoStreamReader(DataSourceStreamReader):
    """Spark's stream of what is added to one data set. An offset is the commit up to which it was read."""

    def __init__(self, place: StreamPlace, schema: StructType) -> None:
        self._place = place
        self._schema = schema

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  Spark's name
        """Return where a query begins that has read nothing."""
        return self._offset("")

    def latestOffset(self) -> dict[str, str]:  # type: ignore[override]  # noqa: N802  the form that every Spark takes
        """Return where this run ends: the commit that the task reads, or its start if nothing was added."""
        return self._offset(self._place.unread.end)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Distribute the files that were added over tasks."""
        unread = self._place.unread
        if start == end:  # Spark asks so when it goes on from a checkpoint, to see that it may
            return [AddedFiles(self._place.place.source, ())]
        if (start, end) != (self._offset(unread.start), self._offset(unread.end)):
            raise DatasetError(
                f"a query that stands at commit {unread.start or '(none)'}",
                f"one that stands at {start.get('commit') or '(none)'}",
                "Give ws.stream(..., query=NAME) the name that ws.run_query runs",
            )
        found = [
            AddedFiles(each.after, cast("Files", task).files)
            for each in unread.steps
            for task in _distributed(list(each.files(unread.folder)))
        ]
        return found or [AddedFiles(self._place.place.source, ())]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """Read the files of one task."""
        assert isinstance(partition, AddedFiles)
        schema = to_arrow_schema(self._schema)
        freeze_imports()
        for each in partition.files:
            with reading.opened(partition.source, each.path) as stream:
                yield from reading.batches(stream, each, schema, self._place.place.text, lambda _footer, _group: True)

    def commit(self, end: dict[str, str]) -> None:
        """Do nothing: how far a query is stands in its checkpoint, and counts once that is published."""

    def stop(self) -> None:
        """Do nothing: nothing is held open."""

    def _offset(self, commit: str) -> dict[str, str]:
        return {"folder": self._place.unread.folder, "commit": commit}


class PeragoStreamWriter(StreamArrowWriter):
    """Spark's writer of a query's batches: each is one write, which its number tells from the others of the task."""

    def __init__(self, place: WritePlace, schema: str, *, overwrite: bool) -> None:
        self._place = place
        self._schema = schema
        self._overwrite = overwrite

    def write(self, iterator: Iterator[Batch]) -> Uploaded:
        """Upload the rows of one task attempt."""
        task = TaskContext.get()
        batch = None if task is None else task.getLocalProperty(_BATCH)
        assert batch is not None, "Spark tells tasks of a stream which batch they work for"
        return self._writer(int(batch)).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Link what the winners of this batch have put, and seal it."""
        self._writer(batchId).commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Do nothing, as for a write of a task."""

    def _writer(self, batch: int) -> PeragoWriter:
        place = evolve(self._place, write=f"{self._place.write}-{batch}")
        return PeragoWriter(place, self._schema, overwrite=self._overwrite)


def _uploaded(message: WriterCommitMessage | None) -> Uploaded:
    if message is None:
        raise DatasetError("a message from every task", "none from one of them", "Try the task again")
    assert isinstance(message, Uploaded)
    return message
