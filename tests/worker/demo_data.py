"""A lake with the data sets of the demo, written without Spark, so that what the demo says of them can be tested."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

from examples.orders.story import TARGET, Ending
from perago_core.answers import Answer, Done
from perago_core.pipelines import AttemptView, PipelineView
from perago_core.values import CommitRef, TaskStatus
from perago_spark.format.arrow import pa, pq
from perago_worker.config.load import load
from perago_worker.stack import Stack, open_stack

MONDAY = date(2026, 1, 5)
COUNTRIES = ("DE", "FR", "IT")


def parquet(**columns: list[Any]) -> bytes:
    buffer = BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def files(clean_ids: list[int], told: Decimal = Decimal("30.00")) -> dict[str, bytes]:
    """Six orders of 10, the last of them without an amount, the first of them twice; one week for each country."""
    raw = [0, *range(6)]
    by_country = {country: [each for each in clean_ids if each % 3 == at] for at, country in enumerate(COUNTRIES)}
    found = {
        "README.md": b"demo",
        "raw/orders/part-0.parquet": parquet(
            id=raw, amount=[None if each == 5 else Decimal("10.00") for each in raw], day=[MONDAY for _ in raw]
        ),
        "report/revenue/part-0.parquet": parquet(
            week=[MONDAY + timedelta(weeks=at) for at in range(3)],
            country=list(COUNTRIES),
            orders=[2, 2, 1],
            revenue=[told, Decimal("10.00"), Decimal("10.00")],
        ),
        "clean/orders/_seal.json": b"no data",
    }
    for country, ids in by_country.items():
        amounts = [Decimal("10.00") for _ in ids]
        found[f"clean/orders/country={country}/part-0.parquet"] = parquet(id=ids, amount=amounts)
    return found


def lake(folder: Path, content: dict[str, bytes]) -> tuple[Stack, Ending]:
    """Make it, and an ending whose steps said what a right run says."""
    folder.mkdir()
    stack = open_stack(load(folder, {}, {}))
    store: Any = stack.store
    made: Answer[CommitRef] = store.create(TARGET, content)
    assert isinstance(made, Done)
    output = {name: {"result": {"rows": rows}} for name, rows in (("ingest", 7), ("clean", 5), ("rollup", 3))}
    attempts = (AttemptView("t1", "rollup", 2, TaskStatus.COMPLETED, ref=made.value),)
    view = PipelineView("orders-1", "orders", "COMPLETED", attempts=attempts, output=output)
    return stack, Ending(view, store.history(TARGET).value, ())
