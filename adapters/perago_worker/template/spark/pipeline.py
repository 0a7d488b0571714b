"""Three tasks over data sets on Spark: take orders in, clean them, sum them up.

Each is an ordinary function on data sets. It reads the commit it was started from; what it writes is published, all of
it or nothing; what it returns is the result of the step. There is no branch, no path and no commit in it.
"""

from pydantic import BaseModel
from pyspark.sql import Column
from pyspark.sql import functions as fn

from perago_spark import SparkDatasets
from perago_worker import Workspace, task

#: Seconds without a sign of life after which the orchestrator gives an attempt up.
PATIENCE = 60


class Ingest(BaseModel):
    """How many orders to take in, and from where the random numbers start."""

    orders: int = 300_000
    seed: int = 7


class Rows(BaseModel):
    """How many rows a step has written."""

    rows: int


@task(name="ingest", workspace=Workspace(), retries=3, retry_delay=1, response_timeout=PATIENCE)
def ingest(ws: SparkDatasets, params: Ingest) -> Rows:
    """Take orders in: some have no amount and some arrive twice, as orders do."""

    def chance(what: str) -> Column:
        """Return a number from 0 to 1 for each order: the same one, however Spark deals the orders out."""
        return fn.pmod(fn.xxhash64(fn.col("id"), fn.lit(params.seed), fn.lit(what)), fn.lit(1_000_000)) / 1_000_000

    countries = fn.array(*(fn.lit(each) for each in ("DE", "DE", "DE", "FR", "FR", "IT", "IT", "AT", "SE")))
    orders = ws.spark.range(params.orders).select(
        "id",
        # More of them towards the end: business is good.
        fn.date_add(fn.lit("2026-01-05").cast("date"), (fn.pow(chance("day"), 0.7) * 84).cast("int")).alias("day"),
        fn.get(countries, (chance("country") * 9).cast("int")).alias("country"),
        fn.when(chance("lost") >= 0.01, (5 / (chance("amount") + 0.04)).cast("decimal(10,2)")).alias("amount"),
    )
    ws.write("raw/orders", orders.unionByName(orders.where(chance("twice") < 0.005)))
    return Rows(rows=ws.observed("raw/orders").rows)


@task(name="clean", workspace=Workspace(), retries=3, retry_delay=1, response_timeout=PATIENCE)
def clean(ws: SparkDatasets) -> Rows:
    """Leave out orders without an amount, and take each of the others once."""
    orders = ws.read("raw/orders").where("amount is not null").dropDuplicates(["id"])
    ws.write("clean/orders", orders, partition_by=["country"])
    return Rows(rows=ws.observed("clean/orders").rows)


@task(name="rollup", workspace=Workspace(), retries=3, retry_delay=1, response_timeout=PATIENCE)
def rollup(ws: SparkDatasets) -> Rows:
    """Sum up each week and country."""
    week = fn.date_trunc("week", "day").cast("date").alias("week")
    revenue = ws.read("clean/orders", columns=["day", "country", "amount"]).groupBy(week, "country")
    ws.write("report/revenue", revenue.agg(fn.count("*").alias("orders"), fn.sum("amount").alias("revenue")))
    return Rows(rows=ws.observed("report/revenue").rows)
