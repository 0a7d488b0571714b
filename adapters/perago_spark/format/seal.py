"""The seal of one write: which files it has, and how many rows and bytes, under a name that readers of the data ignore.

A data set is the sum of its seals: an append adds one, an overwrite removes those before it, and one of some partitions
takes their files out of the seals of the input commit. So a write never has to read what another write of the same task
has sealed, and sealing twice gives the same bytes under the same name.
Reading a data set lists its folder, reads the seals and compares: a file that no seal names is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from attrs import asdict, field, frozen

from perago_core.ports import Source, Stored
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.format import layout
from perago_spark.format.layout import SealName
from perago_spark.tables.seal import kind_of, refuse_table, table_discrepancy

#: The least and the greatest value of a column, in a form that JSON has.
Range: TypeAlias = tuple[Any, Any]


def combined(*digests: int) -> int:
    """Add digests up: the digest of all rows together is their sum."""
    return sum(digests) % (1 << 64)


def _ranges(given: Mapping[str, Iterable[Any]]) -> dict[str, Range]:
    return {column: (low, high) for column, (low, high) in given.items()}


@frozen
class DataFile:
    """One file of a write. ``ranges`` has the columns whose least and greatest value are known."""

    path: str
    checksum: str
    rows: int
    bytes: int
    digest: int
    partition: dict[str, Any] = field(factory=dict[str, Any])
    ranges: dict[str, Range] = field(factory=dict[str, Range], converter=_ranges)

    @property
    def folder(self) -> str:
        """The folder of its partition values; for data without partitions that of the data set."""
        return self.path.rpartition("/")[0]


@frozen
class Seal:
    """The manifest of one write. ``schema`` is Spark's own description of the rows, without nullability."""

    write: str
    schema: str
    partition_by: tuple[str, ...]
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """Count the rows."""
        return sum(each.rows for each in self.files)

    @property
    def digest(self) -> int:
        """The digest of the rows, whatever their order."""
        return combined(*(each.digest for each in self.files))

    @property
    def name(self) -> SealName:
        """The file name, which holds the totals."""
        size = sum(each.bytes for each in self.files)
        kind = hashlib.sha256(json.dumps([self.schema, self.partition_by]).encode()).hexdigest()[:8]
        return SealName(self.write, kind, len(self.files), self.rows, size, f"{self.digest:016x}")

    def document(self) -> bytes:
        """Write it down; the same files give the same bytes."""
        name = self.name
        shown = {
            "format": 1,
            "write": self.write,
            "schema": json.loads(self.schema),
            "partition_by": list(self.partition_by),
            "rows": name.rows,
            "bytes": name.bytes,
            "digest": name.digest,
            "files": [asdict(each) for each in self.files],
        }
        return json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False).encode("utf-8")


def make_seal(write: str, schema: str, partition_by: tuple[str, ...], files: Iterable[DataFile]) -> Seal:
    """Make the seal of a write; its manifest is sorted."""
    return Seal(write, schema, partition_by, tuple(sorted(files, key=lambda each: each.path)))


def read_seal(path: str, document: bytes) -> Seal:
    """Read what ``document`` wrote."""
    try:
        found: Any = json.loads(document)
        files = tuple(DataFile(**each) for each in found["files"])
        seal = Seal(found["write"], json.dumps(found["schema"], sort_keys=True), tuple(found["partition_by"]), files)
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetError(
            f"a seal at {path!r}", f"{type(error).__name__}: {error}", "Restore it from history"
        ) from None
    if seal.name != layout.seal_of(path):
        raise DatasetError(
            f"a seal that says what its name says at {path!r}", str(seal.name), "Restore it from history"
        )
    return seal


@frozen
class Total:
    """The totals of a data set, over all its seals. Two data sets with equal totals have the same rows."""

    schema: str
    partition_by: tuple[str, ...]
    rows: int
    digest: int


def total(seals: Iterable[Seal]) -> Total | None:
    """Add seals up; ``None`` if there are none, or if they describe different kinds of rows."""
    found = tuple(seals)
    kinds = {(each.schema, each.partition_by) for each in found}
    if len(kinds) != 1:
        return None
    ((schema, partition_by),) = kinds
    rows = sum(each.rows for each in found)
    return Total(schema, partition_by, rows, combined(*(each.digest for each in found)))


