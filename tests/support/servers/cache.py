"""Where servers are kept once they were built or fetched: whole or not at all, one folder for each version.

``PERAGO_SERVERS`` names the place; without it, ``perago/servers`` in the user's cache folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

Report = Callable[[str], None]


class ObtainError(Exception):
    """A server that cannot be had; says what to do about it."""


def home() -> Path:
    given = os.environ.get("PERAGO_SERVERS")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perago" / "servers"


@frozen
class Part:
    """Something to keep: its name and version, and the file without which it is worth nothing."""

    name: str
    version: str
    file: str

    @property
    def folder(self) -> Path:
        return home() / f"{self.name}-{self.version}"

    @property
    def path(self) -> Path:
        return self.folder / self.file

    def is_there(self) -> bool:
        return self.path.is_file()

    def place(self, make: Callable[[Path], None], report: Report) -> Path:
        """Have it made in a folder beside its own and moved there in one step, by one process at a time."""
        if self.is_there():
            return self.path
        with locked(home() / f".{self.folder.name}.lock", lambda: report("waiting for another process that makes it")):
            if self.is_there():
                return self.path
            making = f".making-{self.folder.name}-"
            for left in home().glob(f"{making}*"):  # a maker was killed: only it could have used that
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(prefix=making, dir=home()) as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                make(made)
                if not (made / self.file).is_file():
                    raise ObtainError(f"expected {self.file} after {self.name} {self.version} was made; found none")
                made.rename(self.folder)
        return self.path


@contextmanager
def locked(path: Path, waiting: Callable[[], None] = lambda: None) -> Generator[None]:
    """Be the only process in here. The lock goes with the process, so a killed one leaves no lock behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def log_file(name: str, keep: int = 100) -> Path:
    """Return a new log file's path, and forget the oldest of those there are."""
    folder = home() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    logs = sorted(folder.glob("*.log"), key=lambda each: each.name.partition("-")[0])
    for old in logs[:-keep]:
        old.unlink(missing_ok=True)
    return folder / f"{time.time_ns()}-{name}-{os.getpid()}.log"
