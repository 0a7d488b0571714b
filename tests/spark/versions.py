"""The tests of one other Spark, in an environment of its own: ``python -m tests.spark.versions 4.0 [PYTEST ARGS...]``.

With the version of a Python instead, ``3.12``, those of the newest Spark on that Python. The environment is made once
from a file of ``requirements``, each file of it by its hash, and kept.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from tests.support.servers.environments import PackagesMissingError, interpreter

#: Data source, both routes, bodies in warm processes, and the fault matrix.
TESTS: Final = ("append", "data_source", "faults", "native", "partitions", "warm", "workspace")


#: The newest Spark on the other Pythons that it is promised for, by their requirements: one of them with pandas 3.
PYTHONS: Final = {"3.12": "newest-spark", "3.13": "newest-spark-pandas-3"}
#: Spark 4.3 warns of pandas 3, in each process that is started: tests compare what bodies print.
QUIET: Final = "ignore:PySpark does not yet fully support pandas:FutureWarning"


def command(version: str, *arguments: str) -> list[str]:
    """Return the words that run pytest on that Spark, or on that Python with the newest Spark."""
    python = version if version in PYTHONS else ""
    try:
        found = str(interpreter(PYTHONS[python] if python else f"spark-{version}", python))
    except PackagesMissingError as missing:
        sys.exit(f"error: {missing}")
    return [found, "-m", "pytest", "-o", f"cache_dir=.pytest_cache/spark-{version}", *arguments]


def main(version: str, *arguments: str) -> None:
    """Become pytest there."""
    folder = Path(__file__).parent
    chosen = arguments or tuple(str(folder / f"test_{each}.py") for each in TESTS)
    words = command(version, *chosen)
    os.execve(words[0], words, {**os.environ, "PYTHONWARNINGS": QUIET})  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
