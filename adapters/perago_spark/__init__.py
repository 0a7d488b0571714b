"""Spark on a versioned store: read the input commit, write to this execution's staging; only the core publishes.

For authors of tasks there is ``SparkDatasets``, for workers ``SparkWorkspace``, for notebooks the data source itself:

    frame.write.format("perago").mode("append").options(**WritePlace(source, sink, "orders/", "w1").options()).save()
    spark.read.format("perago").options(**ReadPlace(source, "orders/").options()).load()

Importing this package needs no Spark.
"""

from perago_spark.api.checks import Rows, exactly, require_columns, require_only_columns, require_rows
from perago_spark.api.datasets import SparkDatasets, Written
from perago_spark.api.gates import (
    Gate,
    GateError,
    accepted_values,
    foreign_key,
    freshness,
    in_range,
    not_null,
    predicate,
    row_count_drift,
    unique,
)
from perago_spark.declarative.run import run_pipeline
from perago_spark.errors import DatasetError, SparkUnavailableError
from perago_spark.process.messages import BodyFailure, Returned
from perago_spark.process.pool import Launch, WarmBodies
from perago_spark.process.settings import SparkSettings
from perago_spark.process.workspace import SparkTask, SparkWorkspace
from perago_spark.source.options import ReadPlace, WritePlace

__all__ = [
    "BodyFailure",
    "DatasetError",
    "Gate",
    "GateError",
    "Launch",
    "ReadPlace",
    "Returned",
    "Rows",
    "SparkDatasets",
    "SparkSettings",
    "SparkTask",
    "SparkUnavailableError",
    "SparkWorkspace",
    "WarmBodies",
    "WritePlace",
    "Written",
    "accepted_values",
    "exactly",
    "foreign_key",
    "freshness",
    "in_range",
    "not_null",
    "predicate",
    "require_columns",
    "require_only_columns",
    "require_rows",
    "row_count_drift",
    "run_pipeline",
    "unique",
]
