"""Staging what a job has written, whichever route wrote it: checked before, linked and sealed after, never published.

Both routes come here with the same things: bytes the store already holds, and a seal that names them. Doing it twice
gives the same staging name.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from perago_core.ports import Stored
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.format import layout
from perago_spark.format.compaction import check_preserved
from perago_spark.format.schema import check_append, check_partitioning, merged_schema
from perago_spark.format.seal import DataFile, Dataset, Seal, combined, dataset_of, total
from perago_spark.source.options import WritePlace


def check(place: WritePlace, schema: str, *, overwrite: bool) -> str:
    """Refuse what cannot become a data set, before a single row is written; return the columns it will have."""
    check_partitioning(schema, place.partition_by, place.folder)
    if place.by_partition and not place.partition_by:
        raise DatasetError(
            f"partition_by, whose values say which part of {place.folder!r} is replaced",
            "none",
            "Name the columns, or write with mode='overwrite'",
        )
    if overwrite:
        return schema
    before = dataset_of(place.source, place.folder)
    if before.data and not before.seals:
        raise DatasetError(
            f"a data set with seals in {place.folder!r}, so that rows can be added",
            f"{len(before.data)} file(s) without one",
            "Read it and write it once with mode='overwrite'",
        )
    _check_format(place, before.data)
    columns = schema
    for seal in before.seals:
        if place.merge_schema:
            columns = merged_schema(seal.schema, schema, place.folder)
        else:
            check_append(seal.schema, schema, place.folder)
        if seal.partition_by != place.partition_by:
            raise DatasetError(
                f"partition_by={list(seal.partition_by)} as {place.folder!r} has it",
                f"{list(place.partition_by)}",
                "Partition the same way, or write with mode='overwrite'",
            )
    return columns


def _check_format(place: WritePlace, listed: Iterable[Stored]) -> None:
    """Refuse to add files of another format: whoever reads the folder would take them for what they are not."""
    others = {layout.format_of(each.path) for each in listed if layout.is_data(each.path)} - {place.format}
    if others:
        raise DatasetError(
            f"format={min(others)!r} as {place.folder!r} has it",
            repr(place.format),
            "Write the same format, or write with mode='overwrite'",
        )


def stage(place: WritePlace, seal: Seal, stored: tuple[Stored, ...], *, overwrite: bool) -> None:
    """Link these files and seal them, unless that would leave the content as it was."""
    staged: tuple[Stored, ...] = value_or_raise(place.sink.list(place.folder))
    before = dataset_of(place.source, place.folder)
    name, mark = f"{place.folder}{seal.name}", f"{place.folder}{layout.MARK}"
    gone: tuple[str, ...] = ()
    resealed: tuple[Seal, ...] = ()
    if place.by_partition:
        _check_only_write(place, before, staged)
    if not overwrite:
        replaced = {each.folder for each in seal.files} if place.by_partition else set[str]()
        gone, resealed = _resealed(before, replaced, seal.schema)
    if place.preserving:
        check_preserved(before, seal)
    elif _changes_nothing(seal, before, staged, overwrite=overwrite, by_partition=place.by_partition):
        return
    if overwrite:
        ours = {each.path for each in stored} | {name, mark}
        gone = tuple(each.path for each in staged if each.path not in ours)
    else:
        _check_kind(place, seal, tuple(each for each in staged if each.path not in gone))
    value_or_raise(place.sink.link(stored, gone))
    if (overwrite or gone) and before:
        value_or_raise(place.sink.seal(mark, place.write.encode()))
    for each in resealed:
        value_or_raise(place.sink.seal(f"{place.folder}{each.name}", each.document()))
    # Last, because a seal says that all it names is there.
    value_or_raise(place.sink.seal(name, seal.document()))


def _resealed(before: Dataset, folders: set[str], schema: str) -> tuple[tuple[str, ...], tuple[Seal, ...]]:
    """Return the paths that go with these partitions, and new seals: of what stays of a write, or of new columns.

    A data set has one list of columns: those that are added are added to every seal, and no file is written again.
    """
    gone: list[str] = []
    changed: list[Seal] = []
    for seal in before.seals:
        kept = tuple(each for each in seal.files if each.folder not in folders)
        if len(kept) == len(seal.files) and seal.schema == schema:
            continue
        gone += [each.path for each in seal.files if each.folder in folders]
        gone.append(f"{before.folder}{seal.name}")
        if kept:
            changed.append(evolve(seal, files=kept, schema=schema))
    return tuple(gone), tuple(changed)


def _check_only_write(place: WritePlace, before: Dataset, staged: tuple[Stored, ...]) -> None:
    """Refuse to replace partitions of what an earlier write of this task has staged: its seals cannot be read here."""
    known = {each.write for each in before.seals} | {place.write}
    others = (layout.seal_of(each.path) for each in staged)
    if any(each is not None and each.write not in known for each in others):
        raise DatasetError(
            f"one write of {place.folder!r} in a task that replaces partitions of it",
            "another one before it",
            "Unite the frames and write them once",
        )


def _content(files: Iterable[DataFile]) -> dict[str, tuple[int, int]]:
    """Return the rows of each partition and their digest."""
    found: dict[str, tuple[int, int]] = {}
    for each in files:
        rows, digest = found.get(each.folder, (0, 0))
        found[each.folder] = rows + each.rows, combined(digest, each.digest)
    return found


def _changes_nothing(
    seal: Seal, before: Dataset, staged: tuple[Stored, ...], *, overwrite: bool, by_partition: bool
) -> bool:
    if not before.seals:
        return False
    if by_partition:
        now = _content(seal.files)
        return now == _content(each for each in before.files if each.folder in now)
    if not overwrite:
        return seal.rows == 0
    # Only if this task has not changed the data set before: then leaving it alone would keep that change.
    untouched = {(each.path, each.checksum) for each in staged} == {
        (each.path, each.checksum) for each in before.listed
    }
    return untouched and total([seal]) == total(before.seals)


def _check_kind(place: WritePlace, seal: Seal, staged: tuple[Stored, ...]) -> None:
    """Refuse to add rows of another kind to what an earlier write of the same task has staged."""
    _check_format(place, staged)
    others = (layout.seal_of(each.path) for each in staged)
    if any(each is not None and each.kind != seal.name.kind for each in others):
        raise DatasetError(
            f"the columns and partitioning of the first write to {place.folder!r} in this task",
            "others",
            "Write frames of one shape, or one frame",
        )
