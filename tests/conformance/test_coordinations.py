"""The suite of the coordination, on every coordination store that joined (see ``conftest``)."""

from perago_conformance.suites.coordination import *  # noqa: F403  a suite is its test functions

pytest_plugins = ["perago_conformance"]
