"""The ``perago`` data source for Spark. Found by Spark itself, through the package ``pyspark_perago``."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from perago_spark.place import FORMAT, read_place, write_place
from perago_spark.reading import PeragoReader, schema_of
from perago_spark.schemas import plain_schema
from perago_spark.writing import PeragoWriter


class PeragoSource(DataSource):
    """Reads one data set of a commit, or writes one below a staging name. What exactly is in the options."""

    @classmethod
    def name(cls) -> str:
        """Give the name after ``format(...)``."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the columns that will be read."""
        return schema_of(read_place(self.options))

    def reader(self, schema: StructType) -> PeragoReader:
        """Make a reader."""
        return PeragoReader(read_place(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> PeragoWriter:  # noqa: FBT001  Spark's signature
        """Make a writer; nothing is changed yet."""
        return PeragoWriter(write_place(self.options), plain_schema(schema.json()), overwrite=overwrite)
