"""The package as people get it: built, and installed into an environment that holds nothing but what they asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import TypeAlias

import pytest
from attrs import frozen
from packaging.requirements import Requirement

from tests.docs.documents import ROOT

Ran: TypeAlias = subprocess.CompletedProcess[str]


@frozen
class Built:
    """What is published: a wheel and a source distribution."""

    wheel: Path
    sdist: Path


@frozen
class Installed:
    """An environment with our commands."""

    folder: Path

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the variables of somebody who has nothing else on the path."""
        return {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "COLUMNS": "200",
            "NO_COLOR": "1",
            **variables,
        }

    def __call__(self, place: Path, *words: str, **variables: str) -> Ran:
        """Run a command of it in a folder."""
        return subprocess.run(  # noqa: S603  what we installed
            [str(self.folder / "bin" / words[0]), *words[1:]],
            cwd=place,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    out = tmp_path_factory.mktemp("dist")
    build(ROOT, out, "sdist", "wheel")
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


@pytest.fixture(scope="session")
def install(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Installed]:
    """Install the wheel with some of its extras. What they need is linked from the environment of the tests."""

    @cache
    def make(*extras: str) -> Installed:
        folder = tmp_path_factory.mktemp("-".join(("with", *extras)))
        return installed(built.wheel, folder, _needed("perago-core", frozenset(extras), set()))

    return make


def build(tree: Path, out: Path, *kinds: str) -> None:
    """Build our package from a tree of its sources."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    command += [word for kind in kinds for word in ("-t", kind)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)  # noqa: S603  our own tree


def installed(wheel: Path, folder: Path, packages: Iterable[str]) -> Installed:
    """Make an environment of a wheel of ours and these packages, which are linked from the environment of the tests."""
    venv.create(folder, symlinks=True)
    python = str(folder / "bin" / "python")
    subprocess.run(  # noqa: S603  our own wheel
        [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(wheel)],
        check=True,
        capture_output=True,
    )
    site = next((folder / "lib").glob("python*")) / "site-packages"
    for name in packages:
        _link(name, site)
    return Installed(folder)


def _needed(package: str, extras: frozenset[str], seen: set[str]) -> set[str]:
    """Name every package that one needs with these extras."""
    try:
        wanted = [Requirement(each) for each in requires(package) or ()]
    except PackageNotFoundError:
        return seen
    for each in wanted:
        markers = [{"extra": extra} for extra in extras] or [{"extra": ""}]
        if each.marker is not None and not any(each.marker.evaluate(marker) for marker in markers):
            continue
        key = each.name.lower().replace("_", "-")
        if key not in seen:
            seen.add(key)
            _needed(each.name, frozenset(each.extras), seen)
    return seen


def _link(package: str, site: Path) -> None:
    from importlib.metadata import files  # noqa: PLC0415  beside its only use

    try:
        listed = files(package) or []
    except PackageNotFoundError:
        return
    for top in {each.parts[0] for each in listed if each.parts[0] not in {"..", "__pycache__"}}:
        source = Path(str(listed[0].locate())).parents[len(listed[0].parts) - 1] / top
        target = site / top
        if source.exists() and not target.exists():
            target.symlink_to(source)
