"""What gates cost beside the write that they judge, on both routes.

Every round takes each way once, in turns; the ratio is of the best rounds, by the clock and by processor time.

.venv/bin/python -m tests.bench.spark_gates
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from attrs import evolve

from perago_core.values import CommitRef
from perago_spark import (
    Gate,
    accepted_values,
    foreign_key,
    freshness,
    in_range,
    not_null,
    predicate,
    row_count_drift,
    unique,
)
from tests.bench.spark_writing import Bench, Route, opened, shown
from tests.spark.lake import datasets

ROWS = 1_000_000
COUNTRIES = ("DE", "FR", "IT", "ES", "PL")
OF_ROWS = (
    not_null("id", "name"),
    in_range("amount", 0, 100),
    accepted_values("country", *COUNTRIES),
    freshness("at", hours=1e6),
    predicate("amount <= id + 100"),
)
CUSTOMERS = foreign_key("customer", of="customers", key="nr")
EVERY = (*OF_ROWS, row_count_drift(0.5), unique("id"), CUSTOMERS)


def write(bench: Bench, at: CommitRef, gates: Sequence[Gate], via: Literal["arrow", "native"]) -> None:
    """Write the frame as a task does, up to the seal and the verdict."""
    ws = datasets(bench.spark, bench.lake, at)
    written = ws.write("orders", bench.frame, gates=gates, via=via)
    assert written.changed


def main(rows: int = ROWS) -> None:
    """Print every figure."""
    with opened(rows) as plain:
        country = f"element_at(array{COUNTRIES}, cast(id % {len(COUNTRIES)} as int) + 1) as country"
        bench = evolve(plain, frame=plain.frame.selectExpr("*", country).cache())
        bench.frame.count()
        ws = datasets(bench.spark, bench.lake, bench.lake.head)
        ws.write("customers", bench.spark.range(0, 100_003, 1, 2).withColumnRenamed("id", "nr"))
        at = bench.lake.committed()
        assert at is not None
        ways: dict[str, Sequence[Gate]] = {
            "no gates": (),
            "five gates of rows": OF_ROWS,
            "unique": (unique("id"),),
            "foreign key": (CUSTOMERS,),
            "all eight": EVERY,
        }
        for via in ("arrow", "native"):
            shown(
                f"Spark, write {rows:,} rows of 6 columns, via {via}, with gates",
                [Route(name, partial(write, bench, at, gates, via)) for name, gates in ways.items()],
            )


if __name__ == "__main__":
    main()
