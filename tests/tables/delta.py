"""Delta for Spark 4.2: its jars, and the settings with which Spark finds it."""

from __future__ import annotations

from typing import Final

from tests.support.servers.jars import Jars

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>delta</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.delta</groupId><artifactId>delta-spark_4.2_2.13</artifactId><version>4.4.0</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>io.delta</groupId><artifactId>delta-storage</artifactId><version>4.4.0</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>io.delta</groupId><artifactId>delta-kernel-api</artifactId><version>4.4.0</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>io.delta</groupId><artifactId>delta-kernel-defaults</artifactId><version>4.4.0</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
  </dependencies>
</project>
"""
_JARS: Final = Jars("delta-4.2-4.4.0", _POM, "dc9fa140d6346137459b7091ad58c0f75a718d0f66b885765c14596a1547f91d")


def settings() -> dict[str, str]:
    return {
        "spark.jars": _JARS.paths(),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Small logs: fifty tasks to read one take longer than reading it.
        "spark.databricks.delta.snapshotPartitions": "2",
    }
