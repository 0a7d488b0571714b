"""The pytest plugin: try your own runtime, table or store against everything that can go wrong.

    def test_my_worker_keeps_the_promises(perago):
        small = setting(Backing.CONDITIONAL, losses=1)
        perago.explore(Embedded(small, runtime=my_worker.step))  # every world within the bounds
        big = setting(Backing.CONDITIONAL, attempts=4, steps=2, losses=2)
        perago.simulate(Embedded(big, runtime=my_worker.step))  # random runs in a world too big to explore

A failure prints the shortest run found, the command that replays it, and the page to step through. How many random
runs are made follows the Hypothesis profile: ``--hypothesis-profile=perago-nightly`` makes fifty times as many as
``perago-ci``. The same profiles drive ``WorldMachine`` of ``perago_simulation.testing`` and its strategies.

pytest loads this file wherever the package is installed, also where nobody simulates, so it imports nothing yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from perago_simulation.testing.trial import Trial


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the profiles before Hypothesis looks for the one that was asked for."""
    if str(config.getoption("--hypothesis-profile", default="")).startswith("perago-"):
        from perago_simulation.testing.profiles import register  # noqa: PLC0415  Hypothesis takes long to import

        register()


@pytest.fixture
def perago(tmp_path: Path) -> Trial:
    """Return what tries a setting with your own store, table or runtime, and fails the test if a property breaks."""
    from hypothesis import settings  # noqa: PLC0415  as above

    from perago_simulation.testing.trial import RUNS_PER_EXAMPLE, Trial  # noqa: PLC0415  as above

    return Trial(runs=RUNS_PER_EXAMPLE * settings().max_examples, folder=tmp_path)
