"""The suite of the stack, on every stack that joined (see ``conftest``)."""

from perago_conformance.suites.stack import *  # noqa: F403  a suite is its test functions

pytest_plugins = ["perago_conformance"]
