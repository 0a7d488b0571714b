"""A process that is killed at its Nth write: a small library that is loaded before all others (``written.c``)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from attrs import frozen

from tests.support.burn.wall_clock import compiler
from tests.worker.projects import environment

_SOURCE = Path(__file__).with_name("written.c")


@frozen
class Written:
    """Runs commands that die as they write. Wants a ``compiler()``."""

    library: Path

    @classmethod
    def made(cls, folder: Path) -> Written:
        """Compile the library."""
        library, found = folder / "written.so", compiler()
        assert found is not None
        command = [found, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603  our own source
        return cls(library)

    def count(self, folder: Path, *words: str) -> int:
        """Let a command come to its end, and count its writes."""
        said = self.library.with_suffix(".count")
        ran = self._run(folder, words, DIES_AT="0", DIES_TO=str(said))
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return int(said.read_text("ascii"))

    def killed(self, folder: Path, at: int, *words: str) -> None:
        """Run a command until it is about to write for the Nth time."""
        self._run(folder, words, DIES_AT=str(at))

    def _run(self, folder: Path, words: tuple[str, ...], **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  our own interpreter and code
            [sys.executable, "-m", "perago_worker", *words],
            cwd=folder,
            env=environment(LD_PRELOAD=str(self.library), **variables),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
