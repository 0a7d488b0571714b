"""What differs between Spark 4.0, 4.1, 4.2 and 4.3, and nothing else does: no other file asks which Spark this is."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.pandas import types as conversion

from perago_spark.format.arrow import Schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    StreamArrowWriter = datasource.DataSourceStreamArrowWriter
else:
    StreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)

#: Spark's own way from its types to Arrow's, whose types nobody knows.
_conversion: Any = conversion
#: Whether a stream's writer is given Arrow batches: since Spark 4.1. Before, it was given single rows.
STREAMS_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")


def to_arrow_schema(schema: StructType) -> Schema:
    """Translate columns, points in time as those of UTC: before Spark 4.2 that was a flag, and is a zone since."""
    known = inspect.signature(_conversion.to_arrow_schema).parameters
    utc = {"timezone": "UTC"} if "timezone" in known else {"timestamp_utc": True}
    found: Schema = _conversion.to_arrow_schema(schema, **utc)
    return found


def from_arrow_schema(schema: Schema) -> StructType:
    """Translate columns; points in time without a zone stay so, which is the default only since Spark 4.2."""
    found: StructType = _conversion.from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return found
