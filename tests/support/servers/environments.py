"""Packages that must not be beside ours, each in an environment of its own: installed by name once, and kept."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

from tests.support.servers.cache import home, locked

_ROOT = Path(__file__).parents[3]
_REQUIREMENTS, _UV = _ROOT / "requirements", _ROOT / ".ci" / "uv"
#: What an installation may take: 700 MB of Spark are a minute or two. uv itself waits for every single answer only.
_SECONDS = 600


class PackagesMissingError(Exception):
    """They cannot be installed here; says why."""


def interpreter(name: str, version: str = "") -> Path:
    """Give the interpreter of the environment that ``requirements/<name>.txt`` describes, each file of it by its hash.

    ``version``: that of Python, ``3.12``; this one's if it is not named. An environment that was made half, or from
    other requirements, is made again.
    """
    wanted = _REQUIREMENTS / f"{name}.txt"
    whole = f"{name}-python{version}" if version else name
    folder = home() / f"{whole}-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:8]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    with locked(home() / f".{whole}.lock"):
        if not complete.is_file():
            _make(folder, version)
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


def _make(folder: Path, version: str) -> None:
    if not version or version == "{}.{}".format(*sys.version_info):
        venv.create(folder, clear=True)
        return
    for each in _pythons(version):
        make = [each, "-m", "venv", "--without-pip", "--clear", str(folder)]
        made = subprocess.run(make, capture_output=True, check=False)  # noqa: S603  our own words
        if not made.returncode:
            return
    wanted = f"python{version} with its venv module, on the PATH or in pyenv"
    raise PackagesMissingError(f"expected {wanted}; found none. Install it, and try again")


def _pythons(version: str) -> Iterator[str]:
    """Yield what may be this Python: pyenv's own links on the PATH answer only for those that were chosen in it."""
    if on_path := shutil.which(f"python{version}"):
        yield on_path
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603  as above
        yield from map(str, sorted(Path(root).glob(f"versions/{version}.*/bin/python{version}")))