def discrepancy(listed: Iterable[Stored]) -> str | None:
    """Compare a folder's listing with its seals, by names alone; return what is wrong, ``None`` if nothing is.

    Counterexample: a task attempt that lost links its file late, or a link of many stops half-way. The listing then has
    a file too many or too few, and committing it would publish rows twice or not at all.
    """
    found = tuple(listed)
    if kind_of(found) is not None:
        return table_discrepancy(found)
    files: dict[str, list[int]] = {}
    seals: dict[str, SealName] = {}
    for each in found:
        seal = layout.seal_of(each.path)
        if seal is not None:
            seals[seal.write] = seal
        elif layout.is_data(each.path):
            write = layout.write_of(each.path)
            if write is None:
                return f"{each.path!r}, which belongs to no write"
            files.setdefault(write, []).append(each.size)
    if len({each.kind for each in seals.values()}) > 1:
        return "seals of different columns or partitioning"
    for write in sorted(files.keys() | seals.keys()):
        sizes = files.get(write, [])
        if write not in seals:
            return f"{len(sizes)} file(s) of write {write} and no seal of it"
        wanted = seals[write]
        if (len(sizes), sum(sizes)) != (wanted.files, wanted.bytes):
            return (
                f"{len(sizes)} file(s) with {sum(sizes)} bytes of write {write}, whose seal says "
                f"{wanted.files} with {wanted.bytes}"
            )
    return None


def tree_digest(listed: Iterable[Stored]) -> str:
    """Digest what a folder holds, names and contents, so that two listings can be compared elsewhere."""
    found = sorted((each.path, each.checksum, each.size) for each in listed)
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def content_of(listed: Iterable[Stored]) -> str | None:
    """Digest the rows of a folder from the names of its seals, whatever files hold them; ``None`` if nothing says."""
    seals = [seal for each in listed if (seal := layout.seal_of(each.path)) is not None]
    kinds = {each.kind for each in seals}
    if len(kinds) != 1:
        return None
    digest = combined(*(int(each.digest, 16) for each in seals))
    return f"{kinds.pop()}.{sum(each.rows for each in seals)}.{digest:016x}"


@frozen
class Dataset:
    """One data set of a commit. ``seals`` is empty for Parquet files that somebody else has written."""

    folder: str
    listed: tuple[Stored, ...]
    seals: tuple[Seal, ...]

    def __bool__(self) -> bool:
        return bool(self.seals or self.data)

    @property
    def data(self) -> tuple[Stored, ...]:
        """The objects that hold rows."""
        return tuple(each for each in self.listed if layout.is_data(each.path))

    @property
    def files(self) -> tuple[DataFile, ...]:
        """What is known of each file; of a file without a seal only its size."""
        if self.seals:
            return tuple(each for seal in self.seals for each in seal.files)
        return tuple(
            DataFile(each.path, each.checksum, 0, each.size, 0, partition=_partition(each.path, self.folder))
            for each in self.data
        )


def dataset_of(source: Source, folder: str) -> Dataset:
    """Read a data set of a commit; raise if its files are not those that its seals name."""
    listed = cast("tuple[Stored, ...]", value_or_raise(source.list(folder)))
    refuse_table(folder, listed)
    sealed = [each.path for each in listed if layout.seal_of(each.path) is not None]
    if sealed:
        problem = discrepancy(listed)
        if problem is not None:
            raise DatasetError(
                f"the files that the seals of {folder!r} name",
                problem,
                "Write the data set again with mode='overwrite'",
            )
    return Dataset(folder, listed, tuple(_seal(source, path) for path in sealed))


def _seal(source: Source, path: str) -> Seal:
    with value_or_raise(source.get(path)) as stream:
        return read_seal(path, stream.read())


def _partition(path: str, folder: str) -> dict[str, str | None]:
    """Read partition values from the folders on the way to a file, as Hive writes them."""
    found = (layout.partition_of(part) for part in path.removeprefix(folder).split("/")[:-1])
    return dict(each for each in found if each is not None)
