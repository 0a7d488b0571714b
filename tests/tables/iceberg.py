"""Iceberg for Spark 4.1: its jar, and the settings with which Spark finds it."""

from __future__ import annotations

from typing import Final

from tests.support.servers.jars import Jars

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>iceberg</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.iceberg</groupId><artifactId>iceberg-spark-runtime-4.1_2.13</artifactId>
      <version>1.12.0</version></dependency>
  </dependencies>
</project>
"""
_JARS: Final = Jars("iceberg-4.1-1.12.0", _POM, "d7f8149f7668114eada7e9ac05eeb7fc74ee845befc6d8ca9a7f742f5a4292f8")


def settings() -> dict[str, str]:
    return {
        "spark.jars": _JARS.paths(),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
