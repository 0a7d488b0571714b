"""The rows of one task as files: one open file for each partition value, put into the sink when it is full.

A file is written to disk first. A sink takes bytes as a stream and may have to send them again; memory would have to
hold the largest file instead.
"""

from __future__ import annotations

import datetime as dt
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, Final, TypeAlias, cast

import numpy as np
from attrs import define, field, frozen

from perago_core.ports import Sink, Stored
from perago_spark.errors import value_or_raise
from perago_spark.format import layout
from perago_spark.format.arrow import Batch, Column, Footer, Kind, Schema, pa, pc, pq
from perago_spark.format.codec import encoder
from perago_spark.format.digest import row_digest
from perago_spark.format.pruning import is_day
from perago_spark.format.seal import DataFile, Range, combined

UploadedFile: TypeAlias = tuple[Stored, DataFile]
#: Bytes after which a file is closed: large enough to read well, far below what any store takes in one piece.
FULL: Final = 128 << 20
#: Bytes of rows that become one row group. Spark sends 10,000 rows at a time; each as a group of its own takes more
#: than three times as long to write, and is slow to read.
GROUP: Final = 8 << 20
#: Files open at once. Rows that come sorted by partition need one; the rest is for those that do not.
_OPEN: Final = 32
#: Characters of a text that is kept as the least or greatest value.
_LONGEST: Final = 64


@define
class _Open:
    partition: dict[str, Any]
    spool: IO[bytes]
    writer: Any
    footer: list[Footer]
    waiting: list[Batch] = field(factory=list[Any])
    bytes_waiting: int = 0
    rows: int = 0
    digest: int = 0


@frozen
class Uploads:
    """Writes batches below ``folder``. ``name_file`` gives a name nobody else has for each new file."""

    sink: Sink
    folder: str
    partition_by: tuple[str, ...]
    name_file: Callable[[], str]
    full: int = FULL
    format: str = layout.PARQUET
    #: Rows after which a file is closed, however small it is; 0: as many as there are.
    most_rows: int = 0
    compression: str = "snappy"
    _open: dict[str, _Open] = field(factory=dict[str, _Open], init=False)
    _written: list[UploadedFile] = field(factory=list[UploadedFile], init=False)

    def write(self, batches: Iterable[Batch]) -> tuple[UploadedFile, ...]:
        """Write all rows and put every file into the sink; return what was stored."""
        try:
            for batch in batches:
                for partition, rows in parts_of(batch, self.partition_by):
                    for piece in self._pieces(partition, rows):
                        self._add(partition, piece, row_digest(_with(piece, partition, batch.schema)))
            for place in tuple(self._open):
                self._finish(place)
        finally:
            for each in self._open.values():
                each.spool.close()
        return tuple(self._written)

    def _pieces(self, partition: dict[str, Any], rows: Batch) -> Iterator[Batch]:
        """Cut rows so that no file has more than it may."""
        at = 0
        while at < rows.num_rows:
            known = self._open.get(_place_of(partition))
            room = self.most_rows - (0 if known is None else known.rows) if self.most_rows else rows.num_rows
            yield rows.slice(at, room)
            at += room

    def _add(self, partition: dict[str, Any], rows: Batch, digest: int) -> None:
        if rows.num_rows == 0:
            return
        place_of_value = _place_of(partition)
        if place_of_value not in self._open:
            if len(self._open) >= _OPEN:
                self._finish(next(iter(self._open)))
            self._open[place_of_value] = _begun(partition, rows.schema, self.format, self.compression)
        file = self._open[place_of_value]
        file.waiting.append(rows)
        file.bytes_waiting += rows.nbytes
        file.rows += rows.num_rows
        file.digest = combined(file.digest, digest)
        if file.bytes_waiting >= min(GROUP, self.full):
            _write_group(file)
        if file.spool.tell() >= self.full or file.rows == self.most_rows:
            self._finish(place_of_value)

    def _finish(self, place: str) -> None:
        file = self._open.pop(place)
        with file.spool:
            _write_group(file)
            file.writer.close()
            file.spool.seek(0)
            below = "".join(layout.partition_folder(*each) for each in _shown(file.partition).items())
            path = f"{self.folder}{below}{self.name_file()}"
            stored = cast("Stored", value_or_raise(self.sink.put(path, cast("Any", file.spool))))
        ranges = ranges_of(file.footer[0]) if file.footer else {}
        self._written.append(
            (
                stored,
                DataFile(path, stored.checksum, file.rows, stored.size, file.digest, file.partition, ranges),
            )
        )


def _place_of(partition: dict[str, Any]) -> str:
    """Name the open file of a partition. A missing text and an empty one share a folder, but not a file."""
    place = "".join(layout.partition_folder(*each) for each in _shown(partition).items())
    return f"{place}{partition!r}"


