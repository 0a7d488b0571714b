"""Running a command that takes its time: it says so, it dies with us, and if it fails it says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.support.servers.cache import ObtainError, Report
from tests.support.servers.processes import LAUNCHER

TELL_EVERY = 10.0
TAIL = 30


def run(what: str, command: Sequence[str], folder: Path, report: Report, settings: Mapping[str, str] = {}) -> str:
    """Run a command that dies with us, tell every few seconds that it still does, and give what it printed."""
    program = shutil.which(command[0]) or command[0]
    started = time.monotonic()
    report(what)
    with (folder / "output").open("w+b") as output, (folder / "trouble").open("w+b") as trouble:
        running = subprocess.Popen(  # noqa: S603  our own commands
            [sys.executable, "-ISE", str(LAUNCHER), str(os.getpid()), program, *command[1:]],
            cwd=folder,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=trouble,
        )
        try:
            while running.poll() is None:
                try:
                    running.wait(TELL_EVERY)
                except subprocess.TimeoutExpired:
                    report(f"{what}, {time.monotonic() - started:.0f} s")
        finally:
            running.kill()
            running.wait()
        said = [_text(each) for each in (output, trouble)]
    if running.returncode:
        tail = "\n".join("".join(said).splitlines()[-TAIL:])
        raise ObtainError(f"{what}: {Path(program).name} ended with {running.returncode}:\n{tail}")
    return said[0]


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
