"""The suite of the leases, on every coordination store with leases that joined (see ``conftest``)."""

from perago_conformance.suites.leases import *  # noqa: F403  a suite is its test functions

pytest_plugins = ["perago_conformance"]
