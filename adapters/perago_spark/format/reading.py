"""The rows of a data file, with the columns of its data set: for Spark's reader, and for whoever has no Spark."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Final

from perago_core.ports import Source
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.format import codec, layout
from perago_spark.format.arrow import Batch, Column, Footer, Kind, Schema, pa, pq
from perago_spark.format.parquet import repeated
from perago_spark.format.schema import columns_of, selected
from perago_spark.format.seal import DataFile, Dataset, dataset_of

#: Whether a row group, given the footer and its number, can hold wanted rows.
Wanted = Callable[[Footer, int], bool]


def opened(source: Source, path: str) -> IO[bytes]:
    """Open an object for random access, as Parquet needs; a stream that cannot seek is spooled to disk."""
    stream: IO[bytes] = value_or_raise(source.get(path))
    if stream.seekable():
        return stream
    spool = tempfile.TemporaryFile()  # noqa: SIM115  closed by whoever reads it
    with stream:
        shutil.copyfileobj(stream, spool, 1 << 20)
    spool.seek(0)
    return spool


def batches(
    stream: IO[bytes],
    known: DataFile,
    schema: Schema,
    text: Mapping[str, str],
    wanted: Wanted = lambda _footer, _at: True,
) -> Iterator[Batch]:
    """Yield the rows of a file: with its partition's values, and nothing in columns that were added after it."""
    for batch in _stored(stream, known, schema, text, wanted):
        there = set(batch.schema.names)
        columns = [
            repeated(known.partition[each.name], each.type, batch.num_rows)
            if each.name in known.partition
            else batch.column(each.name).cast(each.type)
            if each.name in there
            else pa.nulls(batch.num_rows, each.type)
            for each in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _stored(
    stream: IO[bytes], known: DataFile, schema: Schema, text: Mapping[str, str], wanted: Wanted
) -> Iterator[Batch]:
    """Yield what a file itself holds of these columns."""
    names = [name for name in schema.names if name not in known.partition]
    kind = layout.format_of(known.path)
    if kind != layout.PARQUET:
        yield from codec.decoded(kind, stream, pa.schema([schema.field(name) for name in names]), text)
        return
    # Others may have let Spark write points in time as 96 bits, which hold more than nanoseconds can.
    file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
    groups = [number for number in range(file.metadata.num_row_groups) if wanted(file.metadata, number)]
    yield from file.iter_batches(row_groups=groups, columns=names)


#: Keys that are sent to each task, and the rows and bytes of a data set that is read for them, on the driver.
_KEY_BYTES: Final = 4 << 20
_KEY_ROWS: Final = 1 << 20
_KEY_FILES: Final = 64 << 20


def keys_of(source: Source, folder: str, key: str) -> Column | None:
    """Return the values of a column, each once; ``None``: that would be too much, or there is no such column."""
    dataset = dataset_of(source, folder)
    if sum(each.rows for each in dataset.files) > _KEY_ROWS or sum(each.bytes for each in dataset.files) > _KEY_FILES:
        return None
    if not dataset.seals or key not in columns_of(dataset.seals[-1].schema):
        return None
    schema = arrow_schema(selected(dataset.seals[-1].schema, (key,), folder))
    found: list[Column] = []
    for each in dataset.files:
        with opened(source, each.path) as stream:
            found += [batch.column(0) for batch in batches(stream, each, schema, {})]
    keys = pa.chunked_array(found, schema[0].type).unique().drop_null()
    return keys if keys.nbytes <= _KEY_BYTES else None


def file_schema(source: Source, dataset: Dataset, text: Mapping[str, str]) -> Schema:
    """Return the columns that Arrow finds in the first file of a data set without seals; partition values are texts."""
    first = dataset.files[0]
    kind = layout.format_of(first.path)
    with opened(source, first.path) as stream:
        found = pq.read_schema(stream) if kind == layout.PARQUET else codec.found_schema(kind, stream, text)
    for name in first.partition:
        found = found.append(pa.field(name, pa.string()))
    return found.remove_metadata()


_KINDS: Final[Mapping[str, Any]] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def arrow_schema(text: str) -> Schema:
    """Translate the columns that a seal keeps, which are Spark's, where there is no Spark to do it."""
    return pa.schema([(each["name"], _kind(each["type"])) for each in json.loads(text)["fields"]])


def _kind(found: Any) -> Kind:  # noqa: ANN401  a name, or JSON for a nested type
    match found:
        case {"type": "array", "elementType": inner}:
            return pa.list_(_kind(inner))
        case {"type": "map", "keyType": key, "valueType": value}:
            return pa.map_(_kind(key), _kind(value))
        case {"type": "struct", "fields": [*fields]}:
            return pa.struct([(each["name"], _kind(each["type"])) for each in fields])
        case str() if found in _KINDS:
            return _KINDS[found]
        case str() if found.startswith("decimal("):
            digits, scale = found.removeprefix("decimal(").rstrip(")").split(",")
            return pa.decimal128(int(digits), int(scale))
        case _:
            raise DatasetError("columns that can be read without Spark", f"{found}", "Read it with Spark")