def _begun(partition: dict[str, Any], schema: Schema, kind: str, compression: str) -> _Open:
    spool = tempfile.TemporaryFile()  # noqa: SIM115  closed when the file is finished
    footer: list[Footer] = []
    if kind != layout.PARQUET:
        return _Open(partition, spool, encoder(kind, cast("Any", spool), schema), footer)
    texts = [path for each in schema for path in _texts(each.name, each.type)]
    writer = pq.ParquetWriter(spool, schema, compression=compression, use_dictionary=texts, metadata_collector=footer)
    return _Open(partition, spool, writer, footer)


def _texts(path: str, kind: Kind) -> Iterator[str]:
    """Yield the columns to encode with a dictionary: texts. For numbers it saves little space and costs time."""
    if pa.types.is_struct(kind):
        for each in kind:
            yield from _texts(f"{path}.{each.name}", each.type)
    elif pa.types.is_map(kind):
        yield from _texts(f"{path}.key_value.key", kind.key_type)
        yield from _texts(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _texts(f"{path}.list.element", kind.value_type)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        yield path


def _write_group(file: _Open) -> None:
    if file.waiting:
        table = pa.Table.from_batches(file.waiting)
        file.writer.write_table(table, row_group_size=table.num_rows)
        file.waiting, file.bytes_waiting = [], 0


def parts_of(batch: Batch, by: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], Batch]]:
    """Split a batch by the values of the partition columns, which are removed from the rows."""
    if not by:
        yield {}, batch
        return
    rest = batch.select([name for name in batch.schema.names if name not in by])
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for name in by:
        encoded = pc.dictionary_encode(batch.column(name), null_encoding="encode")
        codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    edges = [0, *(np.flatnonzero(np.diff(codes[order])) + 1).tolist(), batch.num_rows]
    for start, end in itertools.pairwise(edges):
        if start == end:
            continue
        chosen = order[start:end]
        values = {name: _json(batch.column(name)[int(chosen[0])].as_py()) for name in by}
        yield values, rest.take(pa.array(chosen))


def _with(rows: Batch, partition: Mapping[str, Any], schema: Schema) -> Batch:
    """Put the partition columns back, because the digest is about whole rows."""
    if not partition:
        return rows
    columns = [
        repeated(partition[each.name], each.type, rows.num_rows) if each.name in partition else rows.column(each.name)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def repeated(value: Any, kind: Kind, times: int) -> Column:  # noqa: ANN401  a value of a partition column
    """Make a column that repeats the value of a partition."""
    if value is not None and pa.types.is_date(kind):
        value = dt.date.fromisoformat(value)
    return pa.repeat(pa.scalar(value, kind), times)


def ranges_of(footer: Footer) -> dict[str, Range]:
    """Read the least and greatest values from a footer, over all row groups."""
    return _joined([row_group_ranges(footer, number) for number in range(footer.num_row_groups)])


def row_group_ranges(footer: Footer, number: int) -> dict[str, Range]:
    """Read the least and greatest values of one row group, of columns whose values can be compared and written."""
    group = footer.row_group(number)
    found: dict[str, Range] = {}
    for index in range(group.num_columns):
        column = group.column(index)
        known = column.statistics
        if known is None or not known.has_min_max or known.physical_type in {"FLOAT", "DOUBLE", "INT96"}:
            continue
        if column.path_in_schema != footer.schema.column(index).name:
            continue  # inside a list or a struct
        low, high = _bound(known, "min"), _bound(known, "max")
        if low is not None and high is not None and len(str(low)) <= _LONGEST >= len(str(high)):
            found[column.path_in_schema] = (low, high)
    return found


def _bound(known: Any, end: str) -> int | str | None:  # noqa: ANN401  pyarrow
    """Read one end of a range in a form that JSON has; ``None`` if it has none, or Python no such value."""
    try:
        value = getattr(known, end)
    except (OverflowError, UnicodeDecodeError):  # the year 10000; text that is none
        return None
    return value if isinstance(value, int | str) else _json(value) if is_day(value) else None


def _joined(ranges: list[dict[str, Range]]) -> dict[str, Range]:
    if not ranges:
        return {}
    common = set[str](ranges[0]).intersection(*ranges[1:])
    return {
        name: (min(each[name][0] for each in ranges), max(each[name][1] for each in ranges)) for name in sorted(common)
    }


def _json(value: Any) -> Any:  # noqa: ANN401  a value of a partition column
    return value.isoformat() if isinstance(value, dt.date) else value


def _shown(partition: Mapping[str, Any]) -> dict[str, str | None]:
    """Write partition values as folders have them: ``true`` as Spark writes it."""
    return {
        name: None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in partition.items()
    }
