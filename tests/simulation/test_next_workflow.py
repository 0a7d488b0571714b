"""Workflows one after the other: what the last attempt of a failed one has on its way when the next one starts."""

from __future__ import annotations

from typing import Any

import pytest

from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.world.model import Model
from perago_simulation.world.settings import setting
from perago_simulation.world.state import Run, World
from perago_simulation.world.strangers import Moves

#: Two attempts may die, each with a request on its way; nothing else goes wrong, and the next workflow is started
#: without looking whether anybody of the first may still act.
NOT_PINNED: dict[str, Any] = {"attempts": 2, "crashes": 2, "pauses": False, "workflows": 2, "pinned": False}
PAUSED: dict[str, Any] = {"attempts": 1, "crashes": 0, "no_ops": True, "workflows": 2}


class RevokesItsOwnTaskOnly(Model):
    """A revocation leaves the names of other tasks alone, though they have ended."""

    def _work(self, world: World, index: int, run: Run) -> Moves:
        mine = world.tasks[run.task].step
        others = [(each, at) for each, at in world.names if world.tasks[world.runs[each].task].step != mine]
        for label, after in super()._work(world, index, run):
            kept = tuple(sorted({*after.names, *others}))
            yield label, after._replace(names=kept) if label[1:] == ("RevokeOlder", "Revoked") else after


@pytest.mark.parametrize(
    ("backing", "moves", "with_no_ops"),
    [(Backing.CONDITIONAL, 49, 41), (Backing.LOCKED, 59, 51)],
    ids=["conditional", "locked"],
)
def test_revoking_only_the_own_task_loses_what_the_next_workflow_was_accepted_with(
    backing: Backing, moves: int, with_no_ops: int
) -> None:
    """S-01: attempt 1 publishes and dies, attempt 2 dies with its replacement on its way, the next one is accepted."""
    of = setting(backing, **NOT_PINNED)
    assert explore(RevokesItsOwnTaskOnly(of)).broken()["S-01"] == moves
    assert explore(RevokesItsOwnTaskOnly(setting(backing, **NOT_PINNED, no_ops=True))).broken()["S-01"] == with_no_ops
    assert "S-01" not in explore(Model(of)).broken()


@pytest.mark.parametrize("backing", [Backing.CONDITIONAL, Backing.LOCKED])
@pytest.mark.parametrize("ledger", [False, True])
def test_three_workflows_in_sequence_lose_nothing(backing: Backing, ledger: bool) -> None:
    """S-01 to S-04: each starts from what the one before it left, whatever that is."""
    found = explore(setting(backing, ledger=ledger, **{**PAUSED, "workflows": 3, "no_ops": False}))
    assert (found.complete, found.broken()) == (True, {})


@pytest.mark.parametrize("ledger", [False, True])
def test_a_pin_revokes_the_return_of_a_no_op_on_atomic(ledger: bool) -> None:
    """S-01: it made no name, so a late return took away what the next workflow was accepted with, in 31 moves or 37."""
    pinned = explore(setting(Backing.ATOMIC, **{**NOT_PINNED, "pinned": True, "no_ops": True, "ledger": ledger}))
    assert (pinned.complete, pinned.broken()) == (True, {})
    assert "S-01" in explore(setting(Backing.ATOMIC, **{**NOT_PINNED, "no_ops": True, "ledger": ledger})).broken()


def test_a_pinned_start_is_what_keeps_a_late_publication_away() -> None:
    """S-02b: the pin alone holds where attempts revoke their own task only, for nobody else can start a workflow."""
    of = setting(Backing.CONDITIONAL, **{**NOT_PINNED, "pinned": True})
    assert explore(RevokesItsOwnTaskOnly(of)).broken() == {}
    assert "S-02" in explore(setting(Backing.CONDITIONAL, **NOT_PINNED)).broken()


def test_the_next_workflow_starts_where_the_one_before_it_ended() -> None:
    """With one workflow nothing changes: the worlds are those there were before there could be more."""
    one = explore(setting(Backing.CONDITIONAL, **{**PAUSED, "workflows": 1}))
    two = explore(setting(Backing.CONDITIONAL, **PAUSED))
    assert one.distinct < two.distinct
    assert "2 workflows in sequence, 1 step(s) of 1 attempt(s)" in setting(Backing.SOFT, **PAUSED).bounds()
