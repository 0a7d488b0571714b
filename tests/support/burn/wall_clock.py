"""A wall clock of a worker's own, which jumps while it works: a small library that is loaded before all others.

Nothing in the product knows of it, so nothing in the product can be told the wrong time by it but here.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attrs import frozen

_SOURCE = Path(__file__).with_name("wall_clock.c")
_WORD = 8


@cache
def compiler() -> str | None:
    """Return what compiles the library; ``None``: nobody's wall clock jumps here."""
    return shutil.which("cc")


@frozen
class WallClock:
    """The clock of whoever runs with these ``variables``."""

    library: Path
    file: Path

    @classmethod
    def made(cls, folder: Path, name: str) -> WallClock:
        """Compile the library once for the folder, and make a clock that is right."""
        folder.mkdir(parents=True, exist_ok=True)
        library, found = folder / "wall_clock.so", compiler()
        assert found is not None
        if not library.exists():
            command = [found, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603  our own source
        clock = cls(library, folder / name)
        clock.jump(0)
        return clock

    @property
    def variables(self) -> Mapping[str, str]:
        """Return what a process must have in its environment to see it."""
        return {"LD_PRELOAD": str(self.library), "BURN_WALL_CLOCK": str(self.file)}

    def jump(self, seconds: int) -> None:
        """Set it so many seconds ahead of the machine's, or behind it."""
        if not self.file.exists():
            self.file.write_bytes(bytes(_WORD))
        with self.file.open("r+b") as file:  # the same file, which others have mapped
            file.write(seconds.to_bytes(_WORD, "little", signed=True))
