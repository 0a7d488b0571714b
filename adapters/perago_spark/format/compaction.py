"""Compaction: the same rows in fewer files. Maintenance: it preserves content, and is checked to.

    @task(name="orders.compact", workspace=Workspace(prefix="sales"), operation="maintenance")
    def compact(ws: SparkDatasets) -> None:
        ws.compact("orders")

The rows that are staged must have the digest of those that were there (H-11, H-15): that, and not what a task calls
itself, makes it maintenance. A logical change made meanwhile may land on top of it (H-16): an append adds its files and
its seal to those of the compaction. An overwrite must not. Counterexample: both remove the old files, which is no
conflict, and each adds its own, so that the merge holds old rows and new ones. So whoever replaces a data set also
writes its mark (``layout.MARK``), and two that replace the same one conflict in it.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from perago_spark.errors import DatasetError
from perago_spark.format.seal import Dataset, Seal, total

#: What a file should have: large enough to read well.
FILE_BYTES: Final = 128 << 20


def wanted_files(before: Dataset, target: int = FILE_BYTES) -> int:
    """Count the files of about this size that hold the data set; at least one for each partition value."""
    if not before.seals:
        raise DatasetError(
            f"a data set with seals in {before.folder!r}, so that its rows can be compared",
            f"{len(before.data)} file(s) without one",
            "Write it once with mode='overwrite'",
        )
    sizes: dict[str, int] = {}
    for each in before.files:
        value = repr(sorted(each.partition.items()))
        sizes[value] = sizes.get(value, 0) + each.bytes
    return sum(max(1, ceil(size / target)) for size in sizes.values())


def check_preserved(before: Dataset, seal: Seal) -> None:
    """Refuse a compaction whose rows are not those that were there."""
    was, now = total(before.seals), total([seal])
    if was != now or was is None or now is None:
        staged = "rows of several kinds" if was is None or now is None else f"{now.rows} rows, digest {now.digest:016x}"
        wanted = "one kind of rows" if was is None else f"the {was.rows} rows with digest {was.digest:016x}"
        raise DatasetError(
            f"{wanted} that {before.folder!r} had before it was compacted",
            staged,
            "A data set written via='native' has no digest of rows: write it once via='arrow'",
        )
