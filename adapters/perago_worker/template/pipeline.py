"""Three tasks over a folder of versioned data: take orders in, clean them, sum them up.

Each is an ordinary function on a folder. What it leaves in the folder is published, all of it or nothing; what it
returns is the result of the step. Call one with a temporary folder to test it.
"""

import csv
import random
from collections import Counter
from pathlib import Path

from pydantic import BaseModel

from perago_worker import Workspace, progress, require_file, require_glob, task

#: Seconds without a sign of life after which the orchestrator gives an attempt up.
PATIENCE = 60


class Ingest(BaseModel):
    """How many orders to take in, and from where the random numbers start."""

    rows: int = 20_000
    seed: int = 7


class Rows(BaseModel):
    """How many rows a step has written."""

    rows: int


class Totals(BaseModel):
    """What the orders come to."""

    countries: int
    revenue: float


@task(name="ingest", workspace=Workspace(prefix="raw"), retries=3, retry_delay=1, response_timeout=PATIENCE)
def ingest(workspace: Path, params: Ingest) -> Rows:
    """Take orders in: a few of them are broken, as orders are."""
    numbers = random.Random(params.seed)
    with (workspace / "orders.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["id", "country", "amount"])
        for number in range(params.rows):
            amount = "" if numbers.random() < 0.01 else f"{numbers.lognormvariate(3, 1):.2f}"
            out.writerow([number, numbers.choice(["AT", "DE", "FR", "IT", "SE"]), amount])
            if number % 5_000 == 0:
                progress(number, params.rows, "orders taken in")
    return Rows(rows=params.rows)


@task(
    name="clean",
    workspace=Workspace(pre=[require_file("raw/orders.csv")], post=[require_glob("clean/*.csv")]),
    retries=3,
    retry_delay=1,
    response_timeout=PATIENCE,
)
def clean(workspace: Path) -> Rows:
    """Leave out orders without an amount; one file for each country."""
    by_country: dict[str, list[tuple[str, str]]] = {}
    with (workspace / "raw" / "orders.csv").open(newline="", encoding="utf-8") as file:
        for order in csv.DictReader(file):
            if order["amount"]:
                by_country.setdefault(order["country"], []).append((order["id"], order["amount"]))
    (workspace / "clean").mkdir(exist_ok=True)
    for country, orders in by_country.items():
        with (workspace / "clean" / f"{country}.csv").open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["id", "amount"])
            out.writerows(orders)
    return Rows(rows=sum(map(len, by_country.values())))


@task(name="rollup", workspace=Workspace(), retries=3, retry_delay=1, response_timeout=PATIENCE)
def rollup(workspace: Path) -> Totals:
    """Sum up each country."""
    revenue: Counter[str] = Counter()
    for path in sorted((workspace / "clean").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            revenue[path.stem] = sum(round(float(order["amount"]) * 100) for order in csv.DictReader(file))
    (workspace / "report").mkdir(exist_ok=True)
    with (workspace / "report" / "revenue.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["country", "revenue"])
        out.writerows((country, f"{cents / 100:.2f}") for country, cents in sorted(revenue.items()))
    return Totals(countries=len(revenue), revenue=sum(revenue.values()) / 100)
