"""Packages that must not be beside ours, each in an environment of its own: installed by name once, and kept."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from tests.servers.cache import home, locked


class PackagesMissingError(Exception):
    """They cannot be installed here; says why."""


def interpreter(name: str, *packages: str) -> Path:
    """Give the interpreter of the environment that has these packages. One that was made half is made again."""
    folder = home() / name
    python, complete = folder / "bin" / "python", folder / "complete"
    with locked(home() / f".{name}.lock"):
        if not complete.is_file():
            venv.create(folder, with_pip=True, clear=True)
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            made = subprocess.run(install, capture_output=True, text=True, check=False)  # noqa: S603  our own words
            if made.returncode:
                raise PackagesMissingError(f"expected pip to install {' '.join(packages)}: {made.stderr[-300:]}")
            complete.touch()
    return python
