"""The runtime's kill matrix on lakeFS: a worker killed or stopped before or after any port call (CW-01 to CW-34).

A sample by another seed each time; ``PERAGO_CRASH_SEED`` draws it again. All of it is ``specs/kill-matrix-lakefs.md``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.test_kill_matrix import BATCH, draw
from tests.lakefs.matrix_stack import POLICIES
from tests.support.crash.lakefs_project import LakeFSProject
from tests.support.crash.matrix import Verdict, batches, discover, figures, play_batch
from tests.support.crash.registered import registered
from tests.support.crash.seeds import seed
from tests.support.servers.lakefs import LAKEFS
from tests.support.servers.sharing import demand

SAMPLE = {"kill": 10, "stop": 5}


@pytest.mark.parametrize("backing", POLICIES)
def test_nothing_accepted_is_lost_on_lakefs_wherever_a_worker_is_killed_or_stopped(
    tmp_path: Path, backing: str
) -> None:
    """S-01 to S-06, S-19, S-21, S-33: as on the embedded stack, judged by a stranger's requests."""
    demand(LAKEFS)
    policy, drawn = POLICIES[backing], seed()
    points = discover(tmp_path / "discover", policy, LakeFSProject)
    assert any(case.point == "store.claim.after" for case in points) is (backing != "soft")
    chance = random.Random(drawn)
    for action in ("kill", "stop"):
        cases = draw(points, SAMPLE[action], chance)
        verdicts: list[Verdict] = []
        for number, batch in enumerate(batches(cases, BATCH[action])):
            verdicts += play_batch(tmp_path / f"{action}{number}", policy, action, batch, LakeFSProject)
        allowed = registered(backing, action)
        print(f"\nlakeFS, {backing}, {action} (seed {drawn}): {figures(verdicts, allowed)}")  # noqa: T201  the figure
        broken = [f"{each.case}: {s}" for each in verdicts for s in each.broken if not allowed(s)]
        assert broken == [], "\n".join(broken)
        missed = [str(each.case) for each in verdicts if not each.reached]
        assert len(missed) * 10 <= len(verdicts), f"too many victims never came to their point: {missed}"
