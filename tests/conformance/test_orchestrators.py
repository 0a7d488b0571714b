"""The suite of the orchestrator, on every orchestrator that joined (see ``conftest``)."""

from perago_conformance.suites.orchestrator import *  # noqa: F403  a suite is its test functions

pytest_plugins = ["perago_conformance"]
