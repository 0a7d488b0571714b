"""Packages that must not be beside ours, each in an environment of its own: installed by name once, and kept."""

from __future__ import annotations

import hashlib
import subprocess
import venv
from pathlib import Path

from tests.support.servers.cache import home, locked

_ROOT = Path(__file__).parents[3]
_REQUIREMENTS, _UV = _ROOT / "requirements", _ROOT / ".ci" / "uv"
#: What an installation may take: 700 MB of Spark are a minute or two. uv itself waits for every single answer only.
_SECONDS = 600


class PackagesMissingError(Exception):
    """They cannot be installed here; says why."""


def interpreter(name: str) -> Path:
    """Give the interpreter of the environment that ``requirements/<name>.txt`` describes, each file of it by its hash.

    One that was made half, or from other requirements, is made again.
    """
    wanted = _REQUIREMENTS / f"{name}.txt"
    folder = home() / f"{name}-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:8]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    with locked(home() / f".{name}.lock"):
        if not complete.is_file():
            venv.create(folder, clear=True)
            # Not pip: to it ``coverage[toml]``, which a package asks for, is another one than the pinned ``coverage``.
            install = [str(_UV), "--quiet", "pip", "install", "--python", str(python)]
            install += ["--require-hashes", "--requirement", str(wanted)]
            try:
                made = subprocess.run(install, capture_output=True, text=True, check=False, timeout=_SECONDS)  # noqa: S603  our own words
            except subprocess.TimeoutExpired:
                asked = f"expected uv to install {wanted.name} within {_SECONDS} s; found it at work still"
                raise PackagesMissingError(f"{asked}. See whether its index answers, and try again") from None
            if made.returncode:
                raise PackagesMissingError(f"expected uv to install {wanted.name}: {made.stderr[-300:]}")
            complete.touch()
    return python
