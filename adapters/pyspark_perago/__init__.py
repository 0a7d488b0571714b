"""Lets Spark find the ``perago`` data source: it imports every top-level module whose name begins with ``pyspark_``.

Beside what tasks read through it, a notebook names a data set by its place:

    spark.read.format("perago").load("lake/main/orders")
    spark.read.format("perago").option("project", "/srv/shop").load("lake/main/orders@2f9c1d")

A branch is looked up each time Spark plans a query; a commit is always the same.
"""

from perago_spark.errors import DatasetError
from perago_spark.source.data_source import PeragoSource
from perago_spark.source.options import ReadPlace

__all__ = ["DefaultSource"]


class DefaultSource(PeragoSource):
    """Reads data sets also by place, as the project around the current folder knows it."""

    def read_place(self) -> ReadPlace:
        """Look the place up, if there is one."""
        place = self.options.get("path")
        if not place or "sourceToken" in self.options:
            return super().read_place()
        from perago_worker.api.dataset import find  # noqa: PLC0415  needed only here
        from perago_worker.api.errors import UserError  # noqa: PLC0415  as above

        try:
            found = find(place, self.options.get("project", "."))
        except UserError as error:
            raise DatasetError(f"a data set at {place!r}", str(error), "See specs/guide/howto/spark.md") from None
        return ReadPlace(found.source, found.folder)
