"""The runtime's kill matrix on a bucket: a worker killed or stopped before or after any port call (CW-01 to CW-34).

A sample by another seed each time; ``PERAGO_CRASH_SEED`` draws it again. All of it is ``specs/kill-matrix-bucket.md``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.test_kill_matrix import BATCH, draw
from tests.support.crash.bucket_project import BucketProject
from tests.support.crash.matrix import Verdict, batches, discover, figures, play_batch
from tests.support.crash.registered import registered
from tests.support.crash.seeds import seed

pytestmark = pytest.mark.servers

SAMPLE = {"kill": 4, "stop": 2}


def test_nothing_accepted_is_lost_in_a_bucket_wherever_a_worker_is_killed_or_stopped(tmp_path: Path) -> None:
    """S-01 to S-06, S-19, S-21, S-33: as on the embedded stack, and nothing is left once it was collected."""
    drawn = seed()
    points = discover(tmp_path / "discover", "auto", BucketProject)
    assert any(case.point == "store.claim.after" for case in points)
    chance = random.Random(drawn)
    for action in ("kill", "stop"):
        cases = draw(points, SAMPLE[action], chance)
        verdicts: list[Verdict] = []
        for number, batch in enumerate(batches(cases, BATCH[action])):
            verdicts += play_batch(tmp_path / f"{action}{number}", "auto", action, batch, BucketProject)
        allowed = registered("atomic", action)
        print(f"\nbucket, {action} (seed {drawn}): {figures(verdicts, allowed)}")  # noqa: T201  the figure
        broken = [f"{each.case}: {s}" for each in verdicts for s in each.broken if not allowed(s)]
        assert broken == [], "\n".join(broken)
        missed = [str(each.case) for each in verdicts if not each.reached]
        assert len(missed) * 10 <= len(verdicts), f"too many victims never came to their point: {missed}"
