"""The conformance suites of the ports as a pytest plugin: give a fixture, get the suite.

    import pytest

    from perago_conformance.harness import StoreHarness
    from perago_conformance.suites.store import *

    pytest_plugins = ["perago_conformance"]

    @pytest.fixture
    def store(tmp_path) -> StoreHarness:
        return MyHarness(tmp_path)

Each module of ``suites`` asks for one fixture, named below; what it has to return is in ``harness``. A fixture with
parameters runs the suite on several implementations. The guide's page "Write a store in an afternoon" is a complete
example.

PYTEST_DONT_REWRITE: whoever imports a harness has imported this file before pytest sees it in ``pytest_plugins``; there
is no assertion in it.
"""

from __future__ import annotations

from typing import NoReturn

import pytest

from perago_conformance.harness import CoordinationHarness, OrchestratorHarness, Stack, StoreHarness, WorkspaceHarness

# Before anything imports them: an assertion that fails then shows what it compared.
pytest.register_assert_rewrite("perago_conformance.suites", "perago_conformance.support")


def _missing(name: str, wanted: type, suite: str) -> NoReturn:
    pytest.fail(
        f"perago_conformance.suites.{suite} asks for a fixture {name!r} that returns a {wanted.__name__}; found none. "
        f"Define one beside the import of the suite: perago_conformance.harness.{wanted.__name__} says what it needs.",
        pytrace=False,
    )


@pytest.fixture
def store() -> StoreHarness:
    """Return your store, empty: suite ``store``. Yours to define."""
    _missing("store", StoreHarness, "store")


@pytest.fixture
def orchestrator() -> OrchestratorHarness:
    """Return your orchestrator, which runs nothing: suite ``orchestrator``. Yours to define."""
    _missing("orchestrator", OrchestratorHarness, "orchestrator")


@pytest.fixture
def coordination() -> CoordinationHarness:
    """Return your coordination store, empty: suite ``coordination``. Yours to define."""
    _missing("coordination", CoordinationHarness, "coordination")


@pytest.fixture
def leasing() -> CoordinationHarness:
    """Return your coordination store, empty, if it has leases: suite ``leases``. Yours to define."""
    _missing("leasing", CoordinationHarness, "leases")


@pytest.fixture
def workspace() -> WorkspaceHarness:
    """Return your workspace over a store, empty: suite ``workspace``. Yours to define."""
    _missing("workspace", WorkspaceHarness, "workspace")


@pytest.fixture
def stack() -> Stack:
    """Return one of each over one clock, empty: suite ``stack``. Yours to define."""
    _missing("stack", Stack, "stack")
