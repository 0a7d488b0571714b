"""The writing half of the ``perago`` data source: tasks upload, the driver links the winners and seals; none publishes.

Spark tells the driver one message for each partition: that list is the only statement of what the data set is. By
then every attempt of every task has had its effects, so a task must not make anything visible itself. Counterexample:
each task puts its object on the staging branch, one is run twice by speculation, and the save succeeds with 1250 rows
of 1000.

``commit`` may run twice and ``abort`` may run after it, or while tasks still write: the first gives the same staging
branch each time, the second does nothing. What losers have uploaded is linked nowhere and vanishes with the staging.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from perago_core.ports import Stored
from perago_spark import naming
from perago_spark.arrow import Batch
from perago_spark.errors import DatasetError
from perago_spark.listing import Dataset, dataset_of
from perago_spark.parquet import Uploads, Written
from perago_spark.place import WritePlace, taken
from perago_spark.schemas import check_append, check_partitioning
from perago_spark.seal import Seal, make_seal, total


class Uploaded(WriterCommitMessage):
    """What one task attempt has put."""

    def __init__(self, written: tuple[Written, ...]) -> None:
        self.written = written


class PeragoWriter(DataSourceArrowWriter):
    """One write. Made where it is planned, pickled to every task, and to where it is committed."""

    def __init__(self, place: WritePlace, schema: str, *, overwrite: bool) -> None:
        self._place = place
        self._schema = schema
        self._overwrite = overwrite
        check_partitioning(schema, place.partition_by, place.folder)
        if not overwrite:
            self._check_append(dataset_of(place.source, place.folder))

    def write(self, iterator: Iterator[Batch]) -> Uploaded:
        """Upload the rows of one task attempt, under names of its own."""
        task = TaskContext.get()
        assert task is not None, "Spark calls this inside a task"
        numbers = count()
        uploads = Uploads(
            self._place.sink,
            self._place.folder,
            self._place.partition_by,
            lambda: naming.file_name(task.partitionId(), self._place.write, task.taskAttemptId(), next(numbers)),
        )
        return Uploaded(uploads.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Link what the winners have put and seal it, unless that would leave the content as it was."""
        winners = [each for message in messages for each in _written(message)]
        place = self._place
        seal = make_seal(place.write, self._schema, place.partition_by, (file for _, file in winners))
        staged: tuple[Stored, ...] = taken(place.sink.list(place.folder))
        before = dataset_of(place.source, place.folder)
        if self._changes_nothing(seal, before, staged):
            return
        self._check_kind(seal, staged)
        ours = {stored.path for stored, _ in winners} | {f"{place.folder}{seal.name}"}
        gone = tuple(each.path for each in staged if each.path not in ours) if self._overwrite else ()
        taken(place.sink.link(tuple(stored for stored, _ in winners), gone))
        # Last, because a seal says that all it names is there.
        taken(place.sink.seal(f"{place.folder}{seal.name}", seal.document()))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing. Other attempts may still be uploading, and the list is not what has been uploaded."""

    def _changes_nothing(self, seal: Seal, before: Dataset, staged: tuple[Stored, ...]) -> bool:
        if not before.seals:
            return False
        if not self._overwrite:
            return seal.rows == 0
        # Only if this task has not changed the data set before: then leaving it alone would keep that change.
        untouched = {(each.path, each.checksum) for each in staged} == {
            (each.path, each.checksum) for each in before.listed
        }
        return untouched and total([seal]) == total(before.seals)

    def _check_kind(self, seal: Seal, staged: tuple[Stored, ...]) -> None:
        """Refuse to add rows of another kind to what an earlier write of the same task has staged."""
        others = (naming.seal_of(each.path) for each in staged)
        if not self._overwrite and any(each is not None and each.kind != seal.name.kind for each in others):
            raise DatasetError(
                f"the columns and partitioning of the first write to {self._place.folder!r} in this task",
                "others",
                "Write frames of one shape, or one frame",
            )

    def _check_append(self, before: Dataset) -> None:
        if before.data and not before.seals:
            raise DatasetError(
                f"a data set with seals in {self._place.folder!r}, so that rows can be added",
                f"{len(before.data)} file(s) without one",
                "Read it and write it once with mode='overwrite'",
            )
        for seal in before.seals:
            check_append(seal.schema, self._schema, self._place.folder)
            if seal.partition_by != self._place.partition_by:
                raise DatasetError(
                    f"partition_by={list(seal.partition_by)} as {self._place.folder!r} has it",
                    f"{list(self._place.partition_by)}",
                    "Partition the same way, or write with mode='overwrite'",
                )


def _written(message: WriterCommitMessage | None) -> tuple[Written, ...]:
    if message is None:
        raise DatasetError("a message from every task", "none from one of them", "Try the task again")
    assert isinstance(message, Uploaded)
    return message.written
