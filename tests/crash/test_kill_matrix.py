"""A worker killed or stopped before or after any port call, on any route, on any backing (issue 5; CW-01 to CW-34).

``make test`` plays a sample that another seed draws each time; ``PERAGO_CRASH_SEED`` draws it again. Every case is
played for ``specs/kill-matrix.md``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.crash.matrix import POLICIES, Case, Verdict, batches, discover, figures, never_reached, play_batch
from tests.support.crash.registered import registered
from tests.support.crash.seeds import seed

#: Cases of each backing in a sample. Whoever is stopped stays in memory until the end of its batch.
SAMPLE = {"kill": 12, "stop": 6}
BATCH = {"kill": 40, "stop": 12}


Found = tuple[str, tuple[Case, ...]]


@pytest.fixture(scope="module", params=POLICIES)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return a backing and the cases of it."""
    backing: str = request.param
    return backing, discover(tmp_path_factory.mktemp("discover") / backing, POLICIES[backing])


def test_nothing_accepted_is_lost_wherever_a_worker_is_killed_or_stopped(tmp_path: Path, found: Found) -> None:
    """Kill: every promise holds at rest (S-01 to S-06, S-19, S-21, S-33). Stop: as far as the ladder promises it."""
    backing, points = found
    drawn = seed()
    chance = random.Random(drawn)
    for action in ("kill", "stop"):
        cases = draw(points, SAMPLE[action], chance)
        verdicts: list[Verdict] = []
        for number, batch in enumerate(batches(cases, BATCH[action])):
            verdicts += play_batch(tmp_path / f"{action}{number}", POLICIES[backing], action, batch)
        allowed = registered(backing, action)
        print(f"\n{backing}, {action} (seed {drawn}): {figures(verdicts, allowed)}")  # noqa: T201  the figure
        broken = [(str(each.case), s) for each in verdicts for s in each.broken if not allowed(s)]
        assert broken == [], "\n".join(f"{case}: {sentence}" for case, sentence in broken)
        missed = [str(each.case) for each in verdicts if not each.reached]
        assert len(missed) * 10 <= len(verdicts), f"too many victims never came to their point: {missed}"


def test_the_points_of_a_route_are_those_a_worker_really_passes(found: Found) -> None:
    """Every port call that moves a branch, or tells of it, is among them; what no route passes is named."""
    backing, points = found
    print(f"\n{backing}: {len(points)} cases; never passed: {', '.join(never_reached(points))}")  # noqa: T201  the figure
    passed = {case.point.rpartition(".")[0] for case in points}
    assert {"store.publish", "orchestrator.poll", "orchestrator.extend", "orchestrator.report"} <= passed
    publishing = {"first", "replacement", "return", *(["adoption"] if backing == "soft" else [])}
    assert {case.route for case in points if case.point.startswith("store.publish")} == publishing


def draw(points: tuple[Case, ...], size: int, chance: random.Random) -> tuple[Case, ...]:
    """Draw cases, at least one of the publication itself, because that is where it matters most."""
    worst = [case for case in points if case.point == "store.publish.after"]
    return (chance.choice(worst), *chance.sample([case for case in points if case not in worst], size - 1))
