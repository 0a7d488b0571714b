"""Iceberg tables. Their metadata names the table's location in every layer, so the location is one that travels.

It is the table's path on the branch, relative: ``./sales/orders``. Iceberg hands it on as it is, and whoever opens a
relative path does so from where he stands. The Java of a task was started in a folder of the task, so the table lies
there under that path; and whoever stands at the root of a checked-out commit finds every file that metadata names.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from perago_core.ports import Source
from perago_spark.api.columns import quoted
from perago_spark.errors import DatasetError
from perago_spark.tables.seal import HINT, ICEBERG
from perago_spark.tables.table import Change, Table, TableWrite, check_extension, check_place

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EXTENSION: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_SETTINGS: Final = (
    "spark.jars.packages to org.apache.iceberg:iceberg-spark-runtime-<Spark>_2.13:<version> and "
    f"spark.sql.extensions to {_EXTENSION}"
)
_CATALOG: Final = "perago_branch"
_ENTRY: Final = re.compile(r"v(\d+)\.metadata\.json")


class IcebergTable(Table):
    """A table with Iceberg's metadata, in a catalog that is the branch: its folders are namespaces."""

    kind = ICEBERG
    metadata = "metadata/"
    pointer = HINT

    def __init__(self, spark: SparkSession, source: Source, folder: str) -> None:
        check_place(spark, self.kind)
        check_extension(spark, self.kind, _EXTENSION, _SETTINGS)
        settings = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hadoop",
            ".warehouse": ".",
            ".cache-enabled": "false",
        }
        for key, value in settings.items():
            spark.conf.set(f"spark.sql.catalog.{_CATALOG}{key}", value)
        java: Any = spark.sparkContext
        stands = Path(java._jvm.System.getProperty("user.dir"))  # noqa: SLF001  Spark has no other way to ask
        # Nothing of another task: a warm process empties its folder, a notebook does not.
        shutil.rmtree(stands / folder, ignore_errors=True)
        self._name = ".".join([_CATALOG, *map(quoted, folder.strip("/").split("/"))])
        super().__init__(spark, source, folder, stands / folder)
        self._snapshot = None if self._before is None else self._newest()[0]

    def read(self, where: Sequence[Column], columns: Sequence[str] | None) -> DataFrame:
        """Read the table as it is in the input commit, also after a write of this task."""
        at = {"versionAsOf": str(self._snapshot)}
        frame = self._spark.read.options(**at).table(self._name)
        self._fetch_files(self._files(**at))
        for each in where:
            frame = frame.where(each)
        return frame if columns is None else frame.select(*columns)

    def write(self, frame: DataFrame, how: TableWrite) -> None:
        """Have Iceberg add rows, or replace all, or those of the partitions that the frame has rows of."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; and importable without Spark

        writer: Any = frame.writeTo(self._name)
        if self._version() is None or how.mode == "overwrite":
            by = [F.col(each) for each in how.partition_by]
            (writer.partitionedBy(*by) if by else writer).createOrReplace()
            return
        if how.merge_schema:
            self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('write.spark.accept-any-schema'='true')")
            writer = frame.writeTo(self._name).option("mergeSchema", "true")
        if how.mode == "append":
            writer.append()
        else:
            writer.overwritePartitions()

    def merge(self, frame: DataFrame, keys: Sequence[str], *, merge_schema: bool) -> None:
        """Have Iceberg replace the rows with the keys of these, and add those whose keys it has not."""
        if merge_schema:
            raise DatasetError(
                "a merge of the table's own columns", "merge_schema=True", "Add the columns by an append"
            )
        if self._version() is None:
            self.write(frame, TableWrite("append"))
            return
        self._fetch_files(self._files())
        view = f"perago_{secrets.token_hex(8)}"
        frame.createOrReplaceTempView(view)
        same = " AND ".join(f"kept.{quoted(key)} <=> given.{quoted(key)}" for key in keys)
        try:
            self._spark.sql(
                f"MERGE INTO {self._name} AS kept USING {view} AS given ON {same} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            self._spark.catalog.dropTempView(view)

    def _version(self) -> int | None:
        folder = self.place / self.metadata
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        return max((int(known[1]) for each in names if (known := _ENTRY.fullmatch(each))), default=None)

    def _change(self, first: int, last: int) -> Change:
        """Return the files of the newest snapshot, and the rows that it has added."""
        del first, last  # what the table holds now is what is staged; earlier files are known
        found = self._spark.table(f"{self._name}.files").select("file_path", "file_size_in_bytes").collect()
        files = {self._inside(each["file_path"]): int(each["file_size_in_bytes"]) for each in found}
        return Change(files, self._newest()[1])

    def _files(self, **at: str) -> Iterable[str]:
        found = self._spark.read.options(**at).table(f"{self._name}.files").select("file_path").collect()
        return [self._inside(each["file_path"]) for each in found]

    def _newest(self) -> tuple[int, int]:
        """Return the newest snapshot and the rows that it has added."""
        known = self._spark.table(f"{self._name}.snapshots").orderBy("committed_at", ascending=False)
        newest: Any = known.select("snapshot_id", "summary").first()
        return int(newest["snapshot_id"]), int(newest["summary"].get("added-records", 0))

    def _inside(self, path: str) -> str:
        """Return a path relative to the table; one that leads elsewhere would not be on the branch."""
        place = PurePosixPath(path)
        if place.is_absolute() or not place.is_relative_to(self._folder):
            raise DatasetError(f"paths inside {self._folder!r} in its metadata", repr(path), "Write the table anew")
        return place.relative_to(self._folder).as_posix()
