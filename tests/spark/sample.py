"""A sample of the tests on one of the Sparks beside the newest: what CI has time for. ``make test-spark-sample``.

The seed is the commit, so that a failure is met again where it was met, and other commits try other Sparks and other
tests; ``PERAGO_SPARK_SEED`` plays another. It is printed with the Spark that it picks. All tests on all Sparks are
``make test-spark-versions`` and ``make test-tables``.

This module is also the plugin that lets pytest run nothing but the sample.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.spark.versions import TESTS, command

ROOT: Final = Path(__file__).parents[2]
SEED: Final = "PERAGO_SPARK_SEED"
FAULTS: Final = "test_faults.py"
#: How many tests of the fault matrix, and of data sets. With the environment's installation they are to take four
#: minutes of two cores at most (ADR 74).
SIZES: Final = {True: 2, False: 7}
#: What tables are tried on a Spark; the newest has neither (ADR 57).
TABLES: Final = {"4.1": "tests/tables/test_iceberg.py", "4.2": "tests/tables/test_delta.py"}
#: A table is written by two tasks, appended to, read at its own commit (Delta), and met by the wrong reader.
SMOKE: Final = "conflict or taken_for_each_other or own_commit"


def main() -> int:
    """Pick a Spark, and run the sample on it."""
    seed = os.environ.get(SEED) or _commit()
    version = picked(seed)
    print(f"Spark {version}, picked by {SEED}={seed}", flush=True)  # noqa: T201  what whoever looks for a failure needs
    parts = [["-p", __spec__.name, *(f"tests/spark/test_{each}.py" for each in TESTS)]]
    if version in TABLES:
        parts.append(["-k", SMOKE, TABLES[version]])
    environment = {**os.environ, SEED: seed}
    words = (command(version, "-p", "no:randomly", *part) for part in parts)
    ended = [subprocess.run(each, cwd=ROOT, env=environment, check=False).returncode for each in words]  # noqa: S603  ours
    return int(any(ended))  # what a signal has ended is below 0, and no less a failure


def picked(seed: str) -> str:
    """Return which of the other Sparks is tried."""
    return _chance(seed).choice(sorted(each.stem.removeprefix("spark-") for each in _pins()))


def sampled(tests: Iterable[str], seed: str) -> set[str]:
    """Return which tests are run: some of the fault matrix, and some of all others."""
    chance, known = _chance(seed), sorted(tests)
    kinds = {is_fault: [each for each in known if (FAULTS in each) is is_fault] for is_fault in SIZES}
    return {each for is_fault, size in SIZES.items() for each in chance.sample(kinds[is_fault], size)}


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:  # noqa: ANN401  pytest's
    """Leave the sample."""
    chosen = sampled((each.nodeid for each in items), os.environ[SEED])
    config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in chosen])
    items[:] = [each for each in items if each.nodeid in chosen]


def _chance(seed: str) -> random.Random:
    return random.Random(seed)


def _pins() -> Iterable[Path]:
    return (ROOT / "requirements").glob("spark-*.txt")


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603  ours


if __name__ == "__main__":
    sys.exit(main())
