"""The jars with which Spark writes to an S3 gateway: the small set.

Spark's own package has none of them. The whole SDK in one jar has 690 MB; what S3A really needs has 18.
"""

from __future__ import annotations

from typing import Final

from tests.support.servers.jars import Jars

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>s3a</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>3.5.0</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>software.amazon.s3.analyticsaccelerator</groupId><artifactId>analyticsaccelerator-s3</artifactId>
      <version>1.3.1</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>software.amazon.awssdk</groupId><artifactId>s3</artifactId><version>2.35.4</version></dependency>
    <dependency><groupId>software.amazon.awssdk</groupId><artifactId>s3-transfer-manager</artifactId>
      <version>2.35.4</version></dependency>
    <dependency><groupId>software.amazon.awssdk</groupId><artifactId>sts</artifactId><version>2.35.4</version></dependency>
  </dependencies>
</project>
"""
_JARS: Final = Jars("s3a-3.5.0", _POM, "ec8984994fc03d4d8efaff3827f0f7689cfccd6afa17ec98840c9dad8750bc38")


def jars() -> str:
    """Give them as the value of ``spark.jars``; fetched if they are not there, whole or not at all."""
    return _JARS.paths()
