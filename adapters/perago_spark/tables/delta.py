"""Delta tables. Paths in a Delta log are relative to the table, so it reads the same wherever its folder is."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from perago_core.ports import Source
from perago_spark.api.columns import quoted
from perago_spark.tables.log import change_of, version_of
from perago_spark.tables.seal import DELTA, LOG
from perago_spark.tables.table import Change, Table, TableWrite, check_extension, check_place

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FORMAT: Final = "delta"
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_SETTINGS: Final = (
    "spark.jars.packages to io.delta:delta-spark_<Spark>_2.13:<version>, spark.sql.extensions to "
    f"{_EXTENSION} and spark.sql.catalog.spark_catalog to org.apache.spark.sql.delta.catalog.DeltaCatalog"
)


class DeltaTable(Table):
    """A table with a Delta log."""

    kind = DELTA
    metadata = LOG
    pointer = f"{LOG}_last_checkpoint"

    def __init__(self, spark: SparkSession, source: Source, folder: str) -> None:
        check_place(spark, self.kind)
        check_extension(spark, self.kind, _EXTENSION, _SETTINGS)
        # Below the task's own folder: whoever ends a killed body removes that.
        place = Path(tempfile.mkdtemp(prefix="table-"))
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        super().__init__(spark, source, folder, place)

    def read(self, where: Sequence[Column], columns: Sequence[str] | None) -> DataFrame:
        """Read the table as it is in the input commit, also after a write of this task."""
        reader = self._spark.read.format(_FORMAT)
        if self._version() != self._before:
            reader = reader.option("versionAsOf", str(self._before))
        frame = reader.load(str(self.place))
        for each in where:
            frame = frame.where(each)
        self._fetch_files(self._read_by(frame))
        return frame if columns is None else frame.select(*columns)

    def write(self, frame: DataFrame, how: TableWrite) -> None:
        """Have Delta add rows, or replace all, or those of the partitions that the frame has rows of."""
        by_partition = how.mode == "overwrite_partitions"
        writer = frame.write.format(_FORMAT).mode("overwrite" if by_partition else how.mode)
        # Said in any case: Spark's own setting is asked elsewhere, and an overwrite otherwise keeps the old columns.
        writer = writer.option("partitionOverwriteMode", "dynamic" if by_partition else "static")
        writer = writer.option("overwriteSchema", str(how.mode == "overwrite").lower())
        writer = writer.option("mergeSchema", str(how.merge_schema).lower())
        (writer.partitionBy(*how.partition_by) if how.partition_by else writer).save(str(self.place))

    def merge(self, frame: DataFrame, keys: Sequence[str], *, merge_schema: bool) -> None:
        """Have Delta replace the rows with the keys of these, and add those whose keys it has not."""
        if self._version() is None:
            self.write(frame, TableWrite("append"))
            return
        self._fetch_files(self._read_by(self._spark.read.format(_FORMAT).load(str(self.place))))
        view = f"perago_{secrets.token_hex(8)}"
        frame.createOrReplaceTempView(view)
        evolving = "WITH SCHEMA EVOLUTION " if merge_schema else ""
        same = " AND ".join(f"kept.{quoted(key)} <=> given.{quoted(key)}" for key in keys)
        try:
            self._spark.sql(
                f"MERGE {evolving}INTO delta.{quoted(str(self.place))} AS kept USING {view} AS given ON {same} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            self._spark.catalog.dropTempView(view)

    def _version(self) -> int | None:
        return version_of(self.place)

    def _change(self, first: int, last: int) -> Change:
        return change_of(self.place, first, last)

    def _read_by(self, frame: DataFrame) -> Iterable[str]:
        """Return the files that a frame reads."""
        return [Path(unquote(urlsplit(each).path)).relative_to(self.place).as_posix() for each in frame.inputFiles()]
