"""CSV, JSON and ORC beside Parquet: how rows become such a file, and rows again. The end of a name says which.

A seal keeps the columns, so that what was written is read back as it was: a missing text is no empty one, a day is a
day. Files without a seal, which somebody else has brought, are read with the columns that were asked for, or with those
that Arrow finds in the first file.

CSV has a line with the names, and neither lists nor bytes in it. JSON is one object a line, with decimals, days and
points in time as texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import IO, Any, Protocol

from perago_spark.errors import DatasetError
from perago_spark.format.arrow import Batch, Kind, Schema, pa


class Encoder(Protocol):
    """Writes tables into one file."""

    def write_table(self, table: Any, row_group_size: int | None = None) -> None:  # noqa: ANN401  pyarrow
        """Add rows."""
        ...

    def close(self) -> None:
        """Finish the file; the stream stays open."""
        ...


def encoder(kind: str, stream: IO[bytes], schema: Schema) -> Encoder:
    """Return the writer of a file that is not Parquet."""
    makers: Mapping[str, Callable[[IO[bytes], Schema], Encoder]] = {
        "csv": _CsvEncoder,
        "json": _JsonEncoder,
        "orc": _OrcEncoder,
    }
    return makers[kind](stream, schema)


def check_columns(kind: str, schema: Schema, folder: str) -> None:
    """Refuse columns that a format cannot hold and give back unchanged."""
    allowed = {"csv": _in_csv, "json": _in_json, "orc": _in_orc}.get(kind)
    wrong = [] if allowed is None else [f"{each.name}: {each.type}" for each in schema if not allowed(each.type)]
    if wrong:
        raise DatasetError(
            f"columns that {kind} can hold in {folder!r}", ", ".join(wrong), "Cast them, or write format='parquet'"
        )


def _is_nested(kind: Kind) -> bool:
    return bool(pa.types.is_nested(kind))


def _is_bytes(kind: Kind) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _as_text(kind: Kind) -> bool:
    """Whether JSON holds such a value as text."""
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))


def _in_csv(kind: Kind) -> bool:
    return not (_is_nested(kind) or _is_bytes(kind) or pa.types.is_duration(kind) or pa.types.is_null(kind))


def _in_json(kind: Kind) -> bool:
    if pa.types.is_map(kind) or pa.types.is_duration(kind):
        return False  # other readers of JSON take neither for what it was
    if _is_nested(kind):
        inside = [kind.field(number).type for number in range(kind.num_fields)]
        return all(_in_json(each) and not _as_text(each) for each in inside)
    return not _is_bytes(kind)


def _in_orc(kind: Kind) -> bool:
    return not (pa.types.is_duration(kind) or pa.types.is_null(kind))


class _CsvEncoder:
    def __init__(self, stream: IO[bytes], schema: Schema) -> None:
        self._writer = import_module("pyarrow.csv").CSVWriter(stream, schema)

    def write_table(self, table: Any, row_group_size: int | None = None) -> None:  # noqa: ANN401  pyarrow
        """Add rows."""
        self._writer.write_table(table, max_chunksize=row_group_size)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


class _OrcEncoder:
    def __init__(self, stream: IO[bytes], schema: Schema) -> None:
        self._writer = import_module("pyarrow.orc").ORCWriter(stream)
        self._writer.write(schema.empty_table())

    def write_table(self, table: Any, row_group_size: int | None = None) -> None:  # noqa: ANN401  pyarrow
        """Add rows."""
        del row_group_size  # stripes are ORC's own affair
        self._writer.write(table)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


class _JsonEncoder:
    def __init__(self, stream: IO[bytes], schema: Schema) -> None:
        self._stream = stream
        del schema

    def write_table(self, table: Any, row_group_size: int | None = None) -> None:  # noqa: ANN401  pyarrow
        """Add rows."""
        del row_group_size
        try:
            lines = [json.dumps(row, default=_text, ensure_ascii=False, allow_nan=False) for row in table.to_pylist()]
        except ValueError as error:
            raise DatasetError(
                "numbers that JSON can hold", "NaN or an infinity", "Replace them, or write format='parquet'"
            ) from error
        self._stream.write("".join(f"{each}\n" for each in lines).encode("utf-8"))

    def close(self) -> None:
        """Finish the file."""


def _text(value: Any) -> str:  # noqa: ANN401  what JSON has no form for
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


# ---- Rows again


def decoded(kind: str, stream: IO[bytes], schema: Schema, options: Mapping[str, str]) -> Iterator[Batch]:
    """Yield what a file that is not Parquet has of these columns, in types that can be cast to theirs."""
    yield from {"csv": _csv, "json": _json, "orc": _orc}[kind](stream, schema, options)


def found_schema(kind: str, stream: IO[bytes], options: Mapping[str, str]) -> Schema:
    """Return the columns as Arrow finds them in a file that is not Parquet."""
    if kind == "orc":
        return import_module("pyarrow.orc").ORCFile(stream).schema
    if kind == "json":
        return import_module("pyarrow.json").read_json(stream).schema
    csv = import_module("pyarrow.csv")
    return (
        csv.open_csv(stream, read_options=_header(csv, options, None), parse_options=_parsing(csv, options))
        .read_all()
        .schema
    )


def _parsing(csv: Any, options: Mapping[str, str]) -> Any:  # noqa: ANN401  pyarrow
    return csv.ParseOptions(delimiter=options.get("sep", ","), newlines_in_values=True)


def _header(csv: Any, options: Mapping[str, str], names: list[str] | None) -> Any:  # noqa: ANN401  pyarrow
    if options.get("header", "true").lower() != "false":
        return csv.ReadOptions()
    # Without names of their own, columns are called f0, f1 and so on, as Arrow does.
    return csv.ReadOptions(column_names=names) if names else csv.ReadOptions(autogenerate_column_names=True)


def _csv(stream: IO[bytes], schema: Schema, options: Mapping[str, str]) -> Iterator[Batch]:
    csv = import_module("pyarrow.csv")
    conversion = csv.ConvertOptions(
        column_types={each.name: each.type for each in schema},
        include_columns=schema.names,
        include_missing_columns=True,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    reading, parsing = _header(csv, options, schema.names), _parsing(csv, options)
    yield from csv.open_csv(stream, read_options=reading, parse_options=parsing, convert_options=conversion)


def _json(stream: IO[bytes], schema: Schema, _options: Mapping[str, str]) -> Iterator[Batch]:
    reader = import_module("pyarrow.json")
    # Days and points in time come as texts, which only a cast understands in all their forms.
    fields = [pa.field(each.name, pa.string()) if pa.types.is_temporal(each.type) else each for each in schema]
    parsing = reader.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
    yield from reader.read_json(stream, parse_options=parsing).to_batches()


def _orc(stream: IO[bytes], schema: Schema, _options: Mapping[str, str]) -> Iterator[Batch]:
    file = import_module("pyarrow.orc").ORCFile(stream)
    wanted = [each for each in schema.names if each in file.schema.names]
    for number in range(file.nstripes):
        yield file.read_stripe(number, columns=wanted)
