"""Which kinds of tables there are, and of which kind one is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from perago_core.ports import Source
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.tables.delta import DeltaTable
from perago_spark.tables.iceberg import IcebergTable
from perago_spark.tables.seal import HINT, LOG
from perago_spark.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: By the word for ``format``.
TABLES: Final[Mapping[str, Callable[[SparkSession, Source, str], Table]]] = {
    "delta": DeltaTable,
    "iceberg": IcebergTable,
}


def table_kind(source: Source, folder: str) -> str | None:
    """Return the kind of the table that a commit has there; ``None``: it has none."""
    for kind, place in (("delta", LOG), ("iceberg", HINT)):
        if value_or_raise(source.list(f"{folder}{place}")):
            return kind
    return None


def made_table(spark: SparkSession, source: Source, folder: str, kind: str | None) -> Table:
    """Open a table of this kind, or of the kind that is there."""
    known = kind or table_kind(source, folder)
    if known is None:
        raise DatasetError(f"a table in {folder!r}", "none", "Say which it is to be: format='delta' or 'iceberg'")
    return TABLES[known](spark, source, folder)
