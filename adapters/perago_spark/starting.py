"""Starting Java with settings that only its owner can read.

PySpark hands each setting to Java as words of its command line, which everybody on the machine can read: the keys of a
store too. So they go into a file of mode 0600 instead, which is removed as soon as Java has read it.
"""

from __future__ import annotations

import os
import shlex
import string
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext

#: Where PySpark looks for more words of the command line.
_VARIABLE: Final = "PYSPARK_SUBMIT_ARGS"
_FILE: Final = "--properties-file"


def start_java(conf: Mapping[str, str], scratch: Path) -> None:
    """Start the Java of this process with these settings; do nothing if it has one already."""
    inner: Any = SparkContext
    if inner._gateway is not None:  # noqa: SLF001  Spark has no other way to ask
        return
    words, theirs = _theirs()
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=scratch, suffix=".properties") as file:
        file.write(theirs + "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in conf.items()))
        file.flush()
        with _variable(shlex.join([_FILE, file.name, *words])):
            inner._ensure_initialized()  # noqa: SLF001  Spark has no other way to start it before there is a context


def _theirs() -> tuple[list[str], str]:
    """Give the user's own words, and what stands in the file that they name.

    Java takes one such file, so theirs goes into ours, before our lines: the later one counts. Where they name none,
    Java would also read the defaults of its installation; only if it is told to, it goes on doing so beside a file.
    """
    words = shlex.split(os.environ.get(_VARIABLE, "pyspark-shell"))
    for at, word in enumerate(words):
        if word == _FILE:
            return words[:at] + words[at + 2 :], _lines(words[at + 1])
        if word.startswith(f"{_FILE}="):
            return words[:at] + words[at + 1 :], _lines(word.partition("=")[2])
    return ["--load-spark-defaults", *words], ""


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
def _variable(words: str) -> Generator[None]:
    """Let PySpark find these words, and nobody after it: a body may start programs of its own."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = words
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
