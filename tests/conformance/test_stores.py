"""The suites of the store, on every store that joined (see ``conftest``)."""

from perago_conformance.suites.several_targets import *  # noqa: F403  likewise
from perago_conformance.suites.store import *  # noqa: F403  a suite is its test functions

pytest_plugins = ["perago_conformance"]
