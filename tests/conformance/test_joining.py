"""Who joined what: an implementation that is not on any shelf would pass every suite by not taking part."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module

import pytest

from tests.conformance.conftest import MODULES, SHELVES


def names(module: str, shelf: str) -> list[str]:
    shelved: Mapping[str, object] = getattr(import_module(f"tests.conformance.implementations.{module}"), shelf, {})
    return list(shelved)


@pytest.mark.parametrize("module", MODULES)
def test_a_file_of_implementations_joins_something(module: str) -> None:
    assert [name for shelf in SHELVES.values() for name in names(module, shelf)]


@pytest.mark.parametrize("module", MODULES)
def test_an_implementation_on_servers_says_so_and_no_other_does(module: str) -> None:
    """Else ``make test`` would skip it where there is no server, or ``make test-servers`` would leave it out."""
    found = import_module(f"tests.conformance.implementations.{module}")
    assert getattr(found, "NEEDS_SERVERS", False) == ("tests.support.servers" in inspect.getsource(found))


@pytest.mark.parametrize("shelf", SHELVES.values())
def test_every_suite_runs_on_the_simulated_and_on_an_embedded_implementation(shelf: str) -> None:
    joined = [name for module in MODULES for name in names(module, shelf)]
    assert [name for name in joined if name.startswith("simulated")]
    assert [name for name in joined if not name.startswith("simulated")]
