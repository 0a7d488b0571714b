"""What costs an attempt and breaks no promise (ADR 34): each is reachable, safe, and over with the next attempt."""

from __future__ import annotations

import pytest

from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.properties.publication import PUBLISHING
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import COMPLETED, FAILED, RUNNING, World


def _failed_under_its_claimant(_setting: Setting, world: World) -> str | None:
    """Return a task that ended while the execution that claimed it still works."""
    for claim in world.claims:
        task, run = int(claim.task_id[1:]), int(claim.execution[1:])
        if world.tasks[task].status == FAILED and world.runs[run].fate == RUNNING:
            return f"t{task} failed, and e{run} works on it"
    return None


def _second_step_failed(_setting: Setting, world: World) -> str | None:
    last = world.tasks[-1]
    return "found" if last.step == 1 and last.status == FAILED else None


def _second_step_done_by_a_retry(_setting: Setting, world: World) -> str | None:
    last = world.tasks[-1]
    return "found" if (last.step, last.number, last.status) == (1, 2, COMPLETED) else None


def _sight(judge: object) -> Property:
    return Property("seen", "never", When.ALWAYS, judge)  # type: ignore[arg-type]


@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED], ids=lambda each: each.value)
def test_a_duplicate_that_fails_before_its_claim_may_end_the_winners_attempt_and_harms_nothing(
    backing: Backing,
) -> None:
    """S-01 to S-04 hold; what the winner had published is replaced like any abandoned publication."""
    of = setting(backing, attempts=1, crashes=0, duplicates=1, refusals=1, pauses=False)
    found = explore(of, [*PROPERTIES, _sight(_failed_under_its_claimant)])
    assert found.complete
    assert set(found.broken()) == {"seen"}


def test_the_next_step_may_meet_a_busy_lease_and_the_retry_completes_it() -> None:
    """L-04: the worker of the accepted step gives its lease back after the report; until then the next is refused."""
    for sight, attempts in ((_second_step_failed, 1), (_second_step_done_by_a_retry, 2)):
        of = setting(Backing.LOCKED, attempts=attempts, steps=2, crashes=0, pauses=False)
        assert set(explore(of, [*PROPERTIES, _sight(sight)]).broken()) == {"seen"}


@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL], ids=lambda each: each.value)
def test_of_three_attempts_with_equal_trees_a_stale_one_may_send_what_the_store_refuses(backing: Backing) -> None:
    """S-16 at its letter: it listed the claims before the third attempt came, and takes its commit for the first's.

    The third has raised the claim, or revoked the name, so that nothing lands: S-01 to S-04 hold.
    """
    of = setting(backing, attempts=3, crashes=0, same_tree=True)
    found = explore(of, [*PROPERTIES, *(each for each in PUBLISHING if each.id == "S-16")])
    assert found.complete
    assert set(found.broken()) == {"S-16"}
