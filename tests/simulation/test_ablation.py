"""What each step is for: leaving it out breaks what it is there for."""

from __future__ import annotations

import pytest

from perago_core.values import Backing
from perago_simulation.catalogue.ablation import CHANGES, ablation, effect

#: The steps the promises about the branch hang on, with what breaks first.
BRANCH = {
    ("no revocation", Backing.CONDITIONAL): "S-02b in 27 (crash)",
    ("no barrier", Backing.CONDITIONAL): "S-02b in 27 (crash)",
    ("barrier before revocation", Backing.CONDITIONAL): "S-02b in 29 (crash)",
    ("barrier before revocation", Backing.LOCKED): "S-02b in 35 (crash)",
    ("no claim", Backing.CONDITIONAL): "S-02b in 28 (duplicate)",
    ("no second fence", Backing.CONDITIONAL): "S-02b in 30 (no-op)",
    ("no read-back", Backing.LOCKED): "S-04 in 18 (stranger)",
    ("no mark of a no-op that others adopt", Backing.ATOMIC): "S-41 in 27 (twins)",
    ("no silence of who is outranked", Backing.CONDITIONAL): "S-41 in 31 (twins)",
    ("what is read does not count as a conflict", Backing.ATOMIC): "S-42 in 32 (shared, crossed)",
    ("what is read does not count as a conflict", Backing.CONDITIONAL): "S-42 in 36 (shared, crossed)",
    ("nothing counts as a conflict", Backing.ATOMIC): "S-42 in 32 (shared, crossed)",
    ("nothing counts as a conflict", Backing.CONDITIONAL): "S-42 in 36 (shared, crossed)",
    ("no word on whether what lies between is accepted", Backing.ATOMIC): "S-03 in 30 (shared, disjoint)",
    ("no word on whether what lies between is accepted", Backing.CONDITIONAL): "S-03 in 34 (shared, disjoint)",
    ("no look whether the input is below the head", Backing.ATOMIC): "S-04 in 33 (shared, reset)",
    ("no look whether the input is below the head", Backing.CONDITIONAL): "S-04 in 37 (shared, reset)",
    ("no pin at an accepted commit", Backing.ATOMIC): "S-43 in 30 (shared, crossed)",
    ("no pin at an accepted commit", Backing.CONDITIONAL): "S-43 in 34 (shared, crossed)",
}


@pytest.mark.parametrize(
    ("case", "expected"), BRANCH.items(), ids=[f"{what}-{backing.value}" for what, backing in BRANCH]
)
def test_leaving_out_a_step_breaks_what_it_is_for(case: tuple[str, Backing], expected: str) -> None:
    assert effect(*case).branch == expected


@pytest.mark.parametrize(
    ("what", "backing"),
    [("no staging name", Backing.CONDITIONAL), ("no staging name", Backing.LOCKED), ("no claim", Backing.ATOMIC)],
)
def test_a_branch_that_nobody_can_publish_to_is_not_said_to_hold(what: str, backing: Backing) -> None:
    assert effect(what, backing).branch == "cannot publish"


def test_an_order_that_is_wrong_is_noticed_before_anything_runs() -> None:
    assert effect("no clean-up", Backing.ATOMIC).order == ()
    assert effect("no fence before calling it ours", Backing.ATOMIC).order == ("S-05b",)


def test_the_table_says_what_breaks_where_and_in_how_many_steps() -> None:
    text = ablation([effect("no barrier", Backing.CONDITIONAL)])
    assert "| no barrier | conditional |  | S-02b in 27 (crash) |" in text
    assert len({change.what for change in CHANGES}) == len(CHANGES)
