"""Jars that Spark's own package has not: fetched once by Maven, by name, checked by one hash, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from attrs import frozen

from tests.support.servers.cache import home


@frozen
class Jars:
    """Some jars under one name. ``sha256``: of the lines "name sha256", one for each jar."""

    name: str
    pom: str
    sha256: str

    def paths(self) -> str:
        """Give them as the value of ``spark.jars``; fetched if they are not there."""
        place = home() / self.name
        if not place.is_dir():
            self._fetch(place)
        return ",".join(str(each) for each in sorted(place.glob("*.jar")))

    def _fetch(self, place: Path) -> None:
        maven = shutil.which("mvn")
        if maven is None:
            message = f"expected the jars of {self.name} or Maven to fetch them; found neither. Install maven"
            if os.environ.get("PERAGO_SERVERS_REQUIRED"):
                pytest.fail(message)
            pytest.skip(message)
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=place.parent) as half:
            (Path(half) / "pom.xml").write_text(self.pom, "utf-8")
            about = ["-DincludeScope=runtime", "-DexcludeArtifactIds=slf4j-api", f"-DoutputDirectory={half}/jars"]
            subprocess.run(  # noqa: S603  our own words
                [maven, "-q", "-B", "-f", f"{half}/pom.xml", "dependency:copy-dependencies", *about], check=True
            )
            found = _digest(Path(half) / "jars")
            if found != self.sha256:
                raise ValueError(f"expected {self.name} with digest {self.sha256}, found {found}: kept none of it")
            try:
                (Path(half) / "jars").rename(place)
            except OSError:
                if not place.is_dir():  # somebody else was faster
                    raise


def _digest(folder: Path) -> str:
    lines = [f"{each.name} {hashlib.sha256(each.read_bytes()).hexdigest()}\n" for each in sorted(folder.glob("*.jar"))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
