"""What the demo's pipeline came to, read from the branch without Spark and held against what the steps said.

Spark made the data; so whether it is right is asked of somebody else: the files of the last commit, and pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any

from attrs import frozen

from examples.orders.chart import Chart
from examples.orders.story import TARGET, DemoError, Ending, Promise
from perago_core.answers import Answer, Done
from perago_core.ports import Source
from perago_worker.stack import Stack


@frozen
class Result:
    """What is on the branch: rows of each data set, what was promised of them, and revenue as a chart."""

    rows: Mapping[str, int]
    promises: tuple[Promise, ...]
    chart: Chart


def look(stack: Stack, ending: Ending) -> Result:
    """Read the data sets of the branch's head."""
    source = stack.store.read(TARGET.repository, ending.history[0].ref)
    raw = _table(source, "raw/orders/")
    clean = _table(source, "clean/orders/")
    report = _table(source, "report/revenue/")
    rows = {"raw/orders": len(raw["id"]), "clean/orders": len(clean["id"]), "report/revenue": len(report["week"])}
    return Result(rows, (*_promises(raw, clean, report), _as_told(ending, rows)), _chart(report))


def _promises(raw: _Columns, clean: _Columns, report: _Columns) -> tuple[Promise, ...]:
    wanted = {number for number, amount in zip(raw["id"], raw["amount"], strict=True) if amount is not None}
    once = len(clean["id"]) == len(set(clean["id"])) and set(clean["id"]) == wanted
    total, summed = sum(clean["amount"], Decimal()), sum(report["revenue"], Decimal())
    counted = sum(report["orders"])
    return (
        Promise(
            f"clean holds each of the {len(wanted):,} orders with an amount exactly once",
            once,
            f"{len(clean['id']):,} rows, {len(set(clean['id'])):,} of them distinct",
        ),
        Promise(
            f"the report counts them all and comes to the same sum, {total:,.2f}",
            (counted, summed) == (len(clean["id"]), total),
            f"{counted:,} orders and {summed:,.2f}",
        ),
    )


def _as_told(ending: Ending, rows: Mapping[str, int]) -> Promise:
    reported_rows = [int(ending.view.output[step]["result"]["rows"]) for step in ("ingest", "clean", "rollup")]
    found = ", ".join(f"{each:,}" for each in rows.values())
    return Promise(
        f"the branch holds as many rows as the steps said: {found}",
        reported_rows == list(rows.values()),
        str(reported_rows),
    )


def _chart(report: _Columns) -> Chart:
    """Draw a column for each week; the country with the most revenue lies at the bottom."""
    weeks = sorted(set(report["week"]))
    sums: dict[str, dict[Any, float]] = {}
    for week, country, revenue in zip(report["week"], report["country"], report["revenue"], strict=True):
        sums.setdefault(country, {})[week] = float(revenue)
    order = sorted(sums, key=lambda country: -sum(sums[country].values()))
    return Chart(
        title="Revenue by week and country",
        labels=tuple(f"{each:%d %b}" for each in weeks),
        series={country: tuple(sums[country].get(week, 0.0) for week in weeks) for country in order},
    )


#: A data set as lists of values, by column.
_Columns = dict[str, list[Any]]


def _table(source: Source, folder: str) -> _Columns:
    """Read a data set as anybody would: the Parquet files below a folder, and what the folders' own names say."""
    from perago_spark.format.arrow import pq  # noqa: PLC0415  only who plays this edition needs it
    from perago_spark.format.layout import is_data, partition_of  # noqa: PLC0415  as above

    columns: _Columns = {}
    for each in _taken(source.list(folder)):
        if not is_data(each.path):
            continue
        with _taken(source.get(each.path)) as stream:
            found: _Columns = pq.ParquetFile(BytesIO(stream.read())).read().to_pydict()
        rows = len(next(iter(found.values())))
        for part in each.path.removeprefix(folder).split("/")[:-1]:
            known = partition_of(part)
            if known is not None:
                found[known[0]] = [known[1]] * rows
        for name, values in found.items():
            columns.setdefault(name, []).extend(values)
    if not columns:
        raise DemoError(f"expected rows in {folder}; found no file there")
    return columns


def _taken(answer: Answer[Any]) -> Any:  # noqa: ANN401  whatever was asked for
    if not isinstance(answer, Done):
        raise DemoError(f"the result cannot be read: {answer.reason}")
    return answer.value
