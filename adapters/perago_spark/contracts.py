"""What a write promises about its rows: checked against what was staged, before the body goes on.

    ws.write("orders", fresh, mode="append", rows=Rows(at_least=1, at_most=1_000_000))
    ws.write("orders", fresh, mode="append", rows=exactly(delivered))

A promise that is broken raises, and a body that goes on all the same does not succeed: nothing is published.
"""

from __future__ import annotations

from attrs import frozen

from perago_spark.errors import DatasetError


@frozen
class Rows:
    """How many rows a write may add (append) or have (overwrite)."""

    at_least: int = 0
    at_most: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.at_least < 0 or (self.at_most is not None and self.at_most < self.at_least):
            raise DatasetError("0 <= at_least <= at_most", str(self), "Correct the numbers")

    def __str__(self) -> str:
        if self.at_most is None:
            return f"at least {self.at_least} row(s)"
        if self.at_most == self.at_least:
            return f"exactly {self.at_least} row(s)"
        return f"{self.at_least} to {self.at_most} row(s)"

    def check(self, name: str, found: int) -> None:
        """Raise unless so many rows are as promised."""
        if found < self.at_least or (self.at_most is not None and found > self.at_most):
            raise DatasetError(f"{self} of {name!r}", str(found), "Look at what the frame was made from")


def exactly(rows: int) -> Rows:
    """Promise exactly so many rows."""
    return Rows(rows, rows)
