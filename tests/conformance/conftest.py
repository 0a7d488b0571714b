"""Runs every suite of ``perago_conformance`` on every implementation that joined.

An implementation joins by a file in ``implementations/`` that names it in one or more of these, and by nothing else:

* ``STORES: Mapping[str, Opener[StoreHarness]]``
* ``ORCHESTRATORS: Mapping[str, Opener[OrchestratorHarness]]``
* ``COORDINATIONS: Mapping[str, Opener[CoordinationHarness]]``, and ``LEASES`` with those of them that have leases
* ``WORKSPACES: Mapping[str, Opener[WorkspaceHarness]]``
* ``STACKS: Mapping[str, Opener[Stack]]``

One that runs on a server which the development packages do not bring also says ``NEEDS_SERVERS = True``: it is left out
of ``make test`` and demanded by ``make test-servers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from perago_conformance.harness import CoordinationHarness, OrchestratorHarness, Stack, StoreHarness, WorkspaceHarness

#: The fixture a test asks for, and where implementations name themselves for it.
SHELVES = {
    "store": "STORES",
    "orchestrator": "ORCHESTRATORS",
    "coordination": "COORDINATIONS",
    "leasing": "LEASES",
    "workspace": "WORKSPACES",
    "stack": "STACKS",
}

MODULES = sorted(path.stem for path in (Path(__file__).parent / "implementations").glob("*.py"))


def joined(shelf: str) -> list[object]:
    """Give the openers on a shelf, each with its name as the test id; two of one name are an error."""
    found: dict[str, object] = {}
    for name in MODULES:
        module = import_module(f"tests.conformance.implementations.{name}")
        marks = [pytest.mark.servers] if getattr(module, "NEEDS_SERVERS", False) else []
        for label, opener in getattr(module, shelf, {}).items():
            assert label not in found, f"{label} is twice on {shelf}"
            found[label] = pytest.param(opener, id=label, marks=marks)
    assert found, f"nobody joined {shelf}: the suite would test nothing"
    return list(found.values())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, shelf in SHELVES.items():
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, joined(shelf), indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    with request.param(tmp_path) as harness:
        yield harness


@pytest.fixture
def orchestrator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrchestratorHarness]:
    with request.param(tmp_path) as harness:
        yield harness


@pytest.fixture
def coordination(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CoordinationHarness]:
    with request.param(tmp_path) as harness:
        yield harness


@pytest.fixture
def leasing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CoordinationHarness]:
    with request.param(tmp_path) as harness:
        yield harness


@pytest.fixture
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with request.param(tmp_path) as harness:
        yield harness


@pytest.fixture
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    with request.param(tmp_path) as harness:
        yield harness
