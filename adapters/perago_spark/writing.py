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

from perago_spark import naming, staging
from perago_spark.arrow import Batch
from perago_spark.errors import DatasetError
from perago_spark.parquet import Uploads, Written
from perago_spark.place import WritePlace
from perago_spark.seal import make_seal
from perago_spark.sparing import spare_imports


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
            lambda: naming.file_name(task.partitionId(), self._place.write, task.taskAttemptId(), next(numbers)),
        )
        written = uploads.write(iterator)
        spare_imports()
        return Uploaded(written)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Link what the winners have put and seal it, unless that would leave the content as it was."""
        winners = [each for message in messages for each in _written(message)]
        seal = make_seal(self._place.write, self._schema, self._place.partition_by, (file for _, file in winners))
        staging.stage(self._place, seal, tuple(stored for stored, _ in winners), overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing. Other attempts may still be uploading, and the list is not what has been uploaded."""


def _written(message: WriterCommitMessage | None) -> tuple[Written, ...]:
    if message is None:
        raise DatasetError("a message from every task", "none from one of them", "Try the task again")
    assert isinstance(message, Uploaded)
    return message.written
