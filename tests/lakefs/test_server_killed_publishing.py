"""lakeFS dies of SIGKILL under the publications of a real worker, and comes back on the same data (CW-17, CW-18, N-04).

``PERAGO_CRASH_SEED`` draws the same moment again, ``PERAGO_MATRIX=full`` kills more servers.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.lakefs.cutting import HANDLED, play
from tests.lakefs.matrix_stack import POLICIES
from tests.support.crash.matrix import Verdict, figures
from tests.support.crash.seeds import FULL, seed
from tests.support.servers.lakefs import LAKEFS
from tests.support.servers.sharing import demand

DEATHS = 10 if FULL else 1


@pytest.mark.parametrize("backing", POLICIES)
def test_nothing_accepted_is_lost_when_the_server_is_killed_under_publications(tmp_path: Path, backing: str) -> None:
    """S-01 to S-06, S-19, S-21, S-33, L-01, without a residual: the requests of a dead server have died with it."""
    demand(LAKEFS)
    drawn = seed()
    chance = random.Random(drawn)
    verdicts: list[Verdict] = []
    for number in range(DEATHS):
        verdicts += play(tmp_path / str(number), POLICIES[backing], chance)
    print(f"\nlakeFS killed, {backing} (seed {drawn}): {figures(verdicts)}")  # noqa: T201  the figure
    assert [f"{each.case}: {sentence}" for each in verdicts for sentence in each.broken] == []
    missed = [str(each.case) for each in verdicts if not each.reached and each.case.point != HANDLED]
    assert missed == [], "only what the server was about to do may have been done before it died"
