"""What a commit or a staging name holds of one data set: its data files, and the seals that describe them."""

from __future__ import annotations

from typing import cast

from attrs import frozen

from perago_core.ports import Source, Stored
from perago_spark import naming
from perago_spark.errors import DatasetError
from perago_spark.place import taken
from perago_spark.seal import DataFile, Seal, discrepancy, read_seal


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
        """Give the objects that hold rows."""
        return tuple(each for each in self.listed if naming.is_data(each.path))

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Give what is known of each file; of a file without a seal that is its size."""
        if self.seals:
            return tuple(each for seal in self.seals for each in seal.files)
        return tuple(
            DataFile(each.path, each.checksum, 0, each.size, 0, partition=_partition(each.path, self.folder))
            for each in self.data
        )


def dataset_of(source: Source, folder: str) -> Dataset:
    """Read what a commit holds of a data set, and see that it is what its seals say."""
    listed = cast("tuple[Stored, ...]", taken(source.list(folder)))
    sealed = [each.path for each in listed if naming.seal_of(each.path) is not None]
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
    with taken(source.get(path)) as stream:
        return read_seal(path, stream.read())


def _partition(path: str, folder: str) -> dict[str, str | None]:
    """Read partition values from the folders on the way to a file, as Hive writes them."""
    found = (naming.partition_of(part) for part in path.removeprefix(folder).split("/")[:-1])
    return dict(each for each in found if each is not None)
