"""The suite of the workspace, on every workspace that joined (see ``conftest``)."""

from perago_conformance.suites.workspace import *  # noqa: F403  a suite is its test functions

pytest_plugins = ["perago_conformance"]
