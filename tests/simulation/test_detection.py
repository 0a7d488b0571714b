"""Known protocol bugs are put in, one by one, and the state machine of Hypothesis must find each of them.

A seeded run of CI size for each bug here; ``PERAGO_MATRIX=full`` makes ten of each, of which nine must find it.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from perago_core.values import Backing
from perago_simulation.mutants.known_bugs import BUGS, Bug
from perago_simulation.testing import profiles, strategies
from perago_simulation.testing.state_machine import WorldMachine
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting
from tests.support.crash.seeds import FULL

#: The bugs that are looked for. Not among them are those that need the right two bodies and the right two deaths, as
#: a no-op without an anchor does: such a run finds them about every second time, and the explorer always (ADR 34).
SOUGHT = (
    "claim by existence",
    "always ours",
    "no owner rule",
    "relocate by id",
    "merge by id",
    "revoke everything",
    "reported first",
    "refusal completed",
    "asks for ever",
)
EXAMPLES = 1_000
SEEDS = range(10) if FULL else range(1)
ENOUGH = 9 if FULL else 1


def finds(bug: Bug, number: int) -> bool:
    """Say whether a run of CI size with this seed finds a bug; nothing is shrunk, and nothing is remembered."""

    @seed(number)
    class Sought(WorldMachine):
        where = strategies.settings([each for each in bug.backings if each is not Backing.SOFT])
        _caches = {}  # noqa: RUF012  worlds of this bug only

        def model(self, of: Setting) -> Model:
            return bug.make(of)

    once = settings(
        profiles.CI,
        stateful_step_count=15,
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        run_state_machine_as_test(Sought, settings=once)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("name", SOUGHT)
def test_a_known_bug_is_found(name: str) -> None:
    (bug,) = [each for each in BUGS if each.id == name]
    assert sum(finds(bug, number) for number in SEEDS) >= ENOUGH
