"""Lets Spark find the ``perago`` data source: it imports every top-level module whose name begins with ``pyspark_``."""

from perago_spark.source.data_source import PeragoSource as DefaultSource

__all__ = ["DefaultSource"]
