"""The jars with which Spark writes to an S3 gateway: the small set, fetched once by Maven into the folder of servers.

Spark's own package has none of them. The whole SDK in one jar has 690 MB; what S3A really needs has 18.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.support.servers.cache import home

_NAME: Final = "s3a-3.5.0"
#: Of the lines "name sha256", one for each jar.
_SHA256: Final = "ec8984994fc03d4d8efaff3827f0f7689cfccd6afa17ec98840c9dad8750bc38"
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


def jars() -> str:
    """Give them as the value of ``spark.jars``; fetched if they are not there, whole or not at all."""
    place = home() / _NAME
    if not place.is_dir():
        _fetch(place)
    return ",".join(str(each) for each in sorted(place.glob("*.jar")))


def _fetch(place: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        message = "expected the jars of S3A or Maven to fetch them; found neither. Install maven"
        if os.environ.get("PERAGO_SERVERS_REQUIRED"):
            pytest.fail(message)
        pytest.skip(message)
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place.parent) as half:
        (Path(half) / "pom.xml").write_text(_POM, "utf-8")
        about = ["-DincludeScope=runtime", "-DexcludeArtifactIds=slf4j-api", f"-DoutputDirectory={half}/jars"]
        subprocess.run([maven, "-q", "-B", "-f", f"{half}/pom.xml", "dependency:copy-dependencies", *about], check=True)  # noqa: S603
        found = _digest(Path(half) / "jars")
        if found != _SHA256:
            raise ValueError(f"expected the jars of S3A with digest {_SHA256}, found {found}: kept none of them")
        try:
            (Path(half) / "jars").rename(place)
        except OSError:
            if not place.is_dir():  # somebody else was faster
                raise


def _digest(folder: Path) -> str:
    lines = [f"{each.name} {hashlib.sha256(each.read_bytes()).hexdigest()}\n" for each in sorted(folder.glob("*.jar"))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
