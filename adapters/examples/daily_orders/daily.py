"""Orders that arrive as one file a day, and what each customer has spent."""

from pydantic import BaseModel

from perago_spark import SparkDatasets, in_range, not_null, unique
from perago_worker import Workspace, task

COLUMNS = "id bigint, customer bigint, day date, country string, amount decimal(10,2)"


class Day(BaseModel):
    """Which file to take in."""

    inbox: str
    day: str


class Rows(BaseModel):
    """How many rows a step has written."""

    rows: int


@task(name="take-in", workspace=Workspace(prefix="sales"), retries=2, retry_delay=1)
def take_in(ws: SparkDatasets, params: Day) -> Rows:
    """Replace one day: run again, it changes nothing, and no other day is touched."""
    file = ws.external(f"{params.inbox}/orders-{params.day}.csv")
    orders = ws.spark.read.csv(file, header=True, schema=COLUMNS)
    gates = [not_null("id", "amount"), unique("id"), in_range("amount", 0, 10_000)]
    written = ws.write("orders", orders, mode="overwrite_partitions", partition_by=["day"], gates=gates)
    return Rows(rows=written.rows)


@task(name="customers", workspace=Workspace(prefix="sales"), retries=2, retry_delay=1)
def customers(ws: SparkDatasets) -> Rows:
    """Keep what each customer has spent, by key."""
    spent = ws.read("orders", columns=["customer", "amount"]).groupBy("customer").sum("amount")
    return Rows(rows=ws.upsert("customers", spent.toDF("customer", "spent"), keys=["customer"]).rows)
