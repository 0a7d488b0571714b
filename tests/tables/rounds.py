"""The faults that data sets meet, met by tables: the verdict reads the table as strangers do."""

from __future__ import annotations

from typing import Literal

from attrs import define

from tests.spark.fault_harness import ROWS, FaultHarness
from tests.spark.lake import done
from tests.tables.reading import checked_out, read_by_deltalake, read_by_pyiceberg


@define
class TableHarness(FaultHarness):
    """One table on one lake, written again in every round."""

    kind: Literal["delta", "iceberg"] = "delta"

    def next_round(self) -> None:
        """Begin anew on what is published now."""
        self.before = self.lake.head
        for each in self.marks.folder.iterdir():
            each.unlink()

    def published(self) -> None:
        """The target is exactly input -> staged, and every row is there once, whoever reads."""
        head = done(self.lake.store.head(self.lake.target)).commit
        assert head.parents == (self.before,)
        assert self.lake.stagings() == ()
        folder = checked_out(self.lake, head.ref, self.marks.folder.parent / "checked-out" / str(head.ref))
        if self.kind == "delta":
            ((_, rows),) = read_by_deltalake(folder / "sales" / "orders")
        else:
            rows = read_by_pyiceberg(folder, "sales/orders")
        assert (len(rows), len({each["id"] for each in rows})) == (ROWS, ROWS)
