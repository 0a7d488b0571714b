"""The same project, run by plain ``spark-pipelines`` and killed alike, while a reader looks at its tables.

Its catalog is Spark's own in a database beside the project, else a second run would not know the tables of the first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import define, field

#: What one look at all tables found: the files of each, by their paths below the folder of the tables.
Looked = dict[str, bytes]
_CONF: Final = {
    "spark.sql.catalogImplementation": "hive",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}


@define
class PlainReader:
    """Reads the tables of a project every 50 ms, and counts how often they were not of one run."""

    tables: Path
    is_whole: Callable[[Looked], bool]
    looks: int = 0
    partial: int = 0
    _ended: threading.Event = field(factory=threading.Event)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Read for the block."""
        helper = threading.Thread(target=self._read, name="plain reader")
        helper.start()
        try:
            yield
        finally:
            self._ended.set()
            helper.join()

    def _read(self) -> None:
        while not self._ended.wait(0.05):
            try:
                found = {
                    each.relative_to(self.tables).as_posix(): each.read_bytes()
                    for each in sorted(self.tables.glob("*/**/[!._]*.parquet"))
                    if not any(part.startswith("_") for part in each.relative_to(self.tables).parts)
                }
            except FileNotFoundError:
                continue  # listed and gone: whoever reads so has no answer, and asks again
            self.looks += 1
            self.partial += not self.is_whole(found)


def run(project: Path, after: float | None = None) -> int | None:
    """Run a project, to its end or until it is killed so many seconds later; return how it ended."""
    words = [str(Path(sys.executable).with_name("spark-pipelines")), "run"]
    words += [part for key, value in _CONF.items() for part in ("--conf", f"{key}={value}")]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    with subprocess.Popen(  # noqa: S603  our own words
        words,
        cwd=project,
        env={**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        try:
            running.wait(after)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
    return running.returncode
